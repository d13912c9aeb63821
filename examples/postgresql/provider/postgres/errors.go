package postgres

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// The SQLSTATE codes that this package knows.
const (
	noSuchDatabase        = "3D000"
	wrongPassword         = "28P01"
	notAuthorized         = "28000"
	lockNotAvailable      = "55P03"
	serializationFailure  = "40001"
	deadlockDetected      = "40P01"
	uniqueViolation       = "23505"
	duplicateObject       = "42710"
	objectInUse           = "55006"
	internalError         = "XX000"
	insufficientPrivilege = "42501"
)

// errNoDatabase is the error of a connection to a database that does not exist.
var errNoDatabase = errors.New("there is no such database")

// unreachable words why no connection could be made.
func (s Server) unreachable(database string, err error) error {
	var refused *pgconn.PgError
	switch {
	case !errors.As(err, &refused):
		return fmt.Errorf("cannot reach PostgreSQL at %s: %s", s.endpoint(), reason(err))
	case refused.Code == wrongPassword || refused.Code == notAuthorized:
		return fmt.Errorf("password authentication failed for user %q at %s", s.User, s.endpoint())
	case refused.Code == noSuchDatabase:
		return fmt.Errorf("%w: %q at %s", errNoDatabase, database, s.endpoint())
	case strings.HasPrefix(refused.Code, "57") || strings.HasPrefix(refused.Code, "53"):
		// The server starts or stops, or has too many connections.
		return fmt.Errorf("cannot reach PostgreSQL at %s: %s", s.endpoint(), refused.Message)
	default:
		return fmt.Errorf("PostgreSQL at %s refused the connection: %s (SQLSTATE %s)",
			s.endpoint(), refused.Message, refused.Code)
	}
}

// explain words what went wrong on a connection, which may be closed since.
func (s Server) explain(err error, closed func() bool) error {
	var refused *pgconn.PgError
	switch isRefused := errors.As(err, &refused); {
	case err == nil:
		return nil
	case isRefused && strings.HasPrefix(refused.Code, "57P"): // the server stops, or somebody ended the session
		return fmt.Errorf("lost the connection to PostgreSQL at %s: %s", s.endpoint(), refused.Message)
	case isRefused && refused.Code == lockNotAvailable:
		return fmt.Errorf("other sessions use the objects for more than %s: %w", lockTimeout, err)
	case isRefused:
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("PostgreSQL at %s did not answer within %s", s.endpoint(), timeout)
	case closed():
		return fmt.Errorf("lost the connection to PostgreSQL at %s: %s", s.endpoint(), reason(err))
	default:
		return err
	}
}

// reason is the core of a network or TLS error.
func reason(err error) string {
	var (
		name        *net.DNSError
		errno       syscall.Errno
		certificate *tls.CertificateVerificationError
		network     net.Error
	)
	switch {
	case errors.As(err, &name):
		return "the host name cannot be resolved: " + name.Err
	case errors.As(err, &errno):
		return errno.Error()
	case errors.As(err, &certificate):
		return "the server's certificate cannot be trusted: " + certificate.Err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "timed out"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the server closed the connection"
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}
