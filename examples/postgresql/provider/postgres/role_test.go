package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/terraform-provider-pgaccess/postgres"
)

var _ = Describe("a role", func() {
	var (
		database string
		s        postgres.Server
		one, two postgres.Role
	)

	BeforeEach(func(ctx context.Context) {
		s, database = administrator(), newDatabase(ctx)
		one, two = member(database, "one"), member(database, "two")
		Expect(s.CreateRole(ctx, one)).To(Succeed())
		Expect(s.CreateRole(ctx, two)).To(Succeed())
	})

	It("shares its objects with its group", func(ctx context.Context) {
		Expect(as(ctx, one, "CREATE TABLE t (id serial, n int)", "INSERT INTO t (n) VALUES (1)",
			"CREATE SCHEMA s", "CREATE TABLE s.t ()")).To(Succeed())
		Expect(as(ctx, two, "INSERT INTO t (n) SELECT n FROM t", "ALTER TABLE t ADD COLUMN extra text",
			"DROP TABLE s.t")).To(Succeed())
		Expect(query[int](ctx, database, "SELECT count(*) FROM t")).To(Equal(2))
	})

	It("shares objects even if it creates them under its own name", func(ctx context.Context) {
		Expect(as(ctx, one, "SET ROLE NONE", "CREATE TABLE t (id serial, n int)",
			"CREATE SCHEMA s", "CREATE TABLE s.t (n int)")).To(Succeed())
		Expect(query[string](ctx, database,
			"SELECT tableowner FROM pg_tables WHERE tablename = 't' AND schemaname = 'public'")).To(Equal(one.Name))
		Expect(as(ctx, two, "INSERT INTO t (n) VALUES (1)", "SELECT * FROM s.t")).To(Succeed())
	})

	It("leaves its objects in all databases to its group", func(ctx context.Context) {
		other := newDatabase(ctx)
		exec(ctx, other, "GRANT CREATE ON SCHEMA public TO PUBLIC")
		Expect(as(ctx, one, "SET ROLE NONE", "CREATE TABLE t (n int)", "INSERT INTO t VALUES (7)")).To(Succeed())
		there := one
		there.Database = other
		Expect(as(ctx, there, "CREATE TABLE u ()")).To(Succeed())

		Expect(s.DropRole(ctx, one)).To(Succeed())
		Expect(exists(ctx, one.Name)).To(BeFalse())
		Expect(as(ctx, two, "ALTER TABLE t ADD COLUMN extra text")).To(Succeed())
		Expect(query[int](ctx, database, "SELECT n FROM t")).To(Equal(7))
		for _, where := range []string{database, other} {
			Expect(query[string](ctx, where, "SELECT tableowner FROM pg_tables WHERE schemaname = 'public'")).To(
				Equal(one.Group))
		}
		Expect(s.DropRole(ctx, one)).To(Succeed(), "dropping it again succeeds")
	})

	It("loses its sessions when it is dropped", func(ctx context.Context) {
		conn := session(ctx, one.Name, one.Password, database)
		_, err := conn.Exec(ctx, "BEGIN; CREATE TABLE locked (); LOCK TABLE locked")
		Expect(err).NotTo(HaveOccurred())
		Expect(s.DropRole(ctx, one)).To(Succeed())
		_, err = conn.Exec(ctx, "SELECT 1")
		Expect(err).To(HaveOccurred())
		_, err = pgx.Connect(ctx, dsn(one.Name, one.Password, database))
		Expect(err).To(MatchError(ContainSubstring("password authentication failed")))
	})

	It("can be dropped if its database or its group no longer exists", func(ctx context.Context) {
		exec(ctx, "postgres", "DROP DATABASE "+pgx.Identifier{database}.Sanitize()+" WITH (FORCE)")
		known := one
		exists, err := s.ReadRole(ctx, &known)
		Expect(err).NotTo(HaveOccurred())
		Expect(exists).To(BeTrue())
		Expect(s.DropRole(ctx, one)).To(Succeed())
		exec(ctx, "postgres", "DROP ROLE "+pgx.Identifier{two.Group}.Sanitize())
		Expect(s.DropRole(ctx, two)).To(Succeed())
	})

	It("is adopted with a new password if it has the same mark", func(ctx context.Context) {
		again := one
		again.Password = postgres.NewPassword()
		Expect(s.CreateRole(ctx, again)).To(Succeed())
		Expect(as(ctx, again, "CREATE TABLE t ()")).To(Succeed())
		_, err := pgx.Connect(ctx, dsn(one.Name, one.Password, database))
		Expect(err).To(MatchError(ContainSubstring("password authentication failed")))
	})

	It("with another mark is neither adopted, read nor dropped", func(ctx context.Context) {
		mine := one
		mine.Marker = "another binding"
		refusal := fmt.Sprintf(`role %q exists and belongs to another configuration: `+
			`its comment must be "pgaccess: another binding"`, one.Name)
		Expect(s.CreateRole(ctx, mine)).To(MatchError(ContainSubstring(refusal)))
		Expect(s.DropRole(ctx, mine)).To(MatchError(refusal))
		found, err := s.ReadRole(ctx, &mine)
		Expect(err).NotTo(HaveOccurred())
		Expect(found).To(BeFalse())
		Expect(as(ctx, one, "SELECT 1")).To(Succeed())
	})

	It("is rejected, and does not remain, "+
		"if its group is not a group or its database does not exist", func(ctx context.Context) {
		three := member(database, "three")
		three.Group = one.Name
		err := s.CreateRole(ctx, three)
		Expect(err).To(MatchError(ContainSubstring("is not a group")))
		Expect(err).NotTo(MatchError(postgres.ErrUncertain))
		three = member("nowhere", "three")
		Expect(s.CreateRole(ctx, three)).To(MatchError(ContainSubstring(`the database does not exist: "nowhere"`)))
		Expect(exists(ctx, three.Name)).To(BeFalse())
	})

	It("can be changed", func(ctx context.Context) {
		one.ConnectionLimit, one.ValidUntil = 1, time.Date(2049, 12, 31, 23, 59, 59, 0, time.UTC)
		password := one.Password
		one.Password = ""
		Expect(s.UpdateRole(ctx, one)).To(Succeed())
		read := member(database, "one")
		Expect(s.ReadRole(ctx, &read)).To(BeTrue())
		Expect(read.ConnectionLimit).To(Equal(int64(1)))
		Expect(read.ValidUntil).To(BeTemporally("==", one.ValidUntil))
		session(ctx, one.Name, password, database)
		_, err := pgx.Connect(ctx, dsn(one.Name, password, database))
		Expect(err).To(MatchError(ContainSubstring("too many connections for role")))

		one.ConnectionLimit, one.ValidUntil, one.Password = -1, time.Now().Add(-time.Hour), "changed-secret"
		Expect(s.UpdateRole(ctx, one)).To(Succeed())
		_, err = pgx.Connect(ctx, dsn(one.Name, "changed-secret", database))
		Expect(err).To(MatchError(ContainSubstring("password authentication failed")), "it has expired")
		one.ValidUntil = time.Time{}
		Expect(s.UpdateRole(ctx, one)).To(Succeed())
		Expect(as(ctx, one, "SELECT 1")).To(Succeed())
	})

	It("does not write its password to the server's log", func() {
		log, err := os.ReadFile(filepath.Join(dir, "log"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(log)).To(And(ContainSubstring("SCRAM-SHA-256$4096"),
			Not(ContainSubstring(`\word`)), Not(ContainSubstring("changed-secret"))))
	})
})

var _ = Describe("many roles", func() {
	// together calls a function concurrently for many roles and returns the errors.
	together := func(count int, something func(i int) error) error {
		failed := make([]error, count)
		var wait sync.WaitGroup
		for i := range count {
			wait.Go(func() { failed[i] = something(i) })
		}
		wait.Wait()
		return errors.Join(failed...)
	}

	It("can be created, used and dropped concurrently", func(ctx context.Context) {
		const count = 20
		database, s := newDatabase(ctx), administrator()
		roles := make([]postgres.Role, count)
		Expect(together(count, func(i int) error {
			roles[i] = member(database, fmt.Sprint(i))
			return s.CreateRole(ctx, roles[i])
		})).To(Succeed())
		Expect(together(count, func(i int) error {
			return as(ctx, roles[i], fmt.Sprintf("CREATE TABLE t%d ()", i), "SET ROLE NONE",
				fmt.Sprintf("CREATE TABLE own%d ()", i))
		})).To(Succeed())
		Expect(together(count, func(i int) error { return s.DropRole(ctx, roles[i]) })).To(Succeed())
		Expect(query[int](ctx, database,
			"SELECT count(*) FROM pg_tables WHERE schemaname = 'public' AND tableowner = $1", roles[0].Group)).To(
			Equal(2 * count))
		Expect(query[int](ctx, database, "SELECT count(*) FROM pg_roles WHERE rolname LIKE $1", "% of "+database)).To(
			Equal(1), "the group")
	})

	It("can be created and dropped concurrently in several databases", func(ctx context.Context) {
		const count = 8
		s := administrator()
		databases := []string{newDatabase(ctx), newDatabase(ctx)}
		Expect(together(2*count, func(i int) error {
			r := member(databases[i%2], fmt.Sprint(i))
			for range 3 {
				if err := errors.Join(s.CreateRole(ctx, r), s.DropRole(ctx, r)); err != nil {
					return err
				}
			}
			return nil
		})).To(Succeed())
	})
})
