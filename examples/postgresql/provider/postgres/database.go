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

// CreateDatabase makes a database that belongs to a group, which is made when there is none, and to which nobody else may connect.
// One that exists and belongs to the group was left by an interrupted run; any other is refused.
func (s Server) CreateDatabase(ctx context.Context, d Database) error {
	return s.do(ctx, s.Database, func(ctx context.Context, conn *pgx.Conn) error {
		current, err := readDatabase(ctx, conn, d.Name)
		switch {
		case err != nil:
			return err
		case current != nil && current.Owner != d.Owner:
			return fmt.Errorf("database %q exists and belongs to %q, not to %q; import it to manage it", d.Name, current.Owner, d.Owner)
		}
		if err := prepareOwner(ctx, conn, d.Owner); err != nil {
			return fmt.Errorf("creating database %q: %w", d.Name, err)
		}
		if current == nil {
			create := "CREATE DATABASE " + identifier(d.Name) + " OWNER " + identifier(d.Owner)
			err := retry(ctx, func() error { return statements(ctx, conn, create) }) // cannot be a part of a transaction
			if err != nil {
				return fmt.Errorf("creating database %q: %w", d.Name, err)
			}
		}
		return retry(ctx, func() error {
			return statements(ctx, conn, d.limit(), "REVOKE CONNECT, TEMPORARY ON DATABASE "+identifier(d.Name)+" FROM PUBLIC")
		})
	})
}

// limit is the statement that sets the connection limit.
func (d Database) limit() string {
	return "ALTER DATABASE " + identifier(d.Name) + " CONNECTION LIMIT " + strconv.Itoa(d.ConnectionLimit)
}

// prepareOwner makes a group that can own a database.
func prepareOwner(ctx context.Context, conn *pgx.Conn, owner string) error {
	return transact(ctx, conn, func(tx pgx.Tx) error {
		if err := ensureGroup(ctx, tx, owner); err != nil {
			return err
		}
		return act(ctx, tx, owner)
	})
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

// ChangeDatabase sets the connection limit, and gives the database to another group. What is in it keeps its owners. A database of a
// group that this package made is not given away: it was imported although another configuration has it, and would lose it.
func (s Server) ChangeDatabase(ctx context.Context, d Database) error {
	return s.do(ctx, s.Database, func(ctx context.Context, conn *pgx.Conn) error {
		if err := d.checkOwner(ctx, conn); err != nil {
			return err
		}
		if err := prepareOwner(ctx, conn, d.Owner); err != nil {
			return fmt.Errorf("changing database %q: %w", d.Name, err)
		}
		err := retry(ctx, func() error {
			return statements(ctx, conn, d.limit(), "ALTER DATABASE "+identifier(d.Name)+" OWNER TO "+identifier(d.Owner))
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

// DropDatabase ends the sessions of a database and drops it with all that it holds, and its owner when this package made that and
// nothing else needs it. A database that is gone is no error.
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
	const unused = `SELECT NOT EXISTS (SELECT FROM pg_auth_members WHERE roleid = $1 AND member <> (SELECT oid FROM pg_roles WHERE rolname = current_user))
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
