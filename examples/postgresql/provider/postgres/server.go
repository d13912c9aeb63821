// Package postgres creates, changes and drops login roles and databases of a PostgreSQL server, version 14 or later.
// Its errors describe the cause in one sentence without secrets.
//
// Each operation opens a separate connection and closes it, because OpenTofu starts the provider several times for one
// binding and each process is short-lived. No session may remain on the server, even if the provider is killed.
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

// SSLModes returns all values of Server.SSLMode.
func SSLModes() []string { return []string{SSLDisable, SSLRequire, SSLVerifyCA, SSLVerifyFull} }

// Server contains the address of a PostgreSQL server and the login of its administrator. The administrator is a
// superuser, or a role that has CREATEROLE and owns the databases. It needs CREATEDB to create databases.
type Server struct {
	// Hosts contains names or addresses of one cluster. If it contains several, the host that accepts writes is used.
	Hosts    []string
	Port     int
	User     string
	Password string
	// Database is the name of the database for connections that do not concern a particular database.
	Database string
	// SSLMode is one of SSLModes.
	SSLMode string
	// CA contains the PEM certificates of the authorities that may sign the server's certificate; "" means the
	// authorities of the operating system.
	CA string
	// ConnectTimeout limits each attempt to connect.
	ConnectTimeout time.Duration
}

// timeout limits a whole operation, and lockTimeout limits each wait for a lock.
const (
	timeout     = 30 * time.Second
	lockTimeout = 10 * time.Second
)

// endpoint returns the addresses of the server for messages, such as "10.0.0.1:5432, 10.0.0.2:5432".
func (s Server) endpoint() string {
	names := make([]string, 0, len(s.Hosts))
	for _, host := range s.Hosts {
		names = append(names, net.JoinHostPort(host, strconv.Itoa(s.Port)))
	}
	return strings.Join(names, ", ")
}

// do connects to a database, calls work and closes the connection. It limits all of this to timeout. It returns an
// error if the server is not configured completely, if the connection fails, or if work returns an error. The error
// wraps errNoDatabase if the database does not exist.
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
	// An error of Close can be ignored, because the results of work are already committed.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return s.explain(work(ctx, conn), conn.IsClosed)
}

// doAnywhere calls do, and again with s.Database if the database does not exist.
func (s Server) doAnywhere(ctx context.Context, database string, work func(context.Context, *pgx.Conn) error) error {
	err := s.do(ctx, database, work)
	if errors.Is(err, errNoDatabase) && database != s.Database {
		return s.do(ctx, s.Database, work)
	}
	return err
}

// config returns the configuration of a connection to a database. It depends only on s: environment variables and files
// of PostgreSQL clients have no effect. It returns an error if s has no host or user, or if the SSL mode or the
// certificates are invalid.
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
	// With this search path, objects of users cannot replace functions and operators of PostgreSQL in the statements.
	config.RuntimeParams = map[string]string{
		"application_name": "terraform-provider-pgaccess", "client_encoding": "UTF8", "search_path": "pg_catalog",
		"lock_timeout": strconv.FormatInt(lockTimeout.Milliseconds(), 10),
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // each statement runs once, so preparing it has no benefit
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

// tls returns the TLS configuration for a connection to a host, or nil if s.SSLMode disables TLS. It returns an error
// if s.SSLMode is unknown or s.CA contains no PEM certificate.
func (s Server) tls(host string) (*tls.Config, error) {
	var roots *x509.CertPool
	if s.CA != "" {
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(s.CA)) {
			return nil, errors.New("ca_certificate does not contain a certificate in PEM format")
		}
	}
	switch s.SSLMode {
	case SSLDisable:
		return nil, nil //nolint:nilnil // nil disables TLS in pgx
	case SSLRequire:
		//nolint:gosec // the mode does not verify certificates
		return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, nil
	case SSLVerifyCA:
		return &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies the chain; the mode ignores the name
			MinVersion:         tls.VersionTLS12,
			VerifyConnection:   func(state tls.ConnectionState) error { return verifyChain(state, roots) },
		}, nil
	case SSLVerifyFull:
		return &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
	default:
		return nil, fmt.Errorf("sslmode %q is not one of %s", s.SSLMode, strings.Join(SSLModes(), ", "))
	}
}

// verifyChain verifies that an authority of roots signed the server's certificate. It does not check the host name. Nil
// roots mean the authorities of the operating system. The error is a *tls.CertificateVerificationError.
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
