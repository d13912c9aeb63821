package statestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"service-adapter/internal/ctxio"
)

// ErrPooled is the error for a pooler that assigns the server's sessions to clients anew for each statement or
// transaction. OpenTofu's locks belong to sessions. With such a pooler they would be lost, or never be released.
var ErrPooled = errors.New("a pooler shares the sessions of PostgreSQL between its clients, " +
	"such as PgBouncer with pool_mode transaction, " +
	"so the locks of states are not effective; use pool_mode session for this database, or connect to PostgreSQL " +
	"itself")

// sessionCheckTimeout limits the duration of CheckSessions. With a pooler that has a single session, the second client
// would wait without end.
const sessionCheckTimeout = 5 * time.Second

// CheckSessions checks, with two connections at the same time, whether each client of the database keeps a session of
// its own, as OpenTofu's locks require. It returns ErrPooled if not, which means that a pooler such as PgBouncer shares
// sessions between clients. It returns nil if the clients keep their sessions, and also if the check fails for another
// reason, takes longer than 5 seconds or is interrupted by ctx, because OpenTofu reports such errors itself. The check
// takes and releases advisory locks with random ids.
func (p *postgres) CheckSessions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sessionCheckTimeout)
	defer cancel()
	// The driver waits for the answer of a server to a new connection even if ctx has ended.
	shared, err := ctxio.Await(ctx, func() (bool, error) { return p.sharesSessions(ctx) })
	if err == nil && shared {
		return ErrPooled
	}
	return nil
}

// sharesSessions reports the result of sharedSessions for two connections of the pool, and returns them to the pool.
// It returns false and an error if it cannot get two connections, or if sharedSessions fails. While the server does
// not answer, it does not return even if the context has ended, so the caller must run it under ctxio.Await.
func (p *postgres) sharesSessions(ctx context.Context) (bool, error) {
	var clients [2]*sql.Conn
	for n := range clients {
		client, err := p.db.Conn(ctx)
		if err != nil {
			return false, err
		}
		defer client.Close() //nolint:errcheck // nothing was written
		clients[n] = client
	}
	return sharedSessions(ctx, clients)
}

// sharedSessions reports whether one of two clients changes its session or uses a session of the other, or whether a
// lock of the first client is lost. It takes and releases advisory locks with random ids. It returns false and the
// error of a query if one fails or the context ends; while the server does not answer, it does not return even then.
// Poolers choose the session that was used last, or all in turn; the clients therefore send their queries in an
// irregular order, which reveals both.
func sharedSessions(ctx context.Context, clients [2]*sql.Conn) (bool, error) {
	var sessions [2]int
	for _, n := range []int{0, 0, 1, 0, 1, 1, 0} {
		var session int
		if err := clients[n].QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&session); err != nil {
			return false, err
		}
		if sessions[n] != 0 && sessions[n] != session || session == sessions[1-n] {
			return true, nil
		}
		sessions[n] = session
	}
	for range 2 {
		id := rand.Int64()
		var locked, released bool
		lock := fmt.Sprintf("SELECT pg_try_advisory_lock(%d)", id)
		release := fmt.Sprintf("SELECT pg_advisory_unlock(%d)", id)
		if err := clients[0].QueryRowContext(ctx, lock).Scan(&locked); err != nil {
			return false, err
		}
		if err := clients[0].QueryRowContext(ctx, release).Scan(&released); err != nil {
			return false, err
		}
		if locked && !released {
			return true, nil
		}
	}
	return false, nil
}
