package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// sessionEnd is the time limit for the end of one session, in milliseconds.
const sessionEnd = 5000

// DropRole ends the sessions of a role, transfers its objects in all databases to its group, or to the administrator if
// the group does not exist, revokes its privileges, and drops it. It succeeds if the role does not exist. It returns an
// error if the role has another marker, if its sessions do not end, or if the server cannot be reached or rejects a
// statement. After an error, a part of the changes may remain; the role can then be dropped by another call.
func (s Server) DropRole(ctx context.Context, r Role) error {
	var databases []string // others than r.Database
	err := s.doAnywhere(ctx, r.Database, func(ctx context.Context, conn *pgx.Conn) error {
		existing, err := s.endSessions(ctx, conn, r)
		if err != nil || existing == nil {
			return err
		}
		if databases, err = otherDatabases(ctx, conn, existing.oid); err != nil {
			return fmt.Errorf("dropping role %q: %w", r.Name, err)
		}
		if len(databases) > 0 {
			return nil
		}
		return r.drop(ctx, conn, "DROP ROLE "+identifier(r.Name))
	})
	if err != nil || len(databases) == 0 {
		return err
	}
	for _, database := range databases {
		err := s.do(ctx, database, func(ctx context.Context, conn *pgx.Conn) error { return r.drop(ctx, conn) })
		if err != nil && !errors.Is(err, errNoDatabase) {
			return err
		}
	}
	return s.doAnywhere(ctx, r.Database, func(ctx context.Context, conn *pgx.Conn) error {
		return r.drop(ctx, conn, "DROP ROLE "+identifier(r.Name))
	})
}

// endSessions prevents new sessions of a role, ends its sessions and returns the role's attributes. It returns nil and
// no error if the role does not exist. It returns an error if the role has another marker, if a session does not end
// within sessionEnd, or if a statement fails.
func (s Server) endSessions(ctx context.Context, conn *pgx.Conn, r Role) (existing *attributes, err error) {
	err = transact(ctx, conn, func(tx pgx.Tx) error {
		if existing, err = readRole(ctx, tx, r.Name); err != nil || existing == nil {
			return err
		}
		if err := r.checkMarker(existing); err != nil {
			return err
		}
		if err := joinRole(ctx, tx, r.Name); err != nil {
			return err
		}
		return statements(ctx, tx, "ALTER ROLE "+identifier(r.Name)+" NOLOGIN")
	})
	if err != nil || existing == nil {
		return nil, err
	}
	var ended bool
	const end = `SELECT coalesce(bool_and(pg_terminate_backend(pid, $2)), true)
		FROM pg_stat_activity WHERE usesysid = $1`
	if err := conn.QueryRow(ctx, end, existing.oid, sessionEnd).Scan(&ended); err != nil {
		return nil, fmt.Errorf("ending the sessions of role %q: %w", r.Name, err)
	}
	if !ended {
		return nil, fmt.Errorf("some sessions of role %q did not end within %d ms", r.Name, sessionEnd)
	}
	return existing, nil
}

// otherDatabases returns the sorted names of the databases in which a role owns objects or has privileges, without the
// database of the connection. role is the role's object identifier. It returns an error if the query fails.
func otherDatabases(ctx context.Context, conn *pgx.Conn, role uint32) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT DISTINCT datname FROM pg_shdepend JOIN pg_database ON pg_database.oid = dbid
		WHERE refclassid = 'pg_authid'::regclass AND refobjid = $1 AND datname <> current_database()
		ORDER BY datname`, role)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// drop transfers the objects of a role in the connected database to the role's group, or to the administrator if the
// group does not exist, revokes the privileges of the role, and then runs the further statements, all in one
// transaction. It returns an error if a query or statement fails.
func (r Role) drop(ctx context.Context, conn *pgx.Conn, further ...string) error {
	return transact(ctx, conn, func(tx pgx.Tx) error {
		newOwner := "CURRENT_USER" // the group may have been dropped with its database
		group, err := readRole(ctx, tx, r.Group)
		if err != nil {
			return err
		}
		if group != nil {
			newOwner = identifier(r.Group)
			if err := joinRole(ctx, tx, r.Group); err != nil {
				return err
			}
		}
		all := append([]string{
			"REASSIGN OWNED BY " + identifier(r.Name) + " TO " + newOwner,
			"DROP OWNED BY " + identifier(r.Name),
		}, further...)
		if err := statements(ctx, tx, all...); err != nil {
			return fmt.Errorf("dropping role %q: %w", r.Name, err)
		}
		return nil
	})
}
