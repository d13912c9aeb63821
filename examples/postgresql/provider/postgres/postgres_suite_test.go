package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/terraform-provider-pgaccess/postgres"
	"service-adapter/terraform-provider-pgaccess/spec/server"
)

func TestPostgres(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = 5 * time.Minute // a server that hangs must not block the suite
	RunSpecs(t, "postgres", suite, reporter)
}

// All specs share the server. Each spec has its own database.
var (
	running *server.Server
	number  int
	dir     string
)

var _ = BeforeSuite(func(ctx context.Context) {
	var err error
	dir, err = os.MkdirTemp("", "pgaccess-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	running, err = server.Start(ctx, dir)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return running.Stop() })
	Eventually(func() error {
		conn, err := pgx.Connect(ctx, dsn(server.Admin, server.Password, "postgres"))
		if err == nil {
			err = conn.Close(ctx)
		}
		return err
	}, "30s").Should(Succeed())
})

// administrator returns the server with the login of the superuser, as an operator configures the provider.
func administrator() postgres.Server {
	return postgres.Server{
		Hosts: []string{"127.0.0.1"}, Port: running.Port, User: server.Admin, Password: server.Password,
		Database: "postgres", SSLMode: postgres.SSLVerifyCA, CA: running.CA, ConnectTimeout: 5 * time.Second,
	}
}

func dsn(user, password, database string) string {
	text := url.URL{
		Scheme: "postgres", User: url.UserPassword(user, password),
		Host: fmt.Sprintf("127.0.0.1:%d", running.Port), Path: database, RawQuery: "sslmode=require",
	}
	return text.String()
}

// session opens a session of a user that ends with the spec.
func session(ctx context.Context, user, password, database string) *pgx.Conn {
	GinkgoHelper()
	conn, err := pgx.Connect(ctx, dsn(user, password, database))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// as runs statements in a session of a role, and returns the first error.
func as(ctx context.Context, r postgres.Role, statements ...string) error {
	GinkgoHelper()
	conn := session(ctx, r.Name, r.Password, r.Database)
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// query returns the single value of a query of the superuser.
func query[T any](ctx context.Context, database, sql string, arguments ...any) T {
	GinkgoHelper()
	conn := session(ctx, server.Admin, server.Password, database)
	defer conn.Close(ctx)
	var value T
	Expect(conn.QueryRow(ctx, sql, arguments...).Scan(&value)).To(Succeed())
	return value
}

// exec runs statements as the superuser.
func exec(ctx context.Context, database string, statements ...string) {
	GinkgoHelper()
	conn, err := pgx.Connect(ctx, dsn(server.Admin, server.Password, database))
	Expect(err).NotTo(HaveOccurred())
	defer conn.Close(ctx)
	for _, statement := range statements {
		_, err := conn.Exec(ctx, statement)
		Expect(err).NotTo(HaveOccurred(), statement)
	}
}

// newDatabase creates a database without the provider and returns its name, which needs quoting.
func newDatabase(ctx context.Context) string {
	GinkgoHelper()
	number++
	name := fmt.Sprintf(`The "%d" Base`, number)
	exec(ctx, "postgres", "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	return name
}

// member returns a role that has not been created.
func member(database, name string) postgres.Role {
	return postgres.Role{
		Name: name + " of " + database, Group: "owner of " + database, Database: database, Marker: "it's " + name,
		Password: `pass"'\word`, ConnectionLimit: -1,
	}
}

// exists reports whether a role exists.
func exists(ctx context.Context, role string) bool {
	GinkgoHelper()
	return query[bool](ctx, "postgres", "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", role)
}
