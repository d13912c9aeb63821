// Package postgres makes and drops login roles and databases of a PostgreSQL server, version 14 or later, and words
// what goes wrong in one sentence without secrets.
//
// Each operation opens a connection of its own and closes it: a provider lives for a moment, is started several times
// for one binding, and must leave no session behind on the server, even when it is killed.
package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The values of Server.SSLMode, with the meaning that they have in libpq.
const (
	SSLDisable    = "disable"
	SSLRequire    = "require"
	SSLVerifyCA   = "verify-ca"
	SSLVerifyFull = "verify-full"
)

// SSLModes are all values of Server.SSLMode.
func SSLModes() []string { return []string{SSLDisable, SSLRequire, SSLVerifyCA, SSLVerifyFull} }

// Server is a PostgreSQL server and the administrator who works on it: a superuser, or a role with CREATEROLE, and
// CREATEDB for databases, that owns the databases.
type Server struct {
	// Hosts are names or addresses of one cluster; of several, the one that accepts writes is used.
	Hosts    []string
	Port     int
	User     string
	Password string
	// Database is the one to connect to for operations on the server as a whole.
	Database string
	SSLMode  string
	// CA holds the certificates, PEM, that the server's may be signed with; "" means those of the system.
	CA string
	// ConnectTimeout bounds each attempt to connect.
	ConnectTimeout time.Duration
}

// timeout bounds one operation as a whole, and lockTimeout the waiting for one lock in it.
const (
	timeout     = 30 * time.Second
	lockTimeout = 10 * time.Second
)

// endpoint names the server in messages.
func (s Server) endpoint() string {
	names := make([]string, 0, len(s.Hosts))
	for _, host := range s.Hosts {
		names = append(names, net.JoinHostPort(host, strconv.Itoa(s.Port)))
	}
	return strings.Join(names, ", ")
}

// do connects to a database, works on it and closes the connection. The error is errNoDatabase when there is no such
// database.
func (s Server) do(ctx context.Context, database string, work func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	config, err := s.config(database)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return s.unreachable(database, err)
	}
	// What was committed is committed: a farewell that does not reach the server changes nothing.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return s.explain(work(ctx, conn), conn.IsClosed)
}

// doAnywhere is do, in s.Database when there is no such database.
func (s Server) doAnywhere(ctx context.Context, database string, work func(context.Context, *pgx.Conn) error) error {
	err := s.do(ctx, database, work)
	if errors.Is(err, errNoDatabase) && database != s.Database {
		return s.do(ctx, s.Database, work)
	}
	return err
}

// config is made from nothing but s: the environment and files of the user who runs this have no say.
func (s Server) config(database string) (*pgx.ConnConfig, error) {
	if len(s.Hosts) == 0 {
		return nil, errors.New("no host of the PostgreSQL server is configured")
	}
	if s.User == "" {
		return nil, errors.New("no administrator of the PostgreSQL server is configured")
	}
	text := "host=localhost sslmode=disable"
	if len(s.Hosts) > 1 {
		text += " target_session_attrs=read-write"
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("preparing the connection: %w", err)
	}
	config.Port = uint16(s.Port) //nolint:gosec // a port
	config.User, config.Password, config.Database = s.User, s.Password, database
	config.ConnectTimeout, config.Fallbacks = s.ConnectTimeout, nil
	// Objects of users must not stand in for those of PostgreSQL while an administrator works.
	config.RuntimeParams = map[string]string{
		"application_name": "terraform-provider-pgaccess", "client_encoding": "UTF8", "search_path": "pg_catalog",
		"lock_timeout": strconv.FormatInt(lockTimeout.Milliseconds(), 10),
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // every statement runs once
	for i, host := range s.Hosts {
		secure, err := s.tls(host)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			config.Host, config.TLSConfig = host, secure
		} else {
			config.Fallbacks = append(config.Fallbacks,
				&pgconn.FallbackConfig{Host: host, Port: config.Port, TLSConfig: secure})
		}
	}
	return config, nil
}

// tls is the TLS configuration for one host, nil for none.
func (s Server) tls(host string) (*tls.Config, error) {
	var roots *x509.CertPool
	if s.CA != "" {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(s.CA)) {
			return nil, errors.New("ca_certificate holds no certificate in PEM format")
		}
	}
	switch s.SSLMode {
	case SSLDisable:
		return nil, nil //nolint:nilnil // that is how pgx is told
	case SSLRequire:
		//nolint:gosec // what the mode means
		return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, nil
	case SSLVerifyCA:
		return &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // the chain is verified here, the name is not
			MinVersion:         tls.VersionTLS12,
			VerifyConnection:   func(state tls.ConnectionState) error { return verifyChain(state, roots) },
		}, nil
	case SSLVerifyFull:
		return &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
	default:
		return nil, fmt.Errorf("sslmode %q is none of %s", s.SSLMode, strings.Join(SSLModes(), ", "))
	}
}

// verifyChain verifies who signed a certificate, but not whom it names.
func verifyChain(state tls.ConnectionState, roots *x509.CertPool) error {
	intermediates := x509.NewCertPool()
	for _, certificate := range state.PeerCertificates[1:] {
		intermediates.AddCert(certificate)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: state.PeerCertificates, Err: err}
	}
	return nil
}
