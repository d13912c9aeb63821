package backends_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// traffic counts the requests to an S3 server, and the objects in the lists that the server returned.
type traffic struct{ requests, listed int64 }

// counted starts a proxy in front of the S3 server of a world. It returns the address of the proxy, and a function that
// returns the traffic of a command.
func (w *world) counted() (address string, of func(command func()) traffic) {
	GinkgoHelper()
	target, err := url.Parse(w.server.URL())
	Expect(err).NotTo(HaveOccurred())
	var requests, listed atomic.Int64
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // the signature covers the host
			requests.Add(1)
		},
		ModifyResponse: func(answer *http.Response) error {
			if answer.Request.URL.Query().Get("list-type") == "" {
				return nil
			}
			text, err := io.ReadAll(answer.Body)
			listed.Add(int64(bytes.Count(text, []byte("<Contents>"))))
			answer.Body = io.NopCloser(bytes.NewReader(text))
			return err
		},
	})
	DeferCleanup(proxy.Close)
	return proxy.URL, func(command func()) traffic {
		requests.Store(0)
		listed.Store(0)
		command()
		return traffic{requests.Load(), listed.Load()}
	}
}

var _ = Describe("a binding among many in s3", func() {
	It("needs no more requests than the first binding", kit.Slow(), func(ctx context.Context) {
		const others, pageSize = 2100, 1000
		w := newWorld(ctx, s3)
		m := w.bareMachine()
		address, of := w.counted()
		state := w.state()
		state["config"].(object)["endpoints"] = object{"s3": address}
		m.set(object{"state": state})
		m.deploy(ctx)
		bind := func(id string) traffic {
			return of(func() { w.works(id, m.credentials(m.bind(ctx, id))) })
		}
		unbind := func(id string) traffic {
			return of(func() { Expect(m.unbind(ctx, id).Exit).To(Equal(0)) })
		}
		bind("bind-1") // also prepares the template
		first := bind("bind-2")
		Expect(first.requests).To(BeNumerically(">", 10))
		firstEnd := unbind("bind-2")

		text := w.text("bind-1")
		for n := range others {
			path := w.object("env:", fmt.Sprintf("b-other-%d", n), "state")
			Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
			Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		}
		Expect(bind("bind-2")).To(Equal(first))
		failing := m.bindParameters("bind-3", object{"failure": 1})
		Expect(of(func() {
			Expect(m.call(ctx, createBinding, failing).Exit).To(Equal(1))
		}).listed).To(BeNumerically("<=", 2*others+50))
		Expect(of(func() { Expect(m.unbind(ctx, "bind-3").Exit).To(Equal(41)) }).listed).To(BeZero())
		// OpenTofu deletes the object in the end, and looks it up twice.
		end := unbind("bind-2")
		Expect(end.requests).To(Equal(firstEnd.requests + 2*(others/pageSize)))
		Expect(end.listed).To(Equal(firstEnd.listed + 2*others))
	})
})
