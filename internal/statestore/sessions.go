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

// ErrPooled says that a pooler shares the server's sessions between clients, from one statement to the next. OpenTofu's locks belong to
// sessions: they would be lost, or never be released.
var ErrPooled = errors.New("a pooler shares the sessions of PostgreSQL between its clients, such as PgBouncer with pool_mode transaction, " +
	"so the locks of states do not hold; use pool_mode session for this database, or connect to PostgreSQL itself")

// sessionPatience is how long the answers may take. A pooler with one session for all would let the second client wait for ever.
const sessionPatience = 5 * time.Second

// CheckSessions tells whether sessions are what OpenTofu takes them for: ErrPooled when they are not. What else is wrong with the
// server OpenTofu tells.
func (p *postgres) CheckSessions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sessionPatience)
	defer cancel()
	var clients [2]*sql.Conn
	for n := range clients {
		client, err := p.db.Conn(ctx)
		if err != nil {
			return nil
		}
		defer client.Close() //nolint:errcheck // it is of no use any more
		clients[n] = client
	}
	shared, err := ctxio.Await(ctx, func() (bool, error) { return share(ctx, clients) })
	if err == nil && shared {
		return ErrPooled
	}
	return nil
}

// share tells whether two clients get sessions of each other, or each time other ones. Poolers that have the choice take the session
// that was used last, or each in its turn, so the clients do not ask in turn.
func share(ctx context.Context, clients [2]*sql.Conn) (bool, error) {
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
