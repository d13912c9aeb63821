package rabbitmq_test

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/servers"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The steps follow docs/operations/rotate-a-certificate-authority.md, with certificates as CredHub generates them.
var _ = Describe("The authority of an instance", func() {
	It("is rotated while apps stay connected", kit.Slow(), func(ctx context.Context) {
		credhub := servers.NewCredHub(GinkgoT(), 90*24*time.Hour, internalName, "*.node.default.bosh")
		DeferCleanup(func(ctx context.Context) error { return server.UseCertificates(ctx, certificates) })
		t := plain()
		t.properties = object{"nodes": 1, "port": server.TLSPort, "management_port": server.ManagementTLSPort}
		t.parameters = object{"tls": true}
		s := newSite(ctx, t)
		director := servers.NewDirector(s.Dir)
		DeferCleanup(director.Close)
		address := net.JoinHostPort(server.Host, strconv.Itoa(server.TLSPort))
		// upgrade does what the broker, the Director and the release's job do when all instances are upgraded.
		upgrade := func() {
			GinkgoHelper()
			password := s.Secrets[s.administrator()]
			got := s.Request(ctx, "generate-manifest", s.Generate(object{}))
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(s.Deploy(got.Stdout)).To(Succeed())
			leaf := credhub.Leaf()
			s.Secrets[s.administrator()] = password
			s.resolve(leaf)
			Expect(server.UseCertificates(ctx, leaf)).To(Succeed())
			director.WriteFleet(GinkgoT(), s.Dir, s.DeploymentName(),
				map[string]string{"rabbitmq_tls": leaf.Certificate, "rabbitmq_ca": credhub.Authority()})
		}
		listed := func(exit int, arguments ...string) string {
			GinkgoHelper()
			command := []string{"certificates", "--broker-config", filepath.Join(s.Dir, "broker.yml")}
			got, err := s.Run(ctx, "", append(command, arguments...)...)
			Expect(err).NotTo(HaveOccurred())
			Expect(got.Exit).To(Equal(exit), "%s%s", got.Stdout, got.Stderr)
			return got.Stdout
		}

		By("binding apps before the rotation")
		upgrade()
		old := s.Credentials(ctx, "bind-first", nil)
		open := connect(old)
		first := startApp(old)
		forgotten := s.Credentials(ctx, "bind-forgotten", nil)
		Expect(listed(0, "--all")).To(And(ContainSubstring("/director/"+s.DeploymentName()+"/rabbitmq_tls"),
			ContainSubstring("ca_cert of 2 bindings")))

		By("step 1 and 2: the new authority is trusted")
		credhub.AddTransitional(GinkgoT())
		upgrade()
		time.Sleep(time.Second) // creation times have a resolution of one second
		second := startApp(s.Credentials(ctx, "bind-second", nil))
		Expect(listed(1, "--all")).To(ContainSubstring(
			"2 of 3 bindings have another authority than the newest binding: bind-first, bind-forgotten\n"))

		By("step 3: the app gets a new binding")
		Expect(first()).To(Succeed())
		Expect(publish(ctx, open, "orders", "still connected")).To(BeTrue())
		Expect(s.DeleteBinding(ctx, "bind-first").Exit).To(Equal(0))

		By("step 4 and 5: the new authority signs")
		credhub.MoveTransitional()
		credhub.RegenerateLeaf(GinkgoT())
		upgrade()
		Expect(listed(1, s.ID, "--server", address)).To(ContainSubstring(
			"1 of 2 bindings does not trust the certificate of " + address + ": bind-forgotten\n"))
		_, err := dial(forgotten)
		Expect(err).To(MatchError(ContainSubstring("certificate signed by unknown authority")),
			"as the command reported")

		By("step 6: the forgotten binding is created again")
		Expect(s.DeleteBinding(ctx, "bind-forgotten").Exit).To(Equal(0))
		third := startApp(s.Credentials(ctx, "bind-third", nil))
		Expect(listed(0, "--all")).NotTo(ContainSubstring("another authority"))
		Expect(listed(0, s.ID, "--server", address)).NotTo(ContainSubstring("not trust"))

		By("step 7 and 8: the old authority is dropped")
		credhub.DropTransitional()
		upgrade()
		time.Sleep(time.Second)
		fourth := startApp(s.Credentials(ctx, "bind-fourth", nil))
		Expect(listed(0, "--all", "--expires-within", "30d")).To(MatchRegexp(`superseded .*ca_cert of 2 bindings\n`))
		Expect(listed(0, s.ID, "--server", address)).NotTo(ContainSubstring("not trust"))
		for _, stop := range []func() error{second, third, fourth} {
			Expect(stop()).To(Succeed())
		}
		for _, id := range []string{"bind-second", "bind-third", "bind-fourth"} {
			Expect(s.DeleteBinding(ctx, id).Exit).To(Equal(0))
		}
		Expect(names(ctx, "users")).To(ConsistOf(server.User))
	})
})

// startApp starts an app that connects repeatedly with the credentials and verifies the server each time. It returns a
// function that ends the app and returns the error of the first connection that failed.
func startApp(credentials object) (stop func() error) {
	stopping, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			connection, err := dial(credentials)
			if err == nil {
				err = connection.Close()
			}
			select {
			case <-stopping:
				stopped <- err
				return
			default:
			}
			if err != nil {
				stopped <- err
				return
			}
		}
	}()
	return func() error {
		close(stopping)
		return <-stopped
	}
}
