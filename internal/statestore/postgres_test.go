package statestore_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/statestore"
)

var _ = Describe("a store in PostgreSQL", func() {
	one, two := []byte(`{"n":1}`), []byte(`{"n":2}`)

	It("finds the lock held that a session holds, and no other", func(ctx context.Context) {
		p := newPlace(ctx, "pg")
		store := opened(p)
		for _, name := range []string{"b-1", "b-2"} {
			Expect(store.Replace(ctx, name, nil, one)).To(Succeed())
		}
		session := p.session(ctx)
		_, err := session.ExecContext(ctx, `SELECT pg_advisory_lock(id) FROM terraform_remote_state.states WHERE name = 'b-1'`)
		Expect(err).NotTo(HaveOccurred())
		for _, err := range []error{store.Replace(ctx, "b-1", one, two), store.Delete(ctx, "b-1", one), store.Replace(ctx, "b-1", two, one)} {
			var held *statestore.HeldError
			Expect(errors.As(err, &held)).To(BeTrue(), "%v", err)
			Expect(*held).To(BeZero())
		}
		Expect(store.Read(ctx, "b-1")).To(Equal(one))
		Expect(store.Replace(ctx, "b-2", one, two)).To(Succeed())
		Expect(store.Replace(ctx, "b-3", nil, one)).To(Succeed())

		_, err = session.ExecContext(ctx, `SELECT pg_advisory_unlock_all()`)
		Expect(err).NotTo(HaveOccurred())
		Expect(store.Replace(ctx, "b-1", one, two)).To(Succeed())
	})

	It("holds the lock until its change is there, and compares once it has it", func(ctx context.Context) {
		p := newPlace(ctx, "pg")
		store := opened(p)
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		session := p.session(ctx)
		// Another writer without a lock keeps the row: the statement waits after it took the lock.
		for _, statement := range []string{"BEGIN", `UPDATE terraform_remote_state.states SET data = '{"n":3}' WHERE name = 'b-1'`} {
			_, err := session.ExecContext(ctx, statement)
			Expect(err).NotTo(HaveOccurred())
		}
		replaced := make(chan error, 1)
		go func() { replaced <- store.Replace(ctx, "b-1", one, two) }()
		got := func() (got bool, err error) {
			err = session.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock(id) FROM terraform_remote_state.states WHERE name = 'b-1'
				AND EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory')`).Scan(&got)
			return got, err
		}
		Eventually(got).Should(BeFalse())
		_, err := session.ExecContext(ctx, "COMMIT")
		Expect(err).NotTo(HaveOccurred())
		Eventually(replaced).Should(Receive(MatchError(statestore.ErrChanged)))
		Expect(store.Read(ctx, "b-1")).To(Equal([]byte(`{"n":3}`)))
	})

	It("fills a row that holds nothing", func(ctx context.Context) {
		p := newPlace(ctx, "pg")
		store := opened(p)
		for _, data := range []string{"NULL", "''"} {
			p.query(ctx, `DELETE FROM terraform_remote_state.states`)
			p.query(ctx, `INSERT INTO terraform_remote_state.states (name, data) VALUES ('b-1', `+data+`), ('b-2', `+data+`)`)
			Expect(store.Read(ctx, "b-1")).To(BeNil())
			Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
			Expect(store.Read(ctx, "b-1")).To(Equal(one))
			Expect(store.Delete(ctx, "b-2", nil)).To(Succeed())
			Expect(store.List(ctx)).To(Equal([]string{"b-1"}))
		}
	})

	It("reads several rows at once, and tells those that hold nothing from those that do not exist", func(ctx context.Context) {
		p := newPlace(ctx, "pg")
		store := opened(p)
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		p.query(ctx, `INSERT INTO terraform_remote_state.states (name) VALUES ('b-2')`)
		several, ok := store.(interface {
			ReadAll(ctx context.Context, workspaces []string) (map[string][]byte, error)
		})
		Expect(ok).To(BeTrue())
		Expect(several.ReadAll(ctx, []string{"b-1", "b-2", "b-3"})).To(Equal(map[string][]byte{"b-1": one, "b-2": nil}))
	})

	It("uses the schema and the table of the configuration", func(ctx context.Context) {
		p := newDatabase(ctx)
		p.query(ctx, `CREATE SCHEMA "Of ""us"""`)
		p.query(ctx, `CREATE TABLE "Of ""us"""."Our states" (id bigserial PRIMARY KEY, name text UNIQUE, data text)`)
		store, err := statestore.Postgres(map[string]any{"conn_str": p.where, "schema_name": `Of "us"`, "table_name": "Our states"})
		Expect(err).NotTo(HaveOccurred())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(store.Replace(ctx, "b-1", one, two)).To(Succeed())
		Expect(store.List(ctx)).To(Equal([]string{"b-1"}))
		Expect(store.Delete(ctx, "b-1", two)).To(Succeed())
	})

	It("says that OpenTofu has not made the table yet", func(ctx context.Context) {
		p := newDatabase(ctx)
		for range 2 {
			store := opened(p)
			_, err := store.Read(ctx, "b-1")
			Expect(err).To(MatchError(statestore.ErrUnprepared))
			_, err = store.List(ctx)
			Expect(err).To(MatchError(statestore.ErrUnprepared))
			Expect(store.Replace(ctx, "b-1", nil, one)).To(MatchError(statestore.ErrUnprepared))
			Expect(store.Replace(ctx, "b-1", one, two)).To(MatchError(statestore.ErrUnprepared))
			Expect(store.Delete(ctx, "b-1", nil)).To(MatchError(statestore.ErrUnprepared))
			p.query(ctx, `CREATE SCHEMA IF NOT EXISTS terraform_remote_state`)
		}
	})

	It("keeps the password out of its errors", func(ctx context.Context) {
		p := newPlace(ctx, "pg")
		password := server().Password
		failing := func(connection string) {
			GinkgoHelper()
			_, err := opened(place{"pg", connection}).Read(ctx, "b-1")
			Expect(err).To(MatchError(Not(ContainSubstring(password))))
			Expect(err.Error()).NotTo(ContainSubstring("wrong"))
		}
		failing(strings.Replace(p.where, password, "wrong"+password, 1))
		failing(strings.Replace(p.where, "admin:", "nobody:", 1))
		failing(strings.Replace(p.where, "sslmode=disable", "sslmode=require", 1))
		failing(strings.Replace(p.where, "sslmode=disable", "sslmode=verify-full&sslrootcert=/nowhere", 1))
		Expect(server().Stop()).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(server().Start(ctx)).To(Succeed()) })
		failing(p.where)
		Expect(opened(p).Replace(ctx, "b-1", nil, one)).To(MatchError(ContainSubstring("connection refused")))
	})

	It("waits for a server that does not answer only as long as the context", func(ctx context.Context) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		waiting, cancel := context.WithCancel(ctx)
		go func() {
			connection, err := listener.Accept()
			if err == nil {
				_, _ = io.ReadFull(connection, make([]byte, 1))
				cancel()
			}
		}()
		store := opened(place{"pg", "postgres://u:p@" + listener.Addr().String() + "/d?sslmode=disable"})
		Expect(store.Replace(waiting, "b-1", nil, one)).To(MatchError(context.Canceled))
	})

	DescribeTable("leaves to OpenTofu what that may see in another way", func(connection string) {
		_, err := statestore.Postgres(map[string]any{"conn_str": connection})
		Expect(err).To(MatchError(statestore.ErrUnsupported))
		Expect(err.Error()).NotTo(ContainSubstring("secret"))
	},
		Entry("no settings", ""),
		Entry("no settings but blanks", " "),
		Entry("a wrong port", "postgres://u:secret@h:port/d"),
		Entry("an unknown mode", "user=u password=secret sslmode=other"),
		Entry("half a setting", "user=u secret"),
		Entry("a relative certificate", "user=u sslcert=a.crt sslkey=/a.key"),
		Entry("a relative authority", "postgres://u:secret@h/d?sslrootcert=ca.crt"),
		Entry("a relative file of passwords", "user=u passfile=pass"),
	)

	DescribeTable("leaves to OpenTofu what the environment changes", func(variable, value, connection string) {
		GinkgoT().Setenv(variable, value)
		_, err := statestore.Postgres(map[string]any{"conn_str": connection})
		Expect(err).To(MatchError(statestore.ErrUnsupported))
	},
		Entry("PGHOST", "PGHOST", "elsewhere", "postgres://u@h/d"),
		Entry("an empty variable", "PGSSLMODE", "", "postgres://u@h/d"),
		Entry("the driver's own", "PQGO_DEBUG", "1", "postgres://u@h/d"),
		Entry("USER without another user", "USER", "somebody-else", "host=h dbname=d"),
	)

	It("does not read the home directory, which OpenTofu has not", func(ctx context.Context) {
		p := newPlace(ctx, "pg")
		home := GinkgoT().TempDir()
		GinkgoT().Setenv("HOME", home)
		write(home+"/.pgpass", "*:*:*:*:"+server().Password)
		_, err := opened(place{"pg", strings.Replace(p.where, ":"+server().Password, "", 1)}).Read(ctx, "b-1")
		Expect(err).To(MatchError(ContainSubstring("password")))
	})
})
