// The Director and the UAA of these specs are fakes, because a Director needs an IaaS: TLS servers that answer as the
// code and the documentation of the Director and of UAA say they do, and as bosh-cli's client expects.
package director_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/director"
)

const (
	secret = "planted-s3cret"
	token  = "planted-token"
)

// A site is a Director with its UAA. The response of each path can be replaced.
type site struct {
	director, uaa *httptest.Server
	replaced      map[string]http.HandlerFunc
	requests      []string
}

func newSite(authentication string) *site {
	s := &site{replaced: map[string]http.HandlerFunc{}}
	s.uaa = s.serve(map[string]http.HandlerFunc{"POST /oauth/token": func(w http.ResponseWriter, r *http.Request) {
		client, given, _ := r.BasicAuth()
		if client != "broker" || given != secret || r.FormValue("grant_type") != "client_credentials" {
			answer(w, http.StatusUnauthorized,
				map[string]any{"error": "unauthorized", "error_description": "Bad credentials"})
			return
		}
		answer(w, http.StatusOK, map[string]any{"access_token": token, "token_type": "bearer", "expires_in": 43199})
	}})
	s.director = s.serve(map[string]http.HandlerFunc{
		"GET /info": func(w http.ResponseWriter, r *http.Request) {
			options := map[string]any{}
			if authentication == "uaa" {
				options["url"], options["urls"] = s.uaa.URL, []string{s.uaa.URL}
			}
			answer(w, http.StatusOK, map[string]any{
				"name": "bosh", "uuid": "u", "user": nil,
				"user_authentication": map[string]any{"type": authentication, "options": options},
			})
		},
		"GET /deployments": func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			if r.Header.Get("Authorization") != "Bearer "+token && (user != "admin" || password != secret) {
				http.Error(w, "Not authorized: '/deployments'", http.StatusUnauthorized)
				return
			}
			answer(w, http.StatusOK, []any{
				map[string]any{
					"name": "cf", "releases": []any{}, "stemcells": []any{}, "cloud_config": "latest", "teams": []any{},
				},
				map[string]any{"name": "service-instance_i1"},
			})
		},
	})
	return s
}

func (s *site) serve(handlers map[string]http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Method + " " + r.URL.Path
		s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
		if handler := s.replaced[name]; handler != nil {
			handler(w, r)
		} else if handler := handlers[name]; handler != nil {
			handler(w, r)
		} else {
			http.NotFound(w, r)
		}
	}))
	server.Config.ErrorLog = log.New(GinkgoWriter, "", 0)
	server.StartTLS()
	DeferCleanup(server.Close)
	return server
}

func answer(w http.ResponseWriter, status int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	Expect(json.NewEncoder(w).Encode(document)).To(Succeed())
}

// says returns a handler that always sends the same response.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}
}

func (s *site) config() *director.Config {
	return &director.Config{
		URL: s.director.URL, CACert: certificate(s.director), ClientID: "broker", ClientSecret: secret,
	}
}

func certificate(server *httptest.Server) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

func deployments(ctx context.Context, config *director.Config) ([]string, error) {
	client, err := director.New(config)
	if err != nil {
		return nil, err
	}
	return client.Deployments(ctx)
}

