package postgresql_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
)

// unavailable is the message for users while the server cannot be reached.
const unavailable = "The database cannot be reached at the moment; try again later"

var _ = Describe("the example postgresql", func() {
	It("deploys a server with TLS and a password that the Director generates, without pending changes",
		func(ctx context.Context) {
			s := newSite(ctx, "")
			Expect(s.Manifest).To(And(ContainSubstring("password: ((pg_admin_password))"),
				Not(ContainSubstring(server.Password))))
			again := s.Request(ctx, "generate-manifest", s.Generate(object{}))
			Expect(again.Exit).To(Equal(0), again.Stderr)
			before := s.Manifest
			Expect(s.Deploy(again.Stdout)).To(Succeed())
			Expect(odb.SameManifests(before, s.Manifest)).To(BeTrue())
		})

	It("gives each binding a login and shared tables, which outlive the binding", func(ctx context.Context) {
		s := newSite(ctx, "")
		one := s.Credentials(ctx, "4b1c3f4e-0d6a-4c1b-9d55-1f6f7f5d2a01", nil)
		address := fmt.Sprintf("%s/%s", server.Address(), s.database)
		Expect(one).To(And(HaveLen(8), HaveKeyWithValue("username", "b-4b1c3f4e-0d6a-4c1b-9d55-1f6f7f5d2a01"),
			HaveKeyWithValue("hostname", server.Host), HaveKeyWithValue("port", float64(server.Port)),
			HaveKeyWithValue("database", s.database),
			HaveKeyWithValue("ca_cert", certificates.CA),
			HaveKeyWithValue("uri",
				fmt.Sprintf("postgresql://%s:%s@%s?sslmode=require", one["username"], one["password"], address)),
			HaveKeyWithValue("jdbc_url", fmt.Sprintf("jdbc:postgresql://%s?sslmode=require&user=%s&password=%s",
				address, one["username"], one["password"])),
		))
		Expect(sql(ctx, one["uri"], "CREATE TABLE t (id serial, n int); INSERT INTO t (n) VALUES (1); SET ROLE "+
			"NONE; SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")).To(Equal("t"))

		began := time.Now()
		two := s.Credentials(ctx, "an id/that is no name", object{"connection_limit": 1})
		AddReportEntry("create-binding", time.Since(began).Round(time.Millisecond).String())
		Expect(two["username"]).To(MatchRegexp("^bh-[0-9a-f]{40}$"))
		Expect(sql(ctx, two["uri"],
			"INSERT INTO t (n) VALUES (2); ALTER TABLE t ADD COLUMN extra text; SELECT count(*) FROM t")).To(Equal("2"))

		By("verifying the server with the certificate of the credentials")
		file := filepath.Join(s.Dir, "ca.pem")
		Expect(os.WriteFile(file, []byte(one["ca_cert"].(string)), 0o600)).To(Succeed())
		Expect(sql(ctx, strings.Replace(one["uri"].(string), "sslmode=require", "sslmode=verify-ca&sslrootcert="+file,
			1), "SELECT 1")).To(Equal("1"))

		By("deleting the first binding")
		began = time.Now()
		Expect(s.DeleteBinding(ctx, "4b1c3f4e-0d6a-4c1b-9d55-1f6f7f5d2a01").Exit).To(Equal(0))
		AddReportEntry("delete-binding", time.Since(began).Round(time.Millisecond).String())
		_, err := sql(ctx, one["uri"], "SELECT 1")
		Expect(err).To(MatchError(ContainSubstring("authentication failed")))
		Expect(sql(ctx, two["uri"], "DELETE FROM t WHERE n = 1; SELECT n FROM t")).To(Equal("2"))
		Expect(server.Query(ctx, s.database,
			"SELECT tableowner FROM pg_tables WHERE tablename = 't'")).To(Equal([]string{s.database + "_owner"}))
		Expect(s.DeleteBinding(ctx, "4b1c3f4e-0d6a-4c1b-9d55-1f6f7f5d2a01").Exit).To(Equal(41))
		Expect(s.DeleteBinding(ctx, "an id/that is no name").Exit).To(Equal(0))
		Expect(s.roles(ctx)).To(BeEmpty())
		Expect(s.Workspaces()).To(BeEmpty())
	})

	It("deletes a binding after the administrator's password was rotated", kit.Slow(), func(ctx context.Context) {
		s := newSite(ctx, "")
		s.Credentials(ctx, "bind-1", nil)
		old := server.Password
		change := func(ctx context.Context, password string) {
			Expect(administrate(ctx, "postgres", "ALTER ROLE admin PASSWORD '"+password+"'")).To(Succeed())
			server.Password = password
		}
		change(ctx, "rotated-"+old)
		DeferCleanup(change, old)
		refused := s.DeleteBinding(ctx, "bind-1")
		Expect(refused.Exit).To(Equal(1))
		Expect(refused.Stdout).To(BeEmpty(), "the message is for the operator")
		Expect(refused.Stderr).To(ContainSubstring(`password authentication failed for user \"admin\"`))
		Expect(refused.Stderr).NotTo(ContainSubstring(old))

		s.Secrets["((pg_admin_password))"] = server.Password
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		Expect(s.roles(ctx)).To(BeEmpty())
		Expect(s.Workspaces()).To(BeEmpty())
	})

	It("reports to the user that the server cannot be reached, and leaves nothing", func(ctx context.Context) {
		s := newSite(ctx, "")
		s.Credentials(ctx, "bind-1", nil)
		Expect(server.Stop()).To(Succeed())
		restart := sync.OnceFunc(func() { // the context of the spec may have ended
			Expect(server.Start(context.Background())).To(Succeed())
			Eventually(func() error {
				return administrate(context.Background(), "postgres", "SELECT 1")
			}).Should(Succeed())
		})
		DeferCleanup(restart)
		refused := s.CreateBinding(ctx, "bind-2", nil)
		Expect(refused.Exit).To(Equal(1))
		Expect(refused.Stdout).To(Equal(unavailable))
		Expect(refused.Stderr).To(MatchRegexp(`cannot reach PostgreSQL at \S+: connection refused`))
		Expect(s.Workspaces()).To(Equal([]string{"b-bind-1"}))
		refused = s.DeleteBinding(ctx, "bind-1")
		Expect(refused.Exit).To(Equal(1))
		Expect(refused.Stdout).To(Equal(unavailable))
		restart()
		Expect(s.roles(ctx)).To(Equal([]string{"b-bind-1"}))
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		Expect(s.DeleteBinding(ctx, "bind-2").Exit).To(Equal(41))
		Expect(s.Workspaces()).To(BeEmpty())
	})

	It("never changes a role that does not belong to the binding", kit.Slow(), func(ctx context.Context) {
		s := newSite(ctx, "")
		Expect(administrate(ctx, "postgres", `CREATE ROLE "b-bind-mine" LOGIN`)).To(Succeed())
		DeferCleanup(administrate, "postgres", `DROP ROLE "b-bind-mine"`)
		refused := s.CreateBinding(ctx, "bind-mine", nil)
		Expect(refused.Exit).To(Equal(1))
		Expect(refused.Stdout).To(BeEmpty())
		Expect(refused.Stderr).To(MatchRegexp(`role \S+ exists and belongs to another configuration`))
		Expect(server.Query(ctx, "postgres",
			"SELECT count(*) FROM pg_roles WHERE rolname = 'b-bind-mine'")).To(Equal([]string{"1"}))
		Expect(s.Workspaces()).To(BeEmpty())
	})

	It("creates and deletes many bindings concurrently", kit.Slow(), func(ctx context.Context) {
		const count = 4
		s := newSite(ctx, "")
		var wait sync.WaitGroup
		for i := range count {
			wait.Go(func() {
				defer GinkgoRecover()
				id := fmt.Sprint("bind-", i)
				Expect(sql(ctx, s.Credentials(ctx, id, nil)["uri"],
					fmt.Sprintf("CREATE TABLE t%d (); SELECT 1", i))).To(Equal("1"))
				Expect(s.DeleteBinding(ctx, id).Exit).To(Equal(0))
			})
		}
		wait.Wait()
		Expect(s.roles(ctx)).To(BeEmpty())
		Expect(s.Workspaces()).To(BeEmpty())
	})
})

var _ = Describe("a bind that is killed after it created the role", func() {
	var (
		s   *site
		dir string
	)

	BeforeEach(func(ctx context.Context) {
		dir = GinkgoT().TempDir()
		s = newSite(ctx, heldPak(dir, "pak", "bind", "pgaccess_role.binding"))
		s.killed(dir, "create-binding", s.BindParameters("bind-1", nil), everything)
		Expect(s.roles(ctx)).To(Equal([]string{"b-bind-1"}), "OpenTofu has no record of it")
	})

	It("is undone by delete-binding", func(ctx context.Context) {
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		Expect(s.roles(ctx)).To(BeEmpty())
		Expect(s.Workspaces()).To(BeEmpty())
	})

	It("is completed by the next create-binding", kit.Slow(), func(ctx context.Context) {
		Expect(sql(ctx, s.Credentials(ctx, "bind-1", nil)["uri"], "SELECT 1")).To(Equal("1"))
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		Expect(s.roles(ctx)).To(BeEmpty())
	})
})
