package statestore_test

import (
	"context"
	"net"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/statestore"
)

// checkSessions calls CheckSessions of a store of the backend pg.
func checkSessions(ctx context.Context, p backend) error {
	GinkgoHelper()
	store, ok := newStore(p).(interface {
		CheckSessions(ctx context.Context) error
	})
	Expect(ok).To(BeTrue())
	return store.CheckSessions(ctx)
}

// A real pooler is in the suite of the backends. Here functions of the database answer as one would.
var _ = Describe("the check of PostgreSQL's sessions", func() {
	It("accepts a server whose clients have sessions of their own", func(ctx context.Context) {
		Expect(checkSessions(ctx, newDatabase(ctx))).To(Succeed())
	})

	DescribeTable("rejects a pooler", func(ctx context.Context, function string) {
		p := newDatabase(ctx)
		override(ctx, p, function)
		Expect(checkSessions(ctx, p)).To(MatchError(statestore.ErrPooled))
	},
		Entry("in which both clients have the same session", "pg_backend_pid() RETURNS int AS 'SELECT 1'"),
		Entry("that changes the session of a client", "pg_backend_pid() RETURNS int AS 'SELECT (random() * 1e9)::int'"),
		Entry("in which the lock of a client is lost", "pg_advisory_unlock(bigint) RETURNS bool AS 'SELECT false'"),
	)

	DescribeTable("leaves the error to OpenTofu", func(ctx context.Context, function string) {
		p := newDatabase(ctx)
		override(ctx, p, function)
		Expect(checkSessions(ctx, p)).To(Succeed())
	},
		Entry("if the server does not tell the session", "pg_backend_pid() RETURNS int AS 'SELECT 1/0'"),
		Entry("if it cannot lock", "pg_try_advisory_lock(bigint) RETURNS bool AS 'SELECT 1/0 > 0'"),
		Entry("if it cannot unlock", "pg_advisory_unlock(bigint) RETURNS bool AS 'SELECT 1/0 > 0'"),
		Entry("if another client holds the lock", "pg_try_advisory_lock(bigint) RETURNS bool AS 'SELECT false'"),
	)
})

var _ = Describe("the check of PostgreSQL's sessions with a server that accepts connections and never answers", func() {
	It("ends with its context", func(ctx context.Context) {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(listener.Close)
		checkCtx, end := context.WithCancel(ctx)
		checked := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			checked <- checkSessions(checkCtx, backend{
				kind: "pg", address: "postgres://adapter@" + listener.Addr().String() + "/states?sslmode=disable",
			})
		}()
		connection, err := listener.Accept()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(connection.Close)
		end()
		Eventually(checked).Should(Receive(BeNil()))
	})
})

// override creates an SQL function that the sessions of a database call in place of the server's.
func override(ctx context.Context, p backend, function string) {
	GinkgoHelper()
	p.query(ctx, "CREATE SCHEMA pooler")
	name, definition, _ := strings.Cut(function, "(")
	p.query(ctx, "CREATE FUNCTION pooler."+name+"("+definition+" LANGUAGE sql")
	p.query(ctx, `DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET search_path = pooler, pg_catalog', current_database());
	END $$`)
}
