package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// sessionEnd is how long one session may take to end, in milliseconds.
const sessionEnd = 5000

// DropRole ends the sessions of a role, gives what it owns, in all databases, to its group, revokes what was granted to
// it, and drops it. A role that is gone is no error; one with another marker is refused.
func (s Server) DropRole(ctx context.Context, r Role) error {
	var elsewhere []string
	again := false
	err := s.doAnywhere(ctx, r.Database, func(ctx context.Context, conn *pgx.Conn) error {
		found, err := s.quiet(ctx, conn, r)
		if err != nil || found == nil {
			return err
		}
		if elsewhere, err = otherDatabases(ctx, conn, found.oid); err != nil {
			return fmt.Errorf("dropping role %q: %w", r.Name, err)
		}
		if again = len(elsewhere) > 0; again {
			return nil
		}
		return r.drop(ctx, conn, "DROP ROLE "+identifier(r.Name))
	})
	if err != nil || !again {
		return err
	}
	for _, database := range elsewhere {
		err := s.do(ctx, database, func(ctx context.Context, conn *pgx.Conn) error { return r.drop(ctx, conn) })
		if err != nil && !errors.Is(err, errNoDatabase) {
			return err
		}
	}
	return s.doAnywhere(ctx, r.Database, func(ctx context.Context, conn *pgx.Conn) error {
		return r.drop(ctx, conn, "DROP ROLE "+identifier(r.Name))
	})
}

// quiet forbids new sessions of a role and ends those that there are. It returns nil when there is no such role.
func (s Server) quiet(ctx context.Context, conn *pgx.Conn, r Role) (found *known, err error) {
	err = transact(ctx, conn, func(tx pgx.Tx) error {
		if found, err = lookUp(ctx, tx, r.Name); err != nil || found == nil {
			return err
		}
		if err := r.foreign(found); err != nil {
			return err
		}
		if err := act(ctx, tx, r.Name); err != nil {
			return err
		}
		return statements(ctx, tx, "ALTER ROLE "+identifier(r.Name)+" NOLOGIN")
	})
	if err != nil || found == nil {
		return nil, err
	}
	var ended bool
	const end = `SELECT coalesce(bool_and(pg_terminate_backend(pid, $2)), true)
		FROM pg_stat_activity WHERE usesysid = $1`
	if err := conn.QueryRow(ctx, end, found.oid, sessionEnd).Scan(&ended); err != nil {
		return nil, fmt.Errorf("ending the sessions of role %q: %w", r.Name, err)
	}
	if !ended {
		return nil, fmt.Errorf("the sessions of role %q do not end", r.Name)
	}
	return found, nil
}

// otherDatabases are those, besides the one of the connection, in which a role owns something or something was granted
// to it.
func otherDatabases(ctx context.Context, conn *pgx.Conn, role uint32) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT DISTINCT datname FROM pg_shdepend JOIN pg_database ON pg_database.oid = dbid
		WHERE refclassid = 'pg_authid'::regclass AND refobjid = $1 AND datname <> current_database()
		ORDER BY datname`, role)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// drop gives what a role owns in one database to its group and revokes what was granted to it. Further statements run
// in the same transaction.
func (r Role) drop(ctx context.Context, conn *pgx.Conn, further ...string) error {
	return transact(ctx, conn, func(tx pgx.Tx) error {
		heir := "CURRENT_USER" // the group may have gone with its database
		group, err := lookUp(ctx, tx, r.Group)
		if err != nil {
			return err
		}
		if group != nil {
			heir = identifier(r.Group)
			if err := act(ctx, tx, r.Group); err != nil {
				return err
			}
		}
		all := append([]string{
			"REASSIGN OWNED BY " + identifier(r.Name) + " TO " + heir,
			"DROP OWNED BY " + identifier(r.Name),
		}, further...)
		if err := statements(ctx, tx, all...); err != nil {
			return fmt.Errorf("dropping role %q: %w", r.Name, err)
		}
		return nil
	})
}
