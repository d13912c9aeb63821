package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Database is a database as it shall be, or as it is.
type Database struct {
	Name string
	// Owner is the group that it belongs to.
	Owner string
	// ConnectionLimit is how many sessions there may be at a time; -1 means any number.
	ConnectionLimit int
}

// CreateDatabase creates a database that belongs to a group and to which no other role may connect, and creates the
// group if it does not exist. A database that exists and belongs to the group was left by an interrupted run and is
// adopted; CreateDatabase returns an error for any other. If the server refuses to create the database, a group that
// has neither members nor belongings is dropped again.
func (s Server) CreateDatabase(ctx context.Context, d Database) error {
	return s.do(ctx, s.Database, func(ctx context.Context, conn *pgx.Conn) error {
		current, err := readDatabase(ctx, conn, d.Name)
		switch {
		case err != nil:
			return err
		case current != nil && current.Owner != d.Owner:
			return fmt.Errorf("database %q exists and belongs to %q, not to %q; import it to manage it",
				d.Name, current.Owner, d.Owner)
		}
		err = transact(ctx, conn, func(tx pgx.Tx) error { return prepareOwner(ctx, tx, d.Owner) })
		if err != nil {
			return fmt.Errorf("creating database %q: %w", d.Name, err)
		}
		if current == nil {
			create := "CREATE DATABASE " + identifier(d.Name) + " OWNER " + identifier(d.Owner)
			// The statement cannot be a part of a transaction.
			err := retry(ctx, func() error { return statements(ctx, conn, create) })
			if err != nil {
				// The first error tells more than a failure of the clean-up, which leaves an unused group for the next
				// attempt.
				_ = transact(ctx, conn, func(tx pgx.Tx) error { return dropGroup(ctx, tx, d.Owner) })
				return fmt.Errorf("creating database %q: %w", d.Name, err)
			}
		}
		return retry(ctx, func() error {
			return statements(ctx, conn, d.limit(),
				"REVOKE CONNECT, TEMPORARY ON DATABASE "+identifier(d.Name)+" FROM PUBLIC")
		})
	})
}

// limit is the statement that sets the connection limit.
func (d Database) limit() string {
	return "ALTER DATABASE " + identifier(d.Name) + " CONNECTION LIMIT " + strconv.Itoa(d.ConnectionLimit)
}

// prepareOwner creates the group if it does not exist, and makes the administrator a member, so that the group can own
// a database.
func prepareOwner(ctx context.Context, on querier, owner string) error {
	if err := ensureGroup(ctx, on, owner); err != nil {
		return err
	}
	return act(ctx, on, owner)
}

// readDatabase returns nil when there is no database of this name.
func readDatabase(ctx context.Context, on querier, name string) (*Database, error) {
	const look = "SELECT pg_get_userbyid(datdba), datconnlimit FROM pg_database WHERE datname = $1"
	d := &Database{Name: name}
	err := on.QueryRow(ctx, look, name).Scan(&d.Owner, &d.ConnectionLimit)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up database %q: %w", name, err)
	}
	return d, nil
}

// ReadDatabase returns a database as it is, nil when there is none.
func (s Server) ReadDatabase(ctx context.Context, name string) (d *Database, err error) {
	err = s.do(ctx, s.Database, func(ctx context.Context, conn *pgx.Conn) error {
		d, err = readDatabase(ctx, conn, name)
		return err
	})
	return d, err
}

// ChangeDatabase sets the connection limit and the owner of a database, and creates the owner if it does not exist, all
// of it or nothing. The objects in the database keep their owners. ChangeDatabase returns an error if the present owner
// is another group that this package created: the database was then imported although another configuration manages it,
// and that configuration would lose it.
func (s Server) ChangeDatabase(ctx context.Context, d Database) error {
	return s.do(ctx, s.Database, func(ctx context.Context, conn *pgx.Conn) error {
		if err := d.checkOwner(ctx, conn); err != nil {
			return err
		}
		err := transact(ctx, conn, func(tx pgx.Tx) error {
			if err := prepareOwner(ctx, tx, d.Owner); err != nil {
				return err
			}
			return statements(ctx, tx, d.limit(), "ALTER DATABASE "+identifier(d.Name)+" OWNER TO "+identifier(d.Owner))
		})
		if err != nil {
			return fmt.Errorf("changing database %q: %w", d.Name, err)
		}
		return nil
	})
}

// checkOwner refuses to take a database from a group that this package made.
func (d Database) checkOwner(ctx context.Context, on querier) error {
	current, err := readDatabase(ctx, on, d.Name)
	if err != nil || current == nil || current.Owner == d.Owner {
		return err
	}
	owner, err := lookUp(ctx, on, current.Owner)
	if err == nil && owner != nil && owner.comment == groupComment {
		err = fmt.Errorf("database %q was made or imported by another configuration, for %q", d.Name, current.Owner)
	}
	return err
}

// DropDatabase ends the sessions of a database and drops it with all that it holds, and its owner when this package
// made that and nothing else needs it. A database that is gone is no error.
func (s Server) DropDatabase(ctx context.Context, name, owner string) error {
	return s.do(ctx, s.Database, func(ctx context.Context, conn *pgx.Conn) error {
		err := retry(ctx, func() error {
			return statements(ctx, conn, "DROP DATABASE IF EXISTS "+identifier(name)+" WITH (FORCE)")
		})
		if err != nil {
			return fmt.Errorf("dropping database %q: %w", name, err)
		}
		return transact(ctx, conn, func(tx pgx.Tx) error { return dropGroup(ctx, tx, owner) })
	})
}

// dropGroup drops a group that this package made and that has neither members nor belongings.
func dropGroup(ctx context.Context, on querier, group string) error {
	const unused = `SELECT NOT EXISTS (SELECT FROM pg_auth_members WHERE roleid = $1
			AND member <> (SELECT oid FROM pg_roles WHERE rolname = current_user))
		AND NOT EXISTS (SELECT FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass AND refobjid = $1)`
	found, err := lookUp(ctx, on, group)
	if err != nil || found == nil || found.comment != groupComment {
		return err
	}
	var free bool
	if err := on.QueryRow(ctx, unused, found.oid).Scan(&free); err != nil || !free {
		return err
	}
	return statements(ctx, on, "DROP ROLE IF EXISTS "+identifier(group))
}
