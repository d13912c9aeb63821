package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/terraform-provider-pgaccess/postgres"
	"service-adapter/terraform-provider-pgaccess/spec/server"
)

// database returns a database without a limit of connections.
func database(name, owner string) postgres.Database {
	return postgres.Database{Name: name, Owner: owner, ConnectionLimit: -1}
}

var _ = Describe("a database", func() {
	var (
		s           postgres.Server
		name, owner string
	)

	BeforeEach(func() {
		number++
		s, name = administrator(), fmt.Sprintf(`New "%d"`, number)
		owner = "owner of " + name
	})

	It("is created for a group, and dropped with it", func(ctx context.Context) {
		Expect(s.CreateDatabase(ctx, database(name, owner))).To(Succeed())
		Expect(s.ReadDatabase(ctx, name)).To(Equal(&postgres.Database{Name: name, Owner: owner, ConnectionLimit: -1}))
		one := member(name, "one")
		Expect(s.CreateRole(ctx, one)).To(Succeed())
		Expect(as(ctx, one, "CREATE TABLE t ()", "CREATE SCHEMA s")).To(Succeed())

		By("rejecting other roles")
		elsewhere := member(newDatabase(ctx), "else")
		Expect(s.CreateRole(ctx, elsewhere)).To(Succeed())
		_, err := pgx.Connect(ctx, dsn(elsewhere.Name, elsewhere.Password, name))
		Expect(err).To(MatchError(ContainSubstring("permission denied for database")))

		By("dropping it under a session")
		session(ctx, one.Name, one.Password, name)
		Expect(s.DropDatabase(ctx, name, owner)).To(Succeed())
		Expect(s.ReadDatabase(ctx, name)).To(BeNil())
		Expect(exists(ctx, owner)).To(BeTrue(), "the group has a member")
		Expect(s.DropRole(ctx, one)).To(Succeed())
		Expect(s.DropDatabase(ctx, name, owner)).To(Succeed(), "dropping it again succeeds")
		Expect(exists(ctx, owner)).To(BeFalse())
	})

	It("is adopted after an interrupted run, but not from another owner", func(ctx context.Context) {
		Expect(s.CreateDatabase(ctx, database(name, owner))).To(Succeed())
		Expect(s.CreateDatabase(ctx, database(name, owner))).To(Succeed())
		another := "another " + owner
		Expect(s.CreateDatabase(ctx, database(name, another))).To(MatchError(
			fmt.Sprintf(`database %q exists and belongs to %q, not to %q; import it to manage it`,
				name, owner, another)))
		Expect(exists(ctx, another)).To(BeFalse())
		Expect(s.DropDatabase(ctx, name, owner)).To(Succeed())
	})

	It("can be transferred to another group, and its limit can be changed", func(ctx context.Context) {
		d := postgres.Database{Name: newDatabase(ctx), Owner: owner, ConnectionLimit: 7}
		Expect(s.ChangeDatabase(ctx, d)).To(Succeed())
		Expect(s.ReadDatabase(ctx, d.Name)).To(Equal(&d))
	})

	It("is not taken from another configuration", func(ctx context.Context) {
		Expect(s.CreateDatabase(ctx, database(name, owner))).To(Succeed())
		another := "another " + owner
		Expect(s.ChangeDatabase(ctx, postgres.Database{Name: name, Owner: another, ConnectionLimit: 7})).To(MatchError(
			fmt.Sprintf("database %q was created or imported by another configuration and belongs to the group %q",
				name, owner)))
		Expect(exists(ctx, another)).To(BeFalse())
		Expect(s.ReadDatabase(ctx, name)).To(Equal(&postgres.Database{Name: name, Owner: owner, ConnectionLimit: -1}))
		Expect(s.DropDatabase(ctx, name, owner)).To(Succeed())
	})

	It("can be created and dropped concurrently with others", func(ctx context.Context) {
		var wait sync.WaitGroup
		for i := range 6 {
			wait.Go(func() {
				defer GinkgoRecover()
				mine := fmt.Sprint(name, " ", i)
				owner := "owner of " + mine
				Expect(s.CreateDatabase(ctx, database(mine, owner))).To(Succeed())
				Expect(s.CreateRole(ctx, postgres.Role{
					Name: "member of " + mine, Group: owner, Database: mine, Marker: mine, Password: "x",
					ConnectionLimit: -1,
				})).To(Succeed())
				Expect(s.DropRole(ctx, postgres.Role{
					Name: "member of " + mine, Group: owner, Database: mine, Marker: mine,
				})).To(Succeed())
				Expect(s.DropDatabase(ctx, mine, owner)).To(Succeed())
			})
		}
		wait.Wait()
		Expect(query[int](ctx, "postgres", "SELECT count(*) FROM pg_roles WHERE rolname LIKE $1",
			"owner of "+name+" %")).To(BeZero())
	})
})

