package rabbitmq_test

import (
	"context"
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"
)

// A gate is a proxy in front of the management API. It passes a request for which it is shut to the node, but does not
// return the response.
type gate struct {
	*httptest.Server

	shut atomic.Value  // the beginning of "METHOD path"; the gate is open if it is ""
	at   chan struct{} // receives a value when such a request has arrived
}

// newGate starts a gate, which is open, until the spec ends.
func newGate() *gate {
	GinkgoHelper()
	g := &gate{at: make(chan struct{}, 1)}
	g.shut.Store("")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{
		Scheme: "http",
		Host:   net.JoinHostPort(server.Host, strconv.Itoa(server.ManagementPort)),
	})
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shut, _ := g.shut.Load().(string)
		if shut == "" || !strings.HasPrefix(r.Method+" "+r.URL.Path, shut) {
			proxy.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		g.at <- struct{}{}
		<-r.Context().Done() // the client has ended
	}))
	DeferCleanup(g.Close)
	return g
}

// site deploys an instance whose management API is behind the gate.
func (g *gate) site(ctx context.Context) site {
	GinkgoHelper()
	t := plain()
	t.killed = true
	address, err := url.Parse(g.URL)
	Expect(err).NotTo(HaveOccurred())
	port, err := strconv.Atoi(address.Port())
	Expect(err).NotTo(HaveOccurred())
	t.properties["management_port"] = port
	return newSite(ctx, t)
}

// killed runs a command of the adapter until the node has executed a request, calls inspect, and kills all processes of
// the site.
func (g *gate) killed(s site, request, command string, parameters object, inspect func()) {
	GinkgoHelper()
	g.shut.Store(request)
	input, err := odb.Input(command, parameters)
	Expect(err).NotTo(HaveOccurred())
	running := process.Start(s.Adapter, nil, input, command)
	Eventually(g.at).Should(Receive())
	inspect()
	process.End(s.Dir)
	running.Wait()
	g.shut.Store("")
}

var _ = Describe("a bind that is killed", func() {
	for _, request := range []string{"PUT /api/vhosts/", "PUT /api/users/", "PUT /api/permissions/"} {
		Describe("after "+request, kit.SlowIf(request != "PUT /api/users/"), func() {
			var (
				g *gate
				s site
			)

			BeforeEach(func(ctx context.Context) {
				g = newGate()
				s = g.site(ctx)
				g.killed(s, request, "create-binding", s.BindParameters("bind-1", nil), func() {
					secret := base64.StdEncoding.EncodeToString([]byte(server.User + ":" + server.Password))
					Expect(process.Below(s.Dir)).To(And(ContainElement(HaveField("Command", ContainSubstring("curl"))),
						HaveEach(HaveField("Command",
							Not(Or(ContainSubstring(server.Password), ContainSubstring(secret),
								ContainSubstring("password")))))))
				})
				Expect(names(ctx, "vhosts")).To(ConsistOf("/", "b-bind-1"))
			})

			It("is undone by delete-binding", func(ctx context.Context) {
				Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
				Expect(names(ctx, "users")).To(ConsistOf(server.User))
				Expect(names(ctx, "vhosts")).To(ConsistOf("/"))
				Expect(s.Workspaces()).To(BeEmpty())
			})

			It("is completed by the next create-binding", func(ctx context.Context) {
				Expect(publish(ctx, connect(s.Credentials(ctx, "bind-1", nil)), "orders", "one")).To(BeTrue())
				Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
				Expect(names(ctx, "vhosts")).To(ConsistOf("/"))
			})
		})
	}
})

var _ = DescribeTable("an unbind that is killed is finished by the next unbind",
	func(ctx context.Context, request string) {
		g := newGate()
		s := g.site(ctx)
		s.Credentials(ctx, "bind-1", nil)
		g.killed(s, request, "delete-binding", s.UnbindParameters("bind-1"), func() {})
		Expect(names(ctx, "users")).To(ConsistOf(server.User))
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		Expect(names(ctx, "vhosts")).To(ConsistOf("/"))
		Expect(s.Workspaces()).To(BeEmpty())
	},
	Entry("after the user was deleted", kit.Slow(), "DELETE /api/users/"),
	Entry("after the vhost was deleted", "DELETE /api/vhosts/"),
)
