package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// maxIdentifier is the maximum length of a name in bytes. PostgreSQL truncates longer names.
const maxIdentifier = 63

// CheckIdentifier returns an error if PostgreSQL would change a name or reserves it: if the name is empty, is longer
// than 63 bytes, contains a NUL, or begins with "pg_".
func CheckIdentifier(name string) error {
	switch {
	case name == "" || len(name) > maxIdentifier:
		return fmt.Errorf("the name %.70q must have 1 to %d bytes", name, maxIdentifier)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("the name %q must not contain a NUL", name)
	case strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("the name %q begins with pg_, which PostgreSQL reserves", name)
	}
	return nil
}

// identifier returns a name as a quoted identifier for a statement.
func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal returns a text as a string literal for a statement, without NULs. The literal does not depend on the setting
// standard_conforming_strings of the server.
func literal(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`, "\x00", "").Replace(text) + "'"
}

// querier runs statements on a connection or in a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

// statements runs statements one after the other, and returns the first error.
func statements(ctx context.Context, on querier, all ...string) error {
	for _, statement := range all {
		if _, err := on.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// attempts is the maximum number of attempts of work that concurrent changes may disturb.
const attempts = 15

// retry calls work again, after pauses of growing random length, while it fails because of concurrent changes. It
// returns the last error of work, after at most attempts calls or when the context is done.
func retry(ctx context.Context, work func() error) error {
	const most = 400 * time.Millisecond
	pause := 5 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := work()
		if err == nil || !isConflict(err) || attempt == attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // the pause is not a secret
		}
		pause = min(2*pause, most)
	}
}

// transact calls work in a transaction and commits it. It repeats both if concurrent changes cause an error, as retry
// does. It returns the errors of work and of the commit.
func transact(ctx context.Context, conn *pgx.Conn, work func(pgx.Tx) error) error {
	return retry(ctx, func() error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		if err := work(tx); err != nil {
			_ = tx.Rollback(ctx) // the error of work is more useful, and the end of the connection rolls back as well
			return err
		}
		return tx.Commit(ctx)
	})
}

// isConflict reports whether a statement failed only because another session changed the same rows of the system
// catalogs concurrently. PostgreSQL does not wait for rows of its catalogs as it does for rows of tables: the statement
// fails with an internal error.
func isConflict(err error) bool {
	var serverErr *pgconn.PgError
	if !errors.As(err, &serverErr) {
		return false
	}
	switch serverErr.Code {
	case serializationFailure, deadlockDetected, duplicateObject, objectInUse:
		return true
	case uniqueViolation:
		return serverErr.SchemaName == "pg_catalog"
	case internalError:
		return strings.HasPrefix(serverErr.Message, "tuple concurrently ")
	case insufficientPrivilege:
		// Only superusers may end sessions of superusers, such as those of autovacuum. Most of these sessions end soon.
		return strings.Contains(serverErr.Message, "to terminate")
	}
	return false
}