// limited creates an administrator with these attributes, and returns the server with its login.
func limited(ctx context.Context, rights string) postgres.Server {
	GinkgoHelper()
	number++
	s := administrator()
	s.User, s.Password = fmt.Sprintf("limited %d", number), "limited"
	exec(ctx, "postgres", "CREATE ROLE "+pgx.Identifier{s.User}.Sanitize()+" LOGIN "+rights+" PASSWORD 'limited'")
	return s
}

var _ = Describe("an administrator who is not a superuser", func() {
	It("can create and drop databases and roles", func(ctx context.Context) {
		s := limited(ctx, "CREATEROLE CREATEDB")
		name := fmt.Sprintf("base %d", number)
		one := member(name, "one")
		Expect(s.CreateDatabase(ctx, database(name, one.Group))).To(Succeed())
		Expect(s.CreateRole(ctx, one)).To(Succeed())
		Expect(as(ctx, one, "SET ROLE NONE", "CREATE TABLE t ()")).To(Succeed())
		session(ctx, one.Name, one.Password, name)
		Expect(s.DropRole(ctx, one)).To(Succeed())
		Expect(query[string](ctx, name, "SELECT tableowner FROM pg_tables WHERE tablename = 't'")).To(Equal(one.Group))
		Expect(s.DropDatabase(ctx, name, one.Group)).To(Succeed())
		Expect(exists(ctx, one.Group)).To(BeFalse())
	})

	It("waits for sessions of superusers, which only superusers may end", func(ctx context.Context) {
		s := limited(ctx, "CREATEROLE CREATEDB")
		name := fmt.Sprintf("base %d", number)
		one := member(name, "one")
		Expect(s.CreateDatabase(ctx, database(name, one.Group))).To(Succeed())
		cleaning := session(ctx, server.Admin, server.Password, name)
		dropped := make(chan error)
		go func() { dropped <- s.DropDatabase(ctx, name, one.Group) }()
		Eventually(func() int {
			return query[int](ctx, "postgres",
				"SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND query LIKE 'DROP DATABASE%'", s.User)
		}).Should(BeNumerically(">", 0))
		Expect(cleaning.Close(ctx)).To(Succeed())
		Eventually(dropped).WithTimeout(time.Minute).Should(Receive(BeNil()))
	})

	It("cannot take over a database that belongs to another role, "+
		"and creates no group for it", func(ctx context.Context) {
		s, name := limited(ctx, "CREATEROLE CREATEDB"), newDatabase(ctx)
		before, err := s.ReadDatabase(ctx, name)
		Expect(err).NotTo(HaveOccurred())
		owner := "owner of " + name
		change := postgres.Database{Name: name, Owner: owner, ConnectionLimit: 7}
		Expect(s.ChangeDatabase(ctx, change)).To(MatchError(ContainSubstring("must be owner of database")))
		Expect(exists(ctx, owner)).To(BeFalse())
		Expect(s.ReadDatabase(ctx, name)).To(Equal(before))
	})

	It("cannot create databases without CREATEDB, and creates no group for one", func(ctx context.Context) {
		s := limited(ctx, "CREATEROLE")
		name := fmt.Sprintf("base %d", number)
		Expect(s.CreateDatabase(ctx, database(name, "owner of "+name))).To(
			MatchError(ContainSubstring("permission denied to create database")))
		Expect(exists(ctx, "owner of "+name)).To(BeFalse())
	})

	It("receives an error that names the missing permission", func(ctx context.Context) {
		s, one := limited(ctx, "CREATEROLE"), member(newDatabase(ctx), "one")
		Expect(s.CreateRole(ctx, one)).To(MatchError(ContainSubstring("may not grant privileges on database")))
		Expect(exists(ctx, one.Group)).To(BeFalse())
	})
})