var _ = Describe("A Director", func() {
	It("with UAA lists its deployments for a client's token", func(ctx context.Context) {
		s := newSite("uaa")
		Expect(deployments(ctx, s.config())).To(Equal([]string{"cf", "service-instance_i1"}))
		Expect(s.requests).To(
			Equal([]string{"GET /info", "POST /oauth/token", "GET /deployments?exclude_configs=true"}))
	})

	It("without UAA lists its deployments for a user", func(ctx context.Context) {
		s := newSite("basic")
		config := &director.Config{
			URL: strings.TrimPrefix(s.director.URL, "https://"), CACert: certificate(s.director),
			Username: "admin", Password: secret,
		}
		Expect(deployments(ctx, config)).To(HaveLen(2))
	})

	It("returns manifests, with one login for many requests", func(ctx context.Context) {
		for _, kind := range []string{"uaa", "basic"} {
			s := newSite(kind)
			s.replaced["GET /deployments/service-instance_i1"] = says(http.StatusOK,
				`{"manifest":"name: service-instance_i1\n"}`)
			s.replaced["GET /deployments/a/b"] = says(http.StatusOK, `{"manifest":null}`)
			config := s.config()
			if kind == "basic" {
				config.ClientID, config.ClientSecret, config.Username, config.Password = "", "", "admin", secret
			}
			client, err := director.New(config)
			Expect(err).NotTo(HaveOccurred())
			Expect(client.Deployments(ctx)).To(HaveLen(2))
			Expect(client.Manifest(ctx, "service-instance_i1")).To(Equal("name: service-instance_i1\n"))
			_, err = client.Manifest(ctx, "a/b")
			Expect(err).To(MatchError(HaveSuffix("has no manifest of a/b: none of its deployments has succeeded")))
			s.replaced["GET /deployments/gone"] = says(http.StatusNotFound,
				`{"code":70000,"description":"Deployment 'gone' doesn't exist `+secret+` `+token+`"}`)
			_, err = client.Manifest(ctx, "gone")
			Expect(err).To(MatchError(MatchRegexp(
				"for the manifest of gone: it answered 404 Not Found: Deployment 'gone' doesn't exist \\[redacted\\]")))
			login := map[string]int{"uaa": 2, "basic": 1}[kind]
			Expect(s.requests[login:]).To(Equal([]string{
				"GET /deployments?exclude_configs=true", "GET /deployments/service-instance_i1",
				"GET /deployments/a%2Fb", "GET /deployments/gone",
			}))
		}
	})

	It("receives another login after one failed", func(ctx context.Context) {
		s := newSite("uaa")
		client, err := director.New(s.config())
		Expect(err).NotTo(HaveOccurred())
		s.replaced["POST /oauth/token"] = says(http.StatusServiceUnavailable, "")
		_, err = client.Deployments(ctx)
		Expect(err).To(HaveOccurred())
		delete(s.replaced, "POST /oauth/token")
		Expect(client.Deployments(ctx)).To(HaveLen(2))
	})

	It("may have no deployments", func(ctx context.Context) {
		s := newSite("uaa")
		s.replaced["GET /deployments"] = says(http.StatusOK, "[]")
		Expect(deployments(ctx, s.config())).To(BeEmpty())
	})

	DescribeTable("with an unexpected response causes an error of one line without secrets",
		func(ctx context.Context, path string, handler http.HandlerFunc, wanted string) {
			s := newSite("uaa")
			s.replaced[path] = handler
			_, err := deployments(ctx, s.config())
			Expect(err).To(
				MatchError(MatchRegexp("^(asking )?the (Director|UAA) https://127.0.0.1:[0-9]+ .*" + wanted + "$")))
			Expect(err.Error()).NotTo(ContainSubstring("planted"))
		},
		Entry("no access", "GET /deployments",
			says(401, `{"code":600000,"description":"Require one of the\n scopes: bosh.admin"}`),
			"for its deployments: it answered 401 Unauthorized: Require one of the scopes: bosh.admin"),
		Entry("a page", "GET /deployments", says(502, "<html>"), "for its deployments: it answered 502 Bad Gateway"),
		Entry("a message that repeats secrets of the request", "GET /deployments",
			says(400, `{"description":"planted-s3cret planted-token\u001b[31m"}`),
			": \\[redacted\\] \\[redacted\\] \\[31m"),
		Entry("a long text", "GET /deployments", says(400, `{"description":"`+strings.Repeat("x", 999)+`"}`),
			"400 Bad Request: x{200}…"),
		Entry("no list", "GET /deployments", says(200, `{"deployments":[]}`), "the answer is not the expected JSON"),
		Entry("null", "GET /deployments", says(200, `null`), "the answer is not a list"),
		Entry("half a list", "GET /deployments", says(200, `[{"name":"cf"},`), "the answer is not the expected JSON"),
		Entry("no names", "GET /deployments", says(200, `[{"nome":"cf"}]`),
			"the answer contains a deployment without a name"),
		Entry("another service", "GET /info", says(200, `{}`),
			`requires the authentication "", not uaa or basic: check that this is the URL of a Director`),
		Entry("no UAA", "GET /info", says(200, `{"user_authentication":{"type":"uaa","options":{}}}`),
			`names "" as its UAA, which is not an https URL`),
		Entry("a UAA in the clear", "GET /info",
			says(200, `{"user_authentication":{"type":"uaa","options":{"url":"http://uaa"}}}`),
			`names "http://uaa" as its UAA, which is not an https URL`),
		Entry("a wrong client", "POST /oauth/token",
			says(401, `{"error":"unauthorized","error_description":"Bad credentials"}`),
			"for a token: it answered 401 Unauthorized: Bad credentials"),
		Entry("no token", "POST /oauth/token", says(200, `{}`), "for a token: the answer does not contain one"),
	)

	DescribeTable("is not followed to another host", func(ctx context.Context, path string) {
		var followed int
		other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed++ }))
		DeferCleanup(other.Close)
		s := newSite("uaa")
		s.replaced[path] = func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}
		config := s.config()
		config.CACert += certificate(other)
		_, err := deployments(ctx, config)
		Expect(err).To(MatchError(HaveSuffix("it answered 307 Temporary Redirect")))
		Expect(followed).To(BeZero())
	},
		Entry(nil, "GET /info"),
		Entry(nil, "GET /deployments"),
		Entry(nil, "POST /oauth/token"),
	)

	DescribeTable("requires the credentials of its kind of authentication", func(
		ctx context.Context, kind string, config director.Config, wanted string,
	) {
		s := newSite(kind)
		config.URL, config.CACert = s.director.URL, certificate(s.director)
		_, err := deployments(ctx, &config)
		Expect(err).To(MatchError(ContainSubstring(wanted)))
		Expect(s.requests).To(Equal([]string{"GET /info"}), "nothing was sent to somebody else")
	},
		Entry(nil, "uaa", director.Config{Username: "admin", Password: secret},
			"uses UAA: set client_id and client_secret"),
		Entry(nil, "basic", director.Config{ClientID: "broker", ClientSecret: secret},
			"does not use UAA: set username and password"),
	)

	It("must have a trusted certificate", func(ctx context.Context) {
		s := newSite("uaa")
		config := s.config()
		config.CACert = ""
		_, err := deployments(ctx, config)
		Expect(err).To(MatchError(ContainSubstring("certificate signed by unknown authority")))
		Expect(s.requests).To(BeEmpty())
	})

	It("is not waited for after the context has ended", func(ctx context.Context) {
		s := newSite("uaa")
		ctx, cancel := context.WithCancel(ctx)
		s.replaced["GET /deployments"] = func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		}
		_, err := deployments(ctx, s.config())
		Expect(err).To(MatchError(context.Canceled))
	})

	It("that does not answer a login keeps no other caller beyond its own context", func(ctx context.Context) {
		s := newSite("uaa")
		asked := make(chan struct{}, 1)
		s.replaced["GET /info"] = func(_ http.ResponseWriter, r *http.Request) {
			asked <- struct{}{}
			<-r.Context().Done()
		}
		client, err := director.New(s.config())
		Expect(err).NotTo(HaveOccurred())
		call := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := client.Deployments(ctx)
				done <- err
			}()
			return done
		}
		first, endFirst := context.WithCancel(ctx)
		defer endFirst()
		loggingIn := call(first)
		Eventually(asked).WithContext(ctx).WithTimeout(patience).Should(Receive())
		second, endSecond := context.WithCancel(ctx)
		waiting := call(second)
		third := call(ctx)
		endSecond()
		Eventually(waiting).WithTimeout(patience).Should(Receive(MatchError(context.Canceled)))
		Expect(loggingIn).NotTo(Receive())

		By("letting the next caller log in when the first one gives up")
		delete(s.replaced, "GET /info")
		endFirst()
		Eventually(loggingIn).WithTimeout(patience).Should(Receive(MatchError(context.Canceled)))
		Eventually(third).WithTimeout(patience).Should(Receive(BeNil()))
	})
})

