package postgresql_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// measured reports the duration of a function under a name.
func measured(name string, work func()) {
	began := time.Now()
	work()
	AddReportEntry(name, time.Since(began).Round(time.Millisecond).String())
}

var _ = Describe("the example postgresql-database", func() {
	var s *site

	BeforeEach(func() { s = newShared("") })

	It("creates a database, changes it in place, and gives each binding a login", func(ctx context.Context) {
		measured("generate-manifest, creation", func() {
			Expect(s.DeployManifest(ctx, nil)).To(ContainSubstring("created db " + s.database))
		})
		Expect(s.limit(ctx)).To(Equal(s.owner + "|20"))
		Expect(s.Manifest).NotTo(ContainSubstring(server.Password))
		Expect(s.stored()).NotTo(ContainSubstring(server.Password))
		measured("generate-manifest, check", func() { s.expectNothingPending(ctx) })

		var one object
		measured("create-binding", func() { one = s.Credentials(ctx, "bind-1", nil) })
		login := fmt.Sprintf("localhost:%d/%s?sslmode=require", server.Port, s.database)
		Expect(one).To(And(HaveLen(10), HaveKeyWithValue("hostname", "localhost"),
			HaveKeyWithValue("port", float64(server.Port)),
			HaveKeyWithValue("name", s.database), HaveKeyWithValue("owner", s.owner),
			HaveKeyWithValue("ca_cert", strings.TrimSpace(certificates.CA)),
			HaveKeyWithValue("status", "created db "+s.database),
			HaveKeyWithValue("username", "b-bind-1"),
			HaveKeyWithValue("uri", fmt.Sprintf("postgresql://b-bind-1:%s@%s", one["password"], login)),
			HaveKeyWithValue("jdbc_url",
				fmt.Sprintf("jdbc:postgresql://%s&user=b-bind-1&password=%s", login, one["password"]))))
		Expect(sql(ctx, one["uri"], "CREATE TABLE t (n int); INSERT INTO t VALUES (1); SELECT n FROM t")).To(Equal("1"))
		Expect(s.stored()).To(And(ContainSubstring("b-bind-1"), Not(ContainSubstring(server.Password))))
		two := s.Credentials(ctx, "bind-2", object{"connection_limit": 1})
		Expect(sql(ctx, two["uri"], "UPDATE t SET n = n + 1; SELECT n FROM t")).To(Equal("2"))

		By("changing its limit")
		before := s.databases(ctx)
		measured("generate-manifest, update", func() { s.DeployManifest(ctx, object{"connection_limit": 7}) })
		Expect(s.limit(ctx)).To(Equal(s.owner + "|7"))
		Expect(s.databases(ctx)).To(HaveLen(len(before)))
		Expect(sql(ctx, two["uri"], "SELECT n FROM t")).To(Equal("2"))
		s.expectNothingPending(ctx)
		measured("generate-manifest, update without a change", func() {
			s.DeployManifest(ctx, object{"connection_limit": 7})
		})
		s.refused(ctx, object{"connection_limit": 21}, "parameter connection_limit exceeds the maximum of the plan, 20")
		s.refused(ctx, object{"db_name": "another"}, `parameter "db_name" cannot be changed after creation`)

		By("changing its plan")
		s.PlanID = sharedLargePlan
		s.DeployManifest(ctx, object{"connection_limit": nil})
		Expect(s.limit(ctx)).To(Equal(s.owner + "|200"))
		s.expectNothingPending(ctx)

		By("deleting the bindings")
		measured("delete-binding", func() { Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0)) })
		_, err := sql(ctx, one["uri"], "SELECT 1")
		Expect(err).To(MatchError(ContainSubstring("authentication failed")))
		Expect(sql(ctx, two["uri"], "SELECT n FROM t")).To(Equal("2"))
		Expect(s.DeleteBinding(ctx, "bind-2").Exit).To(Equal(0))
		Expect(s.roles(ctx)).To(BeEmpty())
		Expect(s.Workspaces()).To(Equal([]string{"i-" + s.ID}))
	})

	It("is destroyed only by the operator, and with bindings only by force", func(ctx context.Context) {
		s.DeployManifest(ctx, nil)
		uri := s.Credentials(ctx, "bind-1", nil)["uri"]
		Expect(sql(ctx, uri, "CREATE TABLE t (); SELECT 1")).To(Equal("1"))
		refused := s.operate(ctx, "instance", "destroy", s.ID)
		Expect(refused.Exit).To(Equal(1))
		Expect(refused.Stdout + refused.Stderr).To(ContainSubstring("it has bindings"))
		Expect(sql(ctx, uri, "SELECT count(*) FROM t")).To(Equal("0"))

		measured("instance destroy --force", func() {
			Expect(s.operate(ctx, "instance", "destroy", "--force", s.ID).Exit).To(Equal(0))
		})
		Expect(s.roles(ctx)).To(BeEmpty())
		s.expectNothing(ctx)
		Expect(s.operate(ctx, "instance", "destroy", s.ID).Exit).To(Equal(0), "another destruction succeeds as well")
	})

	It("does not need a former administrator", kit.Slow(), func(ctx context.Context) {
		s.DeployManifest(ctx, nil)
		s.Credentials(ctx, "bind-1", nil)
		old := server.Password
		change := func(ctx context.Context, password string) {
			Expect(administrate(ctx, "postgres", "ALTER ROLE admin PASSWORD '"+password+"'")).To(Succeed())
			server.Password = password
		}
		change(ctx, "rotated-"+old)
		DeferCleanup(change, old)
		Expect(s.refused(ctx, object{"connection_limit": 5}, "")).To(ContainSubstring("password authentication failed"))
		s.reconfigure(nil)
		s.expectPending(ctx) // the failed update may have changed the database
		s.DeployManifest(ctx, object{"connection_limit": 5})
		s.expectNothingPending(ctx)
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		Expect(s.operate(ctx, "instance", "destroy", s.ID).Exit).To(Equal(0))
		s.expectNothing(ctx)
	})

	It("leaves nothing if the server cannot be reached, and does not change a database whose name is taken",
		func(ctx context.Context) {
			s.reconfigure(object{"port": 1})
			Expect(s.refused(ctx, nil, "The database server cannot be reached at the moment; try again later")).To(
				ContainSubstring("connection refused"))
			s.expectNothing(ctx)
			s.reconfigure(nil)
			s.DeployManifest(ctx, object{"db_name": fmt.Sprint("taken-", instances)})

			other := newShared("")
			before := other.databases(ctx)
			for _, name := range []string{fmt.Sprint("taken-", instances-1), "postgres"} {
				Expect(other.refused(ctx, object{"db_name": name},
					`A database of the name in parameter "db_name" exists already; choose another name`)).
					To(ContainSubstring("import it to manage it"))
				other.expectNothing(ctx)
			}
			Expect(other.databases(ctx)).To(Equal(before))
		})

	It("has tests that pass with a server", kit.Slow(), func(ctx context.Context) {
		before := s.databases(ctx)
		s.Env = []string{
			"TMPDIR=" + s.Dir, "GSB_POSTGRESQL_DATABASE_HOST=localhost",
			fmt.Sprint("GSB_POSTGRESQL_DATABASE_PORT=", server.Port),
			"GSB_POSTGRESQL_DATABASE_CA_CERT=" + certificates.CA, "GSB_POSTGRESQL_DATABASE_IMPORTABLE=hand_.*",
			"PGACCESS_USER=" + server.User, "PGACCESS_PASSWORD=" + server.Password,
		}
		got := s.operate(ctx, "pak", "test", s.pak)
		Expect(got.Exit).To(Equal(0))
		Expect(got.Stderr).To(ContainSubstring("4 passed, 0 failed"))
		Expect(s.databases(ctx)).To(Equal(before))
	})

	DescribeTable("is created by the next request if a creation was killed", func(ctx context.Context, whom victims) {
		dir := GinkgoT().TempDir()
		s = newShared(heldPak(dir, "database-pak", "provision", "pgaccess_database.database"))
		s.killed(dir, "generate-manifest", s.Generate(s.RequestBody(nil)), whom)
		Expect(s.limit(ctx)).To(Equal(s.owner + "|20"))
		s.DeployManifest(ctx, nil)
		Expect(s.limit(ctx)).To(Equal(s.owner + "|20"))
		s.expectNothingPending(ctx)
		Expect(sql(ctx, s.Credentials(ctx, "bind-1", nil)["uri"], "SELECT 1")).To(Equal("1"))
		Expect(s.operate(ctx, "instance", "destroy", "--force", s.ID).Exit).To(Equal(0))
		s.expectNothing(ctx)
		Expect(filepath.Join(dir, "held")).NotTo(BeAnExistingFile())
	}, Entry("with the adapter alone", kit.Slow(), theAdapter), Entry("with OpenTofu", everything))
})

