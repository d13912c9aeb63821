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

// The SQLSTATE codes that this package handles.
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
var errNoDatabase = errors.New("the database does not exist")

// unreachable converts the error of a failed connection to a database into an error of one line without secrets. The
// result wraps errNoDatabase if the database does not exist.
func (s Server) unreachable(database string, err error) error {
	var serverErr *pgconn.PgError
	switch {
	case !errors.As(err, &serverErr):
		return fmt.Errorf("cannot reach PostgreSQL at %s: %s", s.endpoint(), reason(err))
	case serverErr.Code == wrongPassword || serverErr.Code == notAuthorized:
		return fmt.Errorf("password authentication failed for user %q at %s", s.User, s.endpoint())
	case serverErr.Code == noSuchDatabase:
		return fmt.Errorf("%w: %q at %s", errNoDatabase, database, s.endpoint())
	case strings.HasPrefix(serverErr.Code, "57") || strings.HasPrefix(serverErr.Code, "53"):
		// The server is starting or stopping, or has too many connections.
		return fmt.Errorf("cannot reach PostgreSQL at %s: %s", s.endpoint(), serverErr.Message)
	default:
		return fmt.Errorf("PostgreSQL at %s rejected the connection: %s (SQLSTATE %s)",
			s.endpoint(), serverErr.Message, serverErr.Code)
	}
}

// explain converts an error of an established connection into an error that names the cause: a lost connection, a time
// limit, or locks of other sessions. It returns any other error, and nil, unchanged. closed reports whether the
// connection is closed.
func (s Server) explain(err error, closed func() bool) error {
	var serverErr *pgconn.PgError
	switch isServerErr := errors.As(err, &serverErr); {
	case err == nil:
		return nil
	case isServerErr && strings.HasPrefix(serverErr.Code, "57P"):
		// The server is stopping, or another session ended this one.
		return fmt.Errorf("lost the connection to PostgreSQL at %s: %s", s.endpoint(), serverErr.Message)
	case isServerErr && serverErr.Code == lockNotAvailable:
		return fmt.Errorf("other sessions locked the objects for more than %s: %w", lockTimeout, err)
	case isServerErr:
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("PostgreSQL at %s did not answer within %s", s.endpoint(), timeout)
	case closed():
		return fmt.Errorf("lost the connection to PostgreSQL at %s: %s", s.endpoint(), reason(err))
	default:
		return err
	}
}

// reason returns the cause of a network or TLS error as one line of text.
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
