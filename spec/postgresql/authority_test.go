package postgresql_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/servers"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The steps follow docs/operations/rotate-a-certificate-authority.md, with certificates as CredHub generates them.
var _ = Describe("The authority of an instance", func() {
	It("is rotated while apps stay connected", kit.Slow(), func(ctx context.Context) {
		credhub := servers.NewCredHub(GinkgoT(), 90*24*time.Hour, "*.postgres.default.bosh", "localhost")
		DeferCleanup(func(ctx context.Context) error { return server.UseCertificates(ctx, certificates) })
		s := newSite(ctx, "")
		director := servers.NewDirector(s.Dir)
		DeferCleanup(director.Close)
		// upgrade does what the broker, the Director and the release's job do when all instances are upgraded.
		upgrade := func() {
			GinkgoHelper()
			got := s.Request(ctx, "generate-manifest", s.Generate(object{}))
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(s.Deploy(got.Stdout)).To(Succeed())
			leaf := credhub.Leaf()
			s.resolve(leaf)
			Expect(server.UseCertificates(ctx, leaf)).To(Succeed())
			director.WriteFleet(GinkgoT(), s.Dir, s.DeploymentName(),
				map[string]string{"postgres_tls": leaf.Certificate, "postgres_ca": credhub.Authority()})
		}
		listed := func(exit int, arguments ...string) string {
			GinkgoHelper()
			broker := filepath.Join(s.Dir, "broker.yml")
			return s.certificates(ctx, exit, append(arguments, "--broker-config", broker)...)
		}

		By("binding apps before the rotation")
		upgrade()
		stopFirst := s.startApp(ctx, "bind-first")
		forgotten := s.Credentials(ctx, "bind-forgotten", nil)
		open := s.openSession(ctx, s.Credentials(ctx, "bind-open", nil))
		Expect(listed(0, "--all")).To(And(ContainSubstring("/director/"+s.DeploymentName()+"/postgres_tls"),
			ContainSubstring("ca_cert of 3 bindings")))

		By("step 1 and 2: the new authority is trusted")
		credhub.AddTransitional(GinkgoT())
		upgrade()
		time.Sleep(time.Second) // creation times have a resolution of one second
		stopSecond := s.startApp(ctx, "bind-second")
		Expect(listed(1, "--all")).To(ContainSubstring("3 of 4 bindings have another authority than the newest " +
			"binding: bind-first, bind-forgotten, bind-open\n"))
		both := filepath.Join(s.Dir, "both.pem")
		Expect(os.WriteFile(both, []byte(credhub.Leaf().CA), 0o600)).To(Succeed())
		Expect(listed(1, s.ID, "--ca", both)).To(ContainSubstring("3 of 4 bindings do not contain every authority of "))

		By("step 3: the app gets a new binding")
		stopFirst()
		Expect(s.DeleteBinding(ctx, "bind-first").Exit).To(Equal(0))

		By("step 4 and 5: the new authority signs")
		credhub.MoveTransitional()
		credhub.RegenerateLeaf(GinkgoT())
		upgrade()
		Expect(listed(1, s.ID, "--server", server.Address())).To(ContainSubstring(
			"2 of 3 bindings do not trust the certificate of " + server.Address() + ": bind-forgotten, bind-open\n"))
		_, err := sql(ctx, s.verified(forgotten), "SELECT 1")
		Expect(err).To(MatchError(ContainSubstring("certificate verify failed")), "as the command reported")

		By("step 6: the forgotten binding is created again")
		Expect(s.DeleteBinding(ctx, "bind-forgotten").Exit).To(Equal(0))
		stopThird := s.startApp(ctx, "bind-third")
		Expect(open()).To(Equal("still connected"))
		Expect(s.DeleteBinding(ctx, "bind-open").Exit).To(Equal(0))
		Expect(listed(0, "--all")).NotTo(ContainSubstring("another authority"))
		Expect(listed(0, s.ID, "--server", server.Address())).NotTo(ContainSubstring("not trust"))

		By("step 7 and 8: the old authority is dropped")
		credhub.DropTransitional()
		upgrade()
		time.Sleep(time.Second)
		stopFourth := s.startApp(ctx, "bind-fourth")
		Expect(listed(0, "--all", "--expires-within", "30d")).To(MatchRegexp(`superseded .*ca_cert of 2 bindings\n`))
		Expect(listed(0, s.ID, "--server", server.Address())).NotTo(ContainSubstring("not trust"))
		for _, stop := range []func(){stopSecond, stopThird, stopFourth} {
			stop()
		}
		for _, id := range []string{"bind-second", "bind-third", "bind-fourth"} {
			Expect(s.DeleteBinding(ctx, id).Exit).To(Equal(0))
		}
		Expect(s.roles(ctx)).To(BeEmpty())
	})
})

// certificates runs the command `certificates`, which must exit with this status, and returns its output.
func (s *site) certificates(ctx context.Context, exit int, arguments ...string) string {
	GinkgoHelper()
	got, err := s.Run(ctx, "", append([]string{"certificates"}, arguments...)...)
	Expect(err).NotTo(HaveOccurred())
	Expect(got.Exit).To(Equal(exit), "%s%s", got.Stdout, got.Stderr)
	Expect(got.Stdout).NotTo(ContainSubstring("PRIVATE KEY"))
	return got.Stdout
}

// verified returns the URI of a binding for a client that verifies the server with the authorities in the binding.
func (s *site) verified(credentials object) string {
	GinkgoHelper()
	path := filepath.Join(s.Dir, credentials["username"].(string)+".pem")
	Expect(os.WriteFile(path, []byte(credentials["ca_cert"].(string)), 0o600)).To(Succeed())
	uri, changed := strings.CutSuffix(credentials["uri"].(string), "sslmode=require")
	Expect(changed).To(BeTrue())
	return uri + "sslmode=verify-ca&sslrootcert=" + path
}

// startApp creates a binding, and starts an app that connects repeatedly with its credentials and verifies the server
// each time. The returned function lets the app connect once more and ends it. It fails the spec if a connection
// failed.
func (s *site) startApp(ctx context.Context, binding string) (stop func()) {
	GinkgoHelper()
	uri := s.verified(s.Credentials(ctx, binding, nil))
	stopping, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for last := false; ; {
			select {
			case <-stopping:
				last = true
			default:
			}
			if _, err := sql(ctx, uri, "SELECT 1"); err != nil || last {
				stopped <- err
				return
			}
		}
	}()
	return func() {
		GinkgoHelper()
		close(stopping)
		Expect(<-stopped).NotTo(HaveOccurred(), binding)
	}
}

// openSession opens one connection. It returns a function that uses and closes this connection.
func (s *site) openSession(ctx context.Context, credentials object) func() string {
	GinkgoHelper()
	psql := exec.CommandContext(ctx, "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align",
		"--set=ON_ERROR_STOP=1", s.verified(credentials))
	input, err := psql.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	output, err := psql.StdoutPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(psql.Start()).To(Succeed())
	_, err = io.WriteString(input, "SELECT 1;\n")
	Expect(err).NotTo(HaveOccurred())
	connected := make([]byte, 2)
	_, err = io.ReadFull(output, connected)
	Expect(err).NotTo(HaveOccurred())
	return func() string {
		GinkgoHelper()
		_, err := io.WriteString(input, "SELECT 'still connected';\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(input.Close()).To(Succeed())
		answer, err := io.ReadAll(output)
		Expect(err).NotTo(HaveOccurred())
		Expect(psql.Wait()).To(Succeed())
		return strings.TrimSpace(string(answer))
	}
}
