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

// maxIdentifier is how long a name may be, in bytes: PostgreSQL cuts longer ones off.
const maxIdentifier = 63

// CheckIdentifier refuses names that PostgreSQL would change or keeps for itself.
func CheckIdentifier(name string) error {
	switch {
	case name == "" || len(name) > maxIdentifier:
		return fmt.Errorf("the name %.70q must have 1 to %d bytes", name, maxIdentifier)
	case strings.ContainsRune(name, 0):
		return fmt.Errorf("the name %q must not hold a NUL", name)
	case strings.HasPrefix(name, "pg_"):
		return fmt.Errorf("the name %q begins with pg_, which PostgreSQL reserves", name)
	}
	return nil
}

// identifier quotes a name for a statement.
func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// literal quotes a text for a statement, whatever the server's standard_conforming_strings says.
func literal(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `''`, "\x00", "").Replace(text) + "'"
}

// querier is a connection or a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

// statements runs statements one after the other.
func statements(ctx context.Context, on querier, all ...string) error {
	for _, statement := range all {
		if _, err := on.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// attempts is how often something is tried that others who work at the same time may spoil.
const attempts = 15

// retry tries work until it succeeds or fails for a reason of its own, with growing, random pauses.
func retry(ctx context.Context, work func() error) error {
	const most = 400 * time.Millisecond
	pause := 5 * time.Millisecond
	for attempt := 1; ; attempt++ {
		err := work()
		if err == nil || !spoilt(err) || attempt == attempts {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause/2 + rand.N(pause)): //nolint:gosec // no secret
		}
		pause = min(2*pause, most)
	}
}

// transact runs work in a transaction, and again when others spoil it.
func transact(ctx context.Context, conn *pgx.Conn, work func(pgx.Tx) error) error {
	return retry(ctx, func() error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		if err := work(tx); err != nil {
			_ = tx.Rollback(ctx) // the first error tells more; the connection is closed soon
			return err
		}
		return tx.Commit(ctx)
	})
}

// spoilt tells whether something failed only because others changed the same rows of the catalogs at the same time.
// PostgreSQL does not wait for its own catalogs as it does for tables: it fails with an internal error.
func spoilt(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		return false
	}
	switch refused.Code {
	case serializationFailure, deadlockDetected, duplicateObject, objectInUse:
		return true
	case uniqueViolation:
		return refused.SchemaName == "pg_catalog"
	case internalError:
		return strings.HasPrefix(refused.Message, "tuple concurrently ")
	case insufficientPrivilege:
		// Only superusers may end sessions of superusers, such as the server's own cleaning of tables; most end soon.
		return strings.Contains(refused.Message, "to terminate")
	}
	return false
}