// patience is how long a spec waits for something that takes milliseconds.
const patience = 30 * time.Second

var _ = Describe("The configuration", func() {
	DescribeTable("is rejected", func(config director.Config, wanted string) {
		_, err := director.New(&config)
		Expect(err).To(MatchError(wanted))
	},
		Entry("without URL", director.Config{ClientID: "a", ClientSecret: "b"}, "url is missing"),
		Entry("without credentials", director.Config{URL: "https://d"}, credentials),
		Entry("with half of them", director.Config{URL: "https://d", ClientID: "a"}, credentials),
		Entry("with both kinds", director.Config{URL: "https://d", ClientID: "a", ClientSecret: "b", Username: "c"},
			credentials),
		Entry("in the clear", director.Config{URL: "http://d", ClientID: "a", ClientSecret: "b"},
			"url must be https://HOST:PORT"),
		Entry("with a user in the URL",
			director.Config{URL: "https://a:" + secret + "@d", ClientID: "a", ClientSecret: "b"},
			"url must be https://HOST:PORT"),
		Entry("with a path", director.Config{URL: "https://d/info", ClientID: "a", ClientSecret: "b"},
			"url must be https://HOST:PORT"),
		Entry("with no host", director.Config{URL: "https://:25555", ClientID: "a", ClientSecret: "b"},
			"url must be https://HOST:PORT"),
		Entry("with a wrong certificate",
			director.Config{URL: "https://d", ClientID: "a", ClientSecret: "b", CACert: "x"},
			"ca_cert must be certificates in PEM"),
	)

	DescribeTable("determines the address of the Director", func(url, address string) {
		client, err := director.New(&director.Config{URL: url, ClientID: "a", ClientSecret: "b"})
		Expect(err).NotTo(HaveOccurred())
		Expect(client.Address()).To(Equal(address))
	},
		Entry(nil, "10.0.0.6", "https://10.0.0.6:25555"),
		Entry(nil, "https://bosh.example.com/", "https://bosh.example.com:25555"),
		Entry(nil, "https://[2001:db8::1]:443", "https://[2001:db8::1]:443"),
	)
})

const credentials = "either client_id and client_secret or username and password must be set"
