package backends_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit/servers"
)

// pooled returns a machine that reaches the database through PgBouncer with this pool_mode.
func (w *world) pooled(ctx context.Context, mode string) *machine {
	GinkgoHelper()
	pooler := servers.Run(GinkgoT(), func(ctx context.Context, dir string) (*servers.Server, error) {
		return servers.PgBouncer(ctx, dir, w.server, mode)
	})
	m := w.bareMachine()
	state := w.state()
	state["config"] = object{"conn_str": strings.Replace(w.server.DSN(w.location), w.server.Address(), pooler.Address(),
		1)}
	m.set(object{"state": state})
	m.deploy(ctx)
	return m
}

var _ = Describe("a database behind PgBouncer", func() {
	for _, mode := range []string{"transaction", "statement"} {
		It("is rejected before any resource is created if clients share sessions: "+mode, func(ctx context.Context) {
			w := newWorld(ctx, pg)
			m := w.pooled(ctx, mode)
			for range 2 {
				got := m.bind(ctx, "bind-1")
				expectBroken(got, "use pool_mode session for this database, or connect to PostgreSQL itself")
				w.expectNoSecrets(got.Stderr)
			}
			// The command prepare requires that the definition declares all outputs of the template.
			pak := filepath.Join(m.dir, "pak")
			Expect(os.CopyFS(pak, os.DirFS(suite.pak))).To(Succeed())
			definition := filepath.Join(pak, "entries.yml")
			text := strings.Replace(read(definition), "  - {field_name: echo,",
				"  - {field_name: syslog_drain_url, details: Drain}\n"+
					"  - {field_name: route_service_url, details: Route}\n  - {field_name: echo,", 1)
			Expect(os.WriteFile(definition, []byte(text), 0o600)).To(Succeed())
			m.set(object{"paks": []string{pak}})
			got := m.run(ctx, "", "prepare", "--dir", filepath.Join(m.dir, "prepared"))
			Expect(got.Exit).NotTo(Equal(0))
			Expect(got.Stderr).To(ContainSubstring("use pool_mode session"))
			w.expectNothingLeft()
		})
	}

	It("is accepted if each client has its own session", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.pooled(ctx, "session")
		w.works("bind-1", m.credentials(m.bind(ctx, "bind-1")))
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		w.expectNothingLeft()
	})
})
