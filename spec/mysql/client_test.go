package mysql_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// The names in BOSH's DNS of the server of the plan single, and of the proxies of the plan cluster.
const (
	serverName = "q-s0.mysql.default.service-instance-mysql.bosh"
	proxyName  = "q-s0.proxy.default.service-instance-mysql.bosh"
)

// open returns the sessions of an application that has only its credentials: it uses the URI, and verifies that the
// authority in the credentials signed the server's certificate for the hostname. The hostname resolves to the server,
// as BOSH's DNS would resolve it.
func open(credentials object) *sql.DB {
	GinkgoHelper()
	uri, err := url.Parse(credentials["uri"].(string))
	Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM([]byte(credentials["ca_cert"].(string)))).To(BeTrue())
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr = uri.User.Username(), "tcp", uri.Host
	config.Passwd, _ = uri.User.Password()
	config.DBName = strings.TrimPrefix(uri.Path, "/")
	config.TLS = &tls.Config{RootCAs: roots, ServerName: uri.Hostname(), MinVersion: tls.VersionTLS12}
	config.Logger = &mysql.NopLogger{}
	config.DialFunc = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Address())
	}
	connector, err := mysql.NewConnector(config)
	Expect(err).NotTo(HaveOccurred())
	db := sql.OpenDB(connector)
	DeferCleanup(db.Close)
	return db
}

// session returns one session of an application, which stays open until the end of the spec.
func session(ctx context.Context, credentials object) *sql.Conn {
	GinkgoHelper()
	conn, err := open(credentials).Conn(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = conn.Close() }) // an unbind may have ended the session
	return conn
}

// run executes statements in a session.
func run(ctx context.Context, session *sql.Conn, statements ...string) {
	GinkgoHelper()
	for _, statement := range statements {
		_, err := session.ExecContext(ctx, statement)
		Expect(err).NotTo(HaveOccurred(), statement)
	}
}

// The error numbers of the server.
const (
	databaseDenied = 1044
	accessDenied   = 1045
	commandDenied  = 1142
	accountLocked  = 4151
)

// refused expects that the server rejects a statement or a session with this error number.
func refused(err error, number uint16) {
	GinkgoHelper()
	var rejection *mysql.MySQLError
	Expect(err).To(BeAssignableToTypeOf(rejection))
	Expect(err).To(HaveField("Number", number))
}

// loggedOut asserts that no user can log in with these credentials.
func loggedOut(ctx context.Context, credentials object) {
	GinkgoHelper()
	refused(open(credentials).PingContext(ctx), accessDenied)
}

// query returns the rows of a query of the server's administrator.
func query(ctx context.Context, statements string) []string {
	GinkgoHelper()
	rows, err := server.Query(ctx, statements)
	Expect(err).NotTo(HaveOccurred())
	return rows
}

// users returns the users of bindings.
func users(ctx context.Context) []string {
	GinkgoHelper()
	return query(ctx, "SELECT user FROM mysql.user WHERE host = '%' AND user <> 'admin'")
}

// sessions returns the users of bindings who have a session, once for each session.
func sessions(ctx context.Context) []string {
	GinkgoHelper()
	return query(ctx, "SELECT user FROM information_schema.processlist "+
		"WHERE user NOT IN ('admin', 'root', 'unauthenticated user')")
}
