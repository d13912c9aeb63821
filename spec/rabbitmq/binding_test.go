package rabbitmq_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	amqp "github.com/rabbitmq/amqp091-go"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/servers"
)

var _ = Describe("the example rabbitmq", func() {
	It("deploys nodes whose secrets are not in the manifest, without pending changes", func(ctx context.Context) {
		s := newSite(ctx, plain())
		Expect(s.Manifest).NotTo(ContainSubstring(server.Password))
		properties, _, err := s.JobProperties("rabbitmq")
		Expect(err).NotTo(HaveOccurred())
		Expect(properties["erlang"]).To(HaveKeyWithValue("cookie", MatchRegexp("^[A-Za-z0-9]{40}$")))
		before := s.Manifest
		again := s.Request(ctx, "generate-manifest", s.Generate(object{}))
		Expect(again.Exit).To(Equal(0), again.Stderr)
		Expect(s.Deploy(again.Stdout)).To(Succeed())
		Expect(odb.SameManifests(before, s.Manifest)).To(BeTrue())
		dashboard := s.Request(ctx, "dashboard-url", object{
			"instance_id": s.ID, "plan": s.Plan,
			"manifest": s.Manifest,
		})
		Expect(dashboard.Stdout).To(MatchJSON(fmt.Sprintf(
			`{"dashboard_url": "http://q-s0.node.default.service-instance-%s.bosh:%d/"}`, s.ID, server.ManagementPort)))
	})

	It("gives each binding a user and a vhost, which are deleted with it", func(ctx context.Context) {
		s := newSite(ctx, plain())
		const id = "4b1c3f4e-0d6a-4c1b-9d55-1f6f7f5d2a01"
		began := time.Now()
		one := s.Credentials(ctx, id, nil)
		AddReportEntry("create-binding", time.Since(began).Round(time.Millisecond).String())
		login := fmt.Sprintf("b-%s:%s@%s", id, one["password"], server.Host)
		uri := fmt.Sprintf("amqp://%s:%d/b-%s", login, server.Port, id)
		api := fmt.Sprintf("http://%s:%d/api/", login, server.ManagementPort)
		Expect(one).To(Equal(object{
			"username": "b-" + id, "vhost": "b-" + id, "password": one["password"], "uri": uri, "uris": []any{uri},
			"hostname": server.Host, "hostnames": []any{server.Host}, "port": float64(server.Port), "ssl": false,
			"http_api_uri": api, "http_api_uris": []any{api},
			"dashboard_url": fmt.Sprintf("http://%s:%d/", server.Host, server.ManagementPort),
		}))
		connection := connect(one)
		Expect(publish(ctx, connection, "orders", "one")).To(BeTrue())
		Expect(whoami(ctx, one)).To(Equal(http.StatusOK))
		two := s.Credentials(ctx, "an id/that is no name", nil)
		Expect(two["username"]).To(MatchRegexp("^bh-[0-9a-f]{40}$"))
		Expect(publish(ctx, connect(two), "orders", "two")).To(BeTrue())

		By("separating the bindings")
		foreign := fmt.Sprintf("amqp://%s:%s@%s/b-%s", two["username"], two["password"], server.Address(), id)
		_, err := dial(object{"uri": foreign})
		Expect(err).To(HaveOccurred())

		By("creating it again")
		Expect(s.CreateBinding(ctx, id, nil).Exit).To(Equal(49))
		Expect(take(connection, "orders")).To(Equal("one"))

		By("deleting it")
		closed := connection.NotifyClose(make(chan *amqp.Error, 1))
		began = time.Now()
		Expect(s.DeleteBinding(ctx, id).Exit).To(Equal(0))
		AddReportEntry("delete-binding", time.Since(began).Round(time.Millisecond).String())
		Eventually(closed).Should(Receive())
		_, err = dial(one)
		Expect(err).To(MatchError(ContainSubstring("username or password not allowed")))
		Expect(whoami(ctx, one)).To(Equal(http.StatusUnauthorized))
		Expect(names(ctx, "vhosts")).To(ConsistOf("/", two["vhost"]))
		Expect(s.DeleteBinding(ctx, id).Exit).To(Equal(41))
		Expect(s.DeleteBinding(ctx, "an id/that is no name").Exit).To(Equal(0))
		Expect(names(ctx, "users")).To(ConsistOf(server.User))
		Expect(names(ctx, "vhosts")).To(ConsistOf("/"))
		Expect(s.Workspaces()).To(BeEmpty())
	})

	It("verifies the certificate of BOSH, and gives the client its authority", kit.Slow(), func(ctx context.Context) {
		t := plain()
		t.properties = object{"nodes": 1, "port": server.TLSPort, "management_port": server.ManagementTLSPort}
		t.parameters = object{"tls": true}
		s := newSite(ctx, t)
		one := s.Credentials(ctx, "bind-1", nil)
		Expect(one).To(And(HaveKeyWithValue("ssl", true), HaveKeyWithValue("port", float64(server.TLSPort)),
			HaveKeyWithValue("uri", HavePrefix("amqps://")), HaveKeyWithValue("http_api_uri", HavePrefix("https://"))))
		Expect(publish(ctx, connect(one), "orders", "one")).To(BeTrue())
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		_, err := dial(one)
		Expect(err).To(MatchError(ContainSubstring("username or password not allowed")))

		By("rejecting a server of another authority")
		s.Secrets["((rabbitmq_tls.ca))"] = servers.NewCertificates(GinkgoT(), internalName).CA
		Expect(s.ExpectUnreachable(ctx, "bind-2", unreachable).Stderr).To(
			ContainSubstring(fmt.Sprintf("cannot reach RabbitMQ at %s:%d", server.Host, server.ManagementTLSPort)))
		Expect(names(ctx, "users")).To(ConsistOf(server.User))
	})

	It("tries the nodes of a cluster one after the other", kit.Slow(), func(ctx context.Context) {
		s := newSite(ctx, topology{
			plan:       cluster,
			properties: object{"nodes": 3, "tls": false, "port": server.Port, "management_port": server.ManagementPort},
			hosts:      []string{"127.0.0.2", "127.0.0.3", server.Host}, // no node listens on the first two addresses
		})
		one := s.Credentials(ctx, "bind-1", nil)
		Expect(one["hostnames"]).To(Equal([]any{"127.0.0.2", "127.0.0.3", server.Host}))
		Expect(one["uris"]).To(HaveLen(3))
		one["uri"] = one["uris"].([]any)[2]
		Expect(publish(ctx, connect(one), "orders", "one")).To(BeTrue())
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))

		s.VMs["node"] = []string{"127.0.0.2"}
		got := s.ExpectUnreachable(ctx, "bind-2", unreachable)
		Expect(got.Stderr).To(ContainSubstring(fmt.Sprintf("cannot reach RabbitMQ at 127.0.0.2:%d: curl: (7)",
			server.ManagementPort)))
		s.VMs["node"] = []string{server.Host}
		Expect(s.DeleteBinding(ctx, "bind-2").Exit).To(Equal(0))
		Expect(s.Workspaces()).To(BeEmpty())
	})

	It("moves an app from one binding to another", kit.Slow(), func(ctx context.Context) {
		s := newSite(ctx, plain())
		old := s.Credentials(ctx, "bind-1", object{"vhost": "orders"})
		Expect(publish(ctx, connect(old), "orders", "one")).To(BeTrue())
		current := s.Credentials(ctx, "bind-2", object{"vhost": "orders"})
		connection := connect(current)
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		_, err := dial(old)
		Expect(err).To(MatchError(ContainSubstring("username or password not allowed")))
		Expect(publish(ctx, connection, "orders", "two")).To(BeTrue())
		Expect(take(connection, "orders")).To(Equal("one"))
		Expect(s.DeleteBinding(ctx, "bind-2").Exit).To(Equal(0))
		Expect(names(ctx, "users")).To(ConsistOf(server.User))
		Expect(names(ctx, "vhosts")).To(ConsistOf("/", "orders"),
			"a vhost with a name of its own outlives the bindings")
	})

	It("sets policies, whose values no shell interprets", func(ctx context.Context) {
		s := newSite(ctx, plain())
		one := s.Credentials(ctx, "bind-1", object{"policies": object{
			"limit": object{"pattern": `^or\w*"$(touch evil)`, "definition": object{"max-length": 7}},
			"strict": object{
				"pattern": "^orders$", "definition": object{"max-length": 1, "overflow": "reject-publish"},
				"apply-to": "queues",
				"priority": 3, "vhost": "/", "name": "other",
			},
		}})
		Expect(manage(ctx, "GET", "policies", "")).To(MatchJSON(`[
			{"vhost": "b-bind-1", "name": "limit", "pattern": "^or\\w*\"$(touch evil)", "apply-to": "all",
			"definition": {"max-length": 7}, "priority": 0},
			{"vhost": "b-bind-1", "name": "strict", "pattern": "^orders$", "apply-to": "queues",
			 "definition": {"max-length": 1, "overflow": "reject-publish"}, "priority": 3}]`))
		connection := connect(one)
		Expect(publish(ctx, connection, "orders", "one")).To(BeTrue())
		Expect(publish(ctx, connection, "orders", "two")).To(BeFalse(), "the queue is full")
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		Expect(manage(ctx, "GET", "policies", "")).To(MatchJSON(`[]`))
	})

	DescribeTable("rejects the parameters", func(ctx context.Context, parameters object, text string) {
		s := newSite(ctx, plain())
		got := s.refused(ctx, "bind-1", parameters, text)
		Expect(got.Exit).To(Equal(1))
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(41))
	},
		Entry("of a policy that RabbitMQ does not support",
			object{"policies": object{"p": object{"pattern": ".*", "definition": object{"no-such-key": 1}}}},
			`RabbitMQ rejected a policy of parameter "policies"`),
		Entry("of a policy without a pattern", kit.Slow(),
			object{"policies": object{"p": object{"definition": object{"max-length": 1}}}},
			"RabbitMQ rejected a policy"),
		Entry("of a policy that is a text", kit.Slow(), object{"policies": object{"p": "PUT"}},
			"RabbitMQ rejected a policy"),
		Entry("of a policy with a path as its name", object{"policies": object{"..": object{}}}, "policies"),
		Entry("of a policy of two lines", object{"policies": object{"p\nq": object{}}}, "policies"),
		Entry("of the vhost of another binding", object{"vhost": "b-bind-2"}, `parameter "vhost" must not begin`),
		Entry("of a vhost with a path as its name", object{"vhost": ".."}, "vhost"),
		Entry("of the vhost of the administrator", object{"vhost": "/"}, "vhost"),
	)

	It("deletes a binding after the administrator's password was rotated, whatever characters it contains", kit.Slow(),
		func(ctx context.Context) {
			s := newSite(ctx, plain())
			s.Credentials(ctx, "bind-1", nil)
			old := server.Password
			change := func(ctx context.Context, password, quoted string) {
				manage(ctx, "PUT", "users/"+server.User, `{"tags": "administrator", "password": "`+quoted+`"}`)
				server.Password = password
			}
			change(ctx, `"'\n$(touch evil) `+"`id`"+` %41+ü&:@`, `\"'\\n$(touch evil) `+"`id`"+` %41+ü&:@`)
			DeferCleanup(change, old, old)
			got := s.DeleteBinding(ctx, "bind-1")
			Expect(got.Exit).To(Equal(1))
			Expect(got.Stdout).To(BeEmpty(), "the message is for the operator")
			Expect(got.Stderr).To(And(ContainSubstring("RabbitMQ rejected the login of the administrator"),
				Not(ContainSubstring(old))))

			s.Secrets[s.administrator()] = server.Password
			Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
			Expect(publish(ctx, connect(s.Credentials(ctx, "bind-2", nil)), "orders", "one")).To(BeTrue())
			Expect(s.DeleteBinding(ctx, "bind-2").Exit).To(Equal(0))
			Expect(names(ctx, "users")).To(ConsistOf(server.User))
		})

	It("changes the administrators' passwords of all instances with keepers, and the password of one app with a "+
		"second binding", kit.Slow(), func(ctx context.Context) {
		s := newSite(ctx, plain())
		connect(s.Credentials(ctx, "bind-1", nil))
		source, rotating := filepath.Join(s.Dir, "source"), filepath.Join(s.Dir, "rotating.brokerpak")
		Expect(os.CopyFS(source, os.DirFS(kit.Path("examples", "rabbitmq")))).To(Succeed())
		definition, err := os.ReadFile(filepath.Join(source, "rabbitmq.yml"))
		Expect(err).NotTo(HaveOccurred())
		const secret = "{name: admin_password, length: 32"
		Expect(string(definition)).To(ContainSubstring(secret))
		text := strings.Replace(string(definition), secret, secret+`, keepers: {rotation: '${config("rotation")}'}`, 1)
		Expect(os.WriteFile(filepath.Join(source, "rabbitmq.yml"), []byte(text), 0o600)).To(Succeed())
		built, err := s.Run(ctx, "", "pak", "build", source, "--target", "current", "--output", rotating,
			"--binary", "tofu="+kit.OpenTofu(GinkgoT(), kit.Newest))
		Expect(err).NotTo(HaveOccurred())
		Expect(built.Exit).To(Equal(0), built.Stderr)
		// upgrade does what upgrade-all-service-instances does after the operator has set the value.
		upgrade := func(rotation string) {
			GinkgoHelper()
			s.Configure(object{"paks": []string{rotating}, "config": object{"rotation": rotation}})
			got := s.GenerateManifest(ctx, object{})
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(s.Deploy(got.Stdout)).To(Succeed())
		}
		upgrade("2026-10")
		known := maps.Clone(s.Secrets)
		upgrade("2026-10")
		Expect(s.Secrets).To(Equal(known), "nothing has changed")
		upgrade("2026-11")
		old := server.Password
		for reference, value := range s.Secrets {
			if _, before := known[reference]; !before {
				Expect(server.Password).To(Equal(old), "only one password is new")
				// The job does this when it is deployed.
				manage(ctx, "PUT", "users/"+server.User, `{"tags": "administrator", "password": "`+value+`"}`)
				server.Password = value
			}
		}
		Expect(server.Password).NotTo(Equal(old))
		DeferCleanup(func(ctx context.Context) {
			manage(ctx, "PUT", "users/"+server.User, `{"tags": "administrator", "password": "`+old+`"}`)
			server.Password = old
		})

		second := connect(s.Credentials(ctx, "bind-2", nil))
		Expect(names(ctx, "users")).To(HaveLen(3), "the first user works until it is deleted")
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		Expect(publish(ctx, second, "orders", "one")).To(BeTrue())
		Expect(s.DeleteBinding(ctx, "bind-2").Exit).To(Equal(0))
		Expect(names(ctx, "users")).To(ConsistOf(server.User))
	})
})
