package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/servers"
)

// down is a loopback address at which no server listens.
const down = "127.0.0.2"

var _ = Describe("the example mysql", func() {
	It("deploys a server whose password is a BOSH variable, without pending changes", func(ctx context.Context) {
		s := newSite(ctx)
		Expect(s.Manifest).To(And(ContainSubstring("admin_password: "+administrator),
			Not(ContainSubstring(server.Password))))
		before := s.Manifest
		s.deploy(ctx)
		Expect(odb.SameManifests(before, s.Manifest)).To(BeTrue())
	})

	It("gives each binding a user, who logs in with TLS and has one database", func(ctx context.Context) {
		s := newSite(ctx)
		began := time.Now()
		credentials := s.Credentials(ctx, one, object{"database": "or_ders"})
		AddReportEntry("create-binding", time.Since(began).Round(time.Millisecond).String())
		login := fmt.Sprintf("%s:%s", userOne, credentials["password"])
		address := fmt.Sprintf("%s:%d", serverName, server.Port)
		Expect(credentials).To(Equal(object{
			"username": userOne, "password": credentials["password"], "hostname": serverName,
			"port": float64(server.Port), "name": "or_ders", "ca_cert": certificates.CA,
			"uri": "mysql://" + login + "@" + address + "/or_ders",
			"jdbc_url": fmt.Sprintf("jdbc:mysql://%s/or_ders?user=%s&password=%s&sslMode=REQUIRED",
				address, userOne, credentials["password"]),
		}))
		app := session(ctx, credentials)
		run(ctx, app, "CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
		query(ctx, "CREATE DATABASE orXders")
		for _, database := range []string{"orXders", "mysql"} {
			_, err := app.ExecContext(ctx, "USE "+database)
			refused(err, databaseDenied)
		}

		By("creating it again")
		Expect(s.CreateBinding(ctx, one, nil).Exit).To(Equal(49))
		run(ctx, app, "INSERT INTO orders VALUES (2)")

		By("deleting it")
		began = time.Now()
		s.unbound(ctx, one)
		AddReportEntry("delete-binding", time.Since(began).Round(time.Millisecond).String())
		loggedOut(ctx, credentials)
		Expect(s.DeleteBinding(ctx, one).Exit).To(Equal(41))
		Expect(users(ctx)).To(BeEmpty())
		Expect(query(ctx, "SELECT id FROM or_ders.orders")).To(Equal([]string{"1", "2"}), "data outlive bindings")
	})

	It("gives two bindings of an app the same tables, one of them with read access only", kit.Slow(),
		func(ctx context.Context) {
			s := newSite(ctx)
			first := s.Credentials(ctx, one, nil)
			writer := session(ctx, first)
			run(ctx, writer, "CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (1)",
				"CREATE VIEW recent AS SELECT * FROM orders")
			reader := session(ctx, s.Credentials(ctx, two, object{"read_only": true}))
			for _, relation := range []string{"orders", "recent"} {
				var id int
				Expect(reader.QueryRowContext(ctx, "SELECT id FROM "+relation).Scan(&id)).To(Succeed())
				Expect(id).To(Equal(1))
			}
			for _, statement := range []string{
				"INSERT INTO orders VALUES (2)", "DELETE FROM orders", "DROP TABLE orders",
				"CREATE TABLE more (id INT)",
			} {
				_, err := reader.ExecContext(ctx, statement)
				refused(err, commandDenied)
			}

			By("deleting the first binding")
			s.unbound(ctx, one)
			loggedOut(ctx, first)
			run(ctx, reader, "SELECT id FROM orders")
			Expect(users(ctx)).To(Equal([]string{userTwo}))
			s.unbound(ctx, two)
		})

	It("ends the sessions of a deleted user, and no others", func(ctx context.Context) {
		s := newSite(ctx)
		credentials := s.Credentials(ctx, one, nil)
		other := session(ctx, s.Credentials(ctx, two, nil))
		idle, busy, transaction := session(ctx, credentials), session(ctx, credentials), session(ctx, credentials)
		run(ctx, idle, "CREATE TABLE orders (id INT PRIMARY KEY)")
		run(ctx, transaction, "BEGIN", "INSERT INTO orders VALUES (1)")
		background, stop := context.WithCancel(ctx)
		defer stop()
		ended := make(chan error, 1)
		go func() {
			_, err := busy.ExecContext(background, "SELECT SLEEP(600)")
			ended <- err
		}()
		newest := make(chan []*sql.Conn)
		go func() { newest <- reconnect(background, open(credentials)) }()
		Eventually(func() int { return len(sessions(ctx)) }).Should(BeNumerically(">=", 4+kept))

		s.unbound(ctx, one)
		Eventually(ended).Should(Receive(HaveOccurred()))
		stop()
		for _, session := range append(<-newest, idle, transaction) {
			_, err := session.ExecContext(ctx, "SELECT 1")
			Expect(err).To(HaveOccurred())
		}
		Eventually(sessions).WithContext(ctx).Should(Equal([]string{userTwo}))
		Expect(query(ctx, "SELECT id FROM app.orders")).To(BeEmpty(), "the transaction was rolled back")
		run(ctx, other, "INSERT INTO orders VALUES (2)")
		s.unbound(ctx, two)
	})

	It("reaches a cluster whose first servers are down, and reports to users when all servers are down",
		func(ctx context.Context) {
			s := newCluster(ctx, down, "127.0.0.3", server.Host)
			credentials := s.Credentials(ctx, one, nil)
			Expect(credentials).To(HaveKeyWithValue("hostname", proxyName))
			app := session(ctx, credentials)
			run(ctx, app, "CREATE TABLE orders (id INT PRIMARY KEY)")
			s.unbound(ctx, one)
			_, err := app.ExecContext(ctx, "SELECT 1")
			Expect(err).To(HaveOccurred())
			loggedOut(ctx, credentials)

			s.VMs["mysql"] = []string{down}
			Expect(s.ExpectUnreachable(ctx, two,
				unreachable).Stderr).To(ContainSubstring("cannot reach MySQL at " + down + ": ERROR 2002"))
			s.VMs["mysql"] = []string{down, server.Host}
			s.unbound(ctx, two)
			Expect(users(ctx)).To(BeEmpty())
		})

	It("sends no secret to a server with a certificate of another authority", func(ctx context.Context) {
		s := newSite(ctx)
		s.Secrets[authority] = servers.NewCertificates(GinkgoT(), serverName).CA
		Expect(s.ExpectUnreachable(ctx, one, unreachable).Stderr).To(
			ContainSubstring("cannot reach MySQL at " + server.Host + ": ERROR 2026"))
		Expect(users(ctx)).To(BeEmpty())
	})

	It("deletes a binding after the administrator's password was rotated, whatever characters it contains",
		func(ctx context.Context) {
			s := newSite(ctx)
			credentials := s.Credentials(ctx, one, nil)
			old := server.Password
			Expect(server.SetPassword(ctx, `#"'\n\\ $(touch evil) `+"`id` ü;=")).To(Succeed())
			DeferCleanup(func(ctx context.Context) { Expect(server.SetPassword(ctx, old)).To(Succeed()) })
			answer := s.DeleteBinding(ctx, one)
			Expect(answer.Exit).To(Equal(1))
			Expect(answer.Stdout).To(BeEmpty(), "the message is for the operator")
			Expect(answer.Stderr).To(And(
				ContainSubstring("MySQL at "+server.Host+" rejected a statement to delete the user: ERROR 1045"),
				Not(ContainSubstring(old))))
			Expect(open(credentials).PingContext(ctx)).To(Succeed())

			s.Secrets[administrator] = server.Password
			s.unbound(ctx, one)
			Expect(open(s.Credentials(ctx, two, nil)).PingContext(ctx)).To(Succeed())
			s.unbound(ctx, two)
			Expect(users(ctx)).To(BeEmpty())
		})

	DescribeTable("rejects the parameter database", func(ctx context.Context, database, message string) {
		s := newSite(ctx)
		answer := s.CreateBinding(ctx, one, object{"database": database})
		Expect(answer.Exit).To(Equal(1))
		Expect(answer.Stdout).To(ContainSubstring(message))
		Expect(users(ctx)).To(BeEmpty())
		Expect(s.DeleteBinding(ctx, one).Exit).To(Equal(41))
	},
		Entry("with a database of MySQL itself", "mysql",
			`parameter "database" must not be a database of MySQL itself`),
		Entry("with characters that have a meaning in SQL", "a`b", "database"),
		Entry("with an upper-case letter", "Mysql", "database"),
		Entry("with a pattern", "%", "database"),
	)
})

// kept is the number of sessions that reconnect keeps open.
const kept = 10

// reconnect opens one session after the other until the context ends, and returns the newest ones. Each closes the
// oldest that is still open.
func reconnect(ctx context.Context, db *sql.DB) []*sql.Conn {
	db.SetMaxIdleConns(0)
	var newest []*sql.Conn
	for ctx.Err() == nil {
		session, err := db.Conn(ctx)
		if err != nil {
			continue
		}
		if newest = append(newest, session); len(newest) > kept {
			_ = newest[0].Close() // it may have been ended
			newest = newest[1:]
		}
	}
	return newest
}