var _ = Describe("importing a database that was created manually", func() {
	var (
		s    *site
		hand string
	)

	BeforeEach(func(ctx context.Context) {
		hand = byHand(ctx)
		s = newShared("")
	})

	// expectAsBefore asserts that the database is unchanged and that the request left nothing.
	expectAsBefore := func(ctx context.Context) {
		GinkgoHelper()
		s.expectNothing(ctx)
		s.database = hand
		Expect(s.limit(ctx)).To(Equal("legacy_" + hand + "|-1"))
		Expect(server.Query(ctx, hand, "SELECT n FROM t")).To(Equal([]string{"42"}))
	}

	It("keeps its data, and makes it a regular instance", func(ctx context.Context) {
		oid, err := server.Query(ctx, hand, "SELECT oid FROM pg_database WHERE datname = current_database()")
		Expect(err).NotTo(HaveOccurred())
		measured("generate-manifest, import", func() { s.DeployManifest(ctx, object{"existing_database": hand}) })
		s.database = hand
		Expect(s.limit(ctx)).To(Equal(s.owner + "|20"))
		s.expectNothingPending(ctx)

		By("handing over the tables, as the README says")
		Expect(administrate(ctx, hand, fmt.Sprintf("REASSIGN OWNED BY legacy_%s TO %q", hand, s.owner))).To(Succeed())
		one := s.Credentials(ctx, "bind-1", nil)
		Expect(one).To(HaveKeyWithValue("name", hand))
		Expect(sql(ctx, one["uri"], "ALTER TABLE t ADD COLUMN m int; SELECT n FROM t")).To(Equal("42"))

		By("changing its limit")
		s.DeployManifest(ctx, object{"connection_limit": 7})
		Expect(s.limit(ctx)).To(Equal(s.owner + "|7"))
		s.expectNothingPending(ctx)
		Expect(server.Query(ctx, hand, "SELECT oid FROM pg_database WHERE datname = current_database()")).To(Equal(oid))
		Expect(sql(ctx, one["uri"], "SELECT n FROM t")).To(Equal("42"))
		s.refused(ctx, object{"existing_database": ""},
			`parameter "existing_database" cannot be changed after creation`)

		By("destroying it")
		Expect(s.DeleteBinding(ctx, "bind-1").Exit).To(Equal(0))
		Expect(s.operate(ctx, "instance", "destroy", s.ID).Exit).To(Equal(0))
		s.expectNothing(ctx)
	})

	It("is undone by the operator without deleting the database", kit.Slow(), func(ctx context.Context) {
		s.DeployManifest(ctx, object{"existing_database": hand})
		Expect(s.operate(ctx, "instance", "destroy", "--forget", s.ID).Exit).To(Equal(0))
		Expect(s.Workspaces()).To(BeEmpty())
		Expect(server.Query(ctx, hand, "SELECT n FROM t")).To(Equal([]string{"42"}))
	})

	DescribeTable("is repeated after it was killed", func(ctx context.Context, whom victims) {
		dir := GinkgoT().TempDir()
		s = newShared(heldPak(dir, "database-pak", "provision", "pgaccess_database.database"))
		s.killed(dir, "generate-manifest", s.Generate(s.RequestBody(object{"existing_database": hand})), whom)
		s.DeployManifest(ctx, object{"existing_database": hand})
		s.database = hand
		Expect(s.limit(ctx)).To(Equal(s.owner + "|20"))
		Expect(server.Query(ctx, hand, "SELECT n FROM t")).To(Equal([]string{"42"}))
		s.expectNothingPending(ctx)
	}, Entry("with the adapter alone", kit.Slow(), theAdapter), Entry("with OpenTofu", everything))

	It("is rejected for the database of another instance", kit.Slow(), func(ctx context.Context) {
		s.DeployManifest(ctx, object{"existing_database": hand})
		other := newShared("")
		Expect(other.refused(ctx, object{"existing_database": hand},
			`The database in parameter "existing_database" belongs to another service instance`)).
			To(ContainSubstring("created or imported by another configuration"))
		other.expectNothing(ctx)
		s.database = hand
		Expect(s.limit(ctx)).To(Equal(s.owner + "|20"))
	})

	It("is rejected if the administrator may not change the database", kit.Slow(), func(ctx context.Context) {
		name := "limited_" + hand
		Expect(administrate(ctx, "postgres",
			"CREATE ROLE "+name+" LOGIN CREATEROLE CREATEDB PASSWORD 'limited'")).To(Succeed())
		s.administeredBy(name, "limited")
		Expect(s.refused(ctx, object{"existing_database": hand},
			"")).To(ContainSubstring("must be owner of database " + hand))
		expectAsBefore(ctx)
	})

	It("is rejected if no database has the name", func(ctx context.Context) {
		stderr := s.refused(ctx, object{"existing_database": "hand_0"},
			`The database in parameter "existing_database" does not exist`)
		Expect(stderr).To(ContainSubstring("Cannot import non-existent remote object"))
		expectAsBefore(ctx)
	})

	It("is rejected if the plan would destroy the database", kit.Slow(), func(ctx context.Context) {
		Expect(s.refused(ctx, object{"existing_database": hand, "db_name": "another"},
			`Parameter "db_name" must not differ from the name of the imported database`)).To(
			ContainSubstring("prevent_destroy"))
		expectAsBefore(ctx)
	})

	DescribeTable("is rejected for a database that the operator does not permit:",
		func(ctx context.Context, name string) {
			s.refused(ctx, object{"existing_database": strings.ReplaceAll(name, "HAND", hand)},
				"the database in parameter existing_database may not be imported")
			expectAsBefore(ctx)
		},
		Entry("a database of the server itself", "postgres"),
		Entry("a longer name", kit.Slow(), "my_HAND"),
		Entry("a name with a line break", kit.Slow(), "HAND\npostgres"))
})
