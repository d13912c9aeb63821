package statestore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/statestore"
	"service-adapter/spec/kit"
)

// sqlBlock returns the SQL statement of a page in docs/operations that begins with start.
func sqlBlock(page, start string) string {
	GinkgoHelper()
	text, err := os.ReadFile(kit.Path("docs", "operations", page))
	Expect(err).NotTo(HaveOccurred())
	statement := regexp.MustCompile("(?ms)^ *```sql\n *(.*?);\n *```$")
	for _, block := range statement.FindAllStringSubmatch(string(text), -1) {
		if strings.HasPrefix(block[1], start) {
			return block[1]
		}
	}
	Fail(page + " has no SQL statement that begins with " + start)
	return ""
}

var _ = Describe("a store of the backend pg", func() {
	one, two := []byte(`{"n":1}`), []byte(`{"n":2}`)

	It("reports the lock that another session holds, and changes other states", func(ctx context.Context) {
		p := newBackend(ctx, "pg")
		store := newStore(p)
		for _, name := range []string{"b-1", "b-2"} {
			Expect(store.Replace(ctx, name, nil, one)).To(Succeed())
		}
		session := p.session(ctx)
		_, err := session.ExecContext(ctx,
			`SELECT pg_advisory_lock(id) FROM terraform_remote_state.states WHERE name = 'b-1'`)
		Expect(err).NotTo(HaveOccurred())
		for _, err := range []error{
			store.Replace(ctx, "b-1", one, two), store.Delete(ctx, "b-1", one), store.Replace(ctx, "b-1", two, one),
		} {
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

	It("holds the lock until its change is committed, and compares after it got the lock", func(ctx context.Context) {
		p := newBackend(ctx, "pg")
		store := newStore(p)
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		session := p.session(ctx)
		// A writer that takes no advisory lock locks the row, so that the store's statement waits after it took its
		// lock.
		for _, statement := range []string{
			"BEGIN", `UPDATE terraform_remote_state.states SET data = '{"n":3}' WHERE name = 'b-1'`,
		} {
			_, err := session.ExecContext(ctx, statement)
			Expect(err).NotTo(HaveOccurred())
		}
		replaced := make(chan error, 1)
		go func() { replaced <- store.Replace(ctx, "b-1", one, two) }()
		// The store's session holds the advisory lock of the row and waits for the lock of the row itself.
		waits := func() (waits bool, err error) {
			err = session.QueryRowContext(ctx, `SELECT EXISTS (
				SELECT FROM terraform_remote_state.states AS state
				JOIN pg_locks AS held ON held.locktype = 'advisory' AND held.granted AND held.objid::bigint = state.id
				JOIN pg_locks AS awaited ON awaited.pid = held.pid AND NOT awaited.granted
				WHERE state.name = 'b-1')`).Scan(&waits)
			return waits, err
		}
		Eventually(waits).Should(BeTrue())
		_, err := session.ExecContext(ctx, "COMMIT")
		Expect(err).NotTo(HaveOccurred())
		Eventually(replaced).Should(Receive(MatchError(statestore.ErrChanged)))
		Expect(store.Read(ctx, "b-1")).To(Equal([]byte(`{"n":3}`)))
	})

	DescribeTable("reports a row without data as incomplete and keeps it", func(ctx context.Context, data string) {
		p := newBackend(ctx, "pg")
		store := newStore(p)
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		p.query(ctx, `UPDATE terraform_remote_state.states SET data = `+data)
		stored, err := store.Read(ctx, "b-1")
		Expect(err).To(MatchError(statestore.ErrIncomplete))
		Expect(err).To(MatchError(ContainSubstring(`workspace "b-1"`)))
		Expect(stored).To(BeNil())
		for _, before := range [][]byte{nil, {}, one} {
			Expect(store.Replace(ctx, "b-1", before, two)).To(MatchError(statestore.ErrChanged))
			Expect(store.Delete(ctx, "b-1", before)).To(MatchError(statestore.ErrChanged))
		}
		Expect(store.List(ctx)).To(Equal([]string{"b-1"}))
		_, err = store.Read(ctx, "b-1")
		Expect(err).To(MatchError(statestore.ErrIncomplete))
	},
		Entry("an empty text", "''"),
		Entry("NULL", "NULL"),
	)

	It("reads several states at once, and omits incomplete and missing ones", func(ctx context.Context) {
		p := newBackend(ctx, "pg")
		store := newStore(p)
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		p.query(ctx, `INSERT INTO terraform_remote_state.states (name, data) VALUES ('b-2', NULL), ('b-3', '')`)
		several, ok := store.(interface {
			ReadAll(ctx context.Context, workspaces []string) (map[string][]byte, error)
		})
		Expect(ok).To(BeTrue())
		Expect(several.ReadAll(ctx, []string{"b-1", "b-2", "b-3", "b-4"})).To(Equal(map[string][]byte{"b-1": one}))
	})

	It("renames a row, with or without data, but not while another session holds its lock", func(ctx context.Context) {
		p := newBackend(ctx, "pg")
		store := newStore(p)
		for n, data := range []string{`'{"n":1}'`, "''", "NULL"} {
			name := fmt.Sprintf("b-%d", n)
			p.query(ctx, `INSERT INTO terraform_remote_state.states (name, data) VALUES ('`+name+`', `+data+`)`)
			session := p.session(ctx)
			_, err := session.ExecContext(ctx,
				`SELECT pg_advisory_lock(id) FROM terraform_remote_state.states WHERE name = $1`, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(errors.As(store.SetAside(ctx, name, "aside"), new(*statestore.HeldError))).To(BeTrue())
			_, err = session.ExecContext(ctx, `SELECT pg_advisory_unlock_all()`)
			Expect(err).NotTo(HaveOccurred())
			Expect(store.SetAside(ctx, name, "aside-"+name)).To(Succeed())
			Expect(store.SetAside(ctx, name, "aside")).To(MatchError(statestore.ErrChanged), "the row has the new name")
		}
		Expect(store.List(ctx)).To(Equal([]string{"aside-b-0", "aside-b-1", "aside-b-2"}))
		Expect(store.Read(ctx, "aside-b-0")).To(Equal(one))
	})

	It("uses the schema and the table of the configuration", func(ctx context.Context) {
		p := newDatabase(ctx)
		p.query(ctx, `CREATE SCHEMA "Of ""us"""`)
		p.query(ctx, `CREATE TABLE "Of ""us"""."Our states" (id bigserial PRIMARY KEY, name text UNIQUE, data text)`)
		store, err := statestore.Postgres(map[string]any{
			"conn_str": p.address, "schema_name": `Of "us"`, "table_name": "Our states",
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(store.Replace(ctx, "b-1", nil, one)).To(Succeed())
		Expect(store.Replace(ctx, "b-1", one, two)).To(Succeed())
		Expect(store.List(ctx)).To(Equal([]string{"b-1"}))
		Expect(store.Delete(ctx, "b-1", two)).To(Succeed())
	})

	It("has the connection that holds a lock, and the row that was set aside, as docs/operations describes",
		func(ctx context.Context) {
			p := newDatabase(ctx)
			p.query(ctx, `CREATE SCHEMA service_adapter`)
			p.query(ctx, `CREATE TABLE service_adapter.states (id bigserial PRIMARY KEY, name text UNIQUE, data text)`)
			store, err := statestore.Postgres(map[string]any{"conn_str": p.address, "schema_name": "service_adapter"})
			Expect(err).NotTo(HaveOccurred())
			for _, name := range []string{"b-1", "b-2"} {
				Expect(store.Replace(ctx, name, nil, one)).To(Succeed())
			}
			other, session := p.session(ctx), p.session(ctx)
			var pid, found int
			var workspace string
			Expect(other.QueryRowContext(ctx, `SELECT pg_backend_pid() FROM (SELECT pg_advisory_lock(id)
				FROM service_adapter.states WHERE name = 'b-1') AS locked`).Scan(&pid)).To(Succeed())

			find := sqlBlock("a-lock-stays.md", "SELECT state.name")
			end := sqlBlock("a-lock-stays.md", "SELECT pg_terminate")
			ignored := new(any)
			for name, held := range map[string]bool{"b-1": true, "b-2": false} {
				row := session.QueryRowContext(ctx, strings.ReplaceAll(find, "b-ID", name))
				err := row.Scan(&workspace, &found, ignored, ignored, ignored)
				if !held {
					Expect(err).To(MatchError(sql.ErrNoRows))
					continue
				}
				Expect(err).NotTo(HaveOccurred())
				Expect([]any{workspace, found}).To(Equal([]any{"b-1", pid}))
			}
			_, err = session.ExecContext(ctx, strings.ReplaceAll(end, "PID", strconv.Itoa(pid)))
			Expect(err).NotTo(HaveOccurred())
			Eventually(func() error { return store.Replace(ctx, "b-1", one, two) }).Should(Succeed())

			Expect(store.SetAside(ctx, "b-1", "aside-b-1-7")).To(Succeed())
			restore := strings.NewReplacer("aside-b-ID-…", "aside-b-1-7", "b-ID", "b-1")
			_, err = session.ExecContext(ctx, restore.Replace(sqlBlock("repair-a-state.md", "UPDATE")))
			Expect(err).NotTo(HaveOccurred())
			Expect(store.Read(ctx, "b-1")).To(Equal(two))
		})

	It("reports that the table does not exist", func(ctx context.Context) {
		p := newDatabase(ctx)
		for range 2 {
			store := newStore(p)
			_, err := store.Read(ctx, "b-1")
			Expect(err).To(MatchError(statestore.ErrUnprepared))
			_, err = store.List(ctx)
			Expect(err).To(MatchError(statestore.ErrUnprepared))
			_, err = store.Locks(ctx)
			Expect(err).To(MatchError(statestore.ErrUnprepared))
			Expect(store.Replace(ctx, "b-1", nil, one)).To(MatchError(statestore.ErrUnprepared))
			Expect(store.Replace(ctx, "b-1", one, two)).To(MatchError(statestore.ErrUnprepared))
			Expect(store.Delete(ctx, "b-1", nil)).To(MatchError(statestore.ErrUnprepared))
			p.query(ctx, `CREATE SCHEMA IF NOT EXISTS terraform_remote_state`)
		}
	})

	It("keeps the password out of its errors", func(ctx context.Context) {
		p := newBackend(ctx, "pg")
		password := server().Password
		failing := func(connection string) {
			GinkgoHelper()
			_, err := newStore(backend{"pg", connection}).Read(ctx, "b-1")
			Expect(err).To(MatchError(Not(ContainSubstring(password))))
			Expect(err.Error()).NotTo(ContainSubstring("wrong"))
		}
		failing(strings.Replace(p.address, password, "wrong"+password, 1))
		failing(strings.Replace(p.address, "admin:", "nobody:", 1))
		failing(strings.Replace(p.address, "sslmode=disable", "sslmode=require", 1))
		failing(strings.Replace(p.address, "sslmode=disable", "sslmode=verify-full&sslrootcert=/nowhere", 1))
		Expect(server().Stop()).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(server().Start(ctx)).To(Succeed()) })
		failing(p.address)
		Expect(newStore(p).Replace(ctx, "b-1", nil, one)).To(MatchError(ContainSubstring("connection refused")))
	})

	It("stops waiting for a server that does not answer when the context ends", func(ctx context.Context) {
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
		store := newStore(backend{"pg", "postgres://u:p@" + listener.Addr().String() + "/d?sslmode=disable"})
		Expect(store.Replace(waiting, "b-1", nil, one)).To(MatchError(context.Canceled))
	})

	DescribeTable("rejects connection strings that OpenTofu may understand differently", func(connection string) {
		_, err := statestore.Postgres(map[string]any{"conn_str": connection})
		Expect(err).To(MatchError(statestore.ErrUnsupported))
		Expect(err.Error()).NotTo(ContainSubstring("secret"))
	},
		Entry("an empty string", ""),
		Entry("only spaces", " "),
		Entry("an invalid port", "postgres://u:secret@h:port/d"),
		Entry("an unknown sslmode", "user=u password=secret sslmode=other"),
		Entry("a word that is not a setting", "user=u secret"),
		Entry("a relative path of a certificate", "user=u sslcert=a.crt sslkey=/a.key"),
		Entry("a relative path of a root certificate", "postgres://u:secret@h/d?sslrootcert=ca.crt"),
		Entry("a relative path of a password file", "user=u passfile=pass"),
	)

	DescribeTable("rejects connection strings that the environment affects", func(variable, value, connection string) {
		GinkgoT().Setenv(variable, value)
		_, err := statestore.Postgres(map[string]any{"conn_str": connection})
		Expect(err).To(MatchError(statestore.ErrUnsupported))
	},
		Entry("PGHOST", "PGHOST", "elsewhere", "postgres://u@h/d"),
		Entry("an empty variable", "PGSSLMODE", "", "postgres://u@h/d"),
		Entry("a variable of the driver", "PQGO_DEBUG", "1", "postgres://u@h/d"),
		Entry("USER if the connection string has no user", "USER", "somebody-else", "host=h dbname=d"),
	)

	It("does not read the home directory, because that of OpenTofu is empty", func(ctx context.Context) {
		p := newBackend(ctx, "pg")
		home := GinkgoT().TempDir()
		GinkgoT().Setenv("HOME", home)
		write(home+"/.pgpass", "*:*:*:*:"+server().Password)
		_, err := newStore(backend{"pg", strings.Replace(p.address, ":"+server().Password, "", 1)}).Read(ctx, "b-1")
		Expect(err).To(MatchError(ContainSubstring("password")))
	})
})
