package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// Database describes the desired or the current attributes of a database.
type Database struct {
	Name string
	// Owner is the name of the role that owns the database.
	Owner string
	// ConnectionLimit is the maximum number of concurrent sessions; -1 means any number.
	ConnectionLimit int
}

// CreateDatabase creates a database that belongs to the group d.Owner and to which no other role may connect. It
// creates the group if it does not exist. A database that exists and belongs to the group remained after an interrupted
// run; CreateDatabase then sets its limit and privileges. CreateDatabase returns an error if the database belongs to
// another role, if the group can log in or is a superuser, or if the server cannot be reached or rejects a statement.
// If the server rejects the creation of the database, CreateDatabase drops the group unless it has members or owns
// objects.
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
				// If the group cannot be dropped, the next attempt uses it. The error of the creation is more useful.
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

// limit returns the SQL statement that sets the connection limit of the database.
func (d Database) limit() string {
	return "ALTER DATABASE " + identifier(d.Name) + " CONNECTION LIMIT " + strconv.Itoa(d.ConnectionLimit)
}

// prepareOwner creates the group with the name owner if it does not exist, and adds the administrator to its members,
// so that the administrator may create a database for the group. It returns the errors of ensureGroup and of joinRole.
func prepareOwner(ctx context.Context, on querier, owner string) error {
	if err := ensureGroup(ctx, on, owner); err != nil {
		return err
	}
	return joinRole(ctx, on, owner)
}

// readDatabase returns the current attributes of a database, or nil and no error if the database does not exist. It
// returns an error if the query fails.
func readDatabase(ctx context.Context, on querier, name string) (*Database, error) {
	const query = "SELECT pg_get_userbyid(datdba), datconnlimit FROM pg_database WHERE datname = $1"
	d := &Database{Name: name}
	err := on.QueryRow(ctx, query, name).Scan(&d.Owner, &d.ConnectionLimit)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the attributes of database %q: %w", name, err)
	}
	return d, nil
}

// ReadDatabase returns the current attributes of a database, or nil and no error if the database does not exist. It
// returns an error if the server cannot be reached or rejects the query.
func (s Server) ReadDatabase(ctx context.Context, name string) (d *Database, err error) {
	err = s.do(ctx, s.Database, func(ctx context.Context, conn *pgx.Conn) error {
		d, err = readDatabase(ctx, conn, name)
		return err
	})
	return d, err
}

// ChangeDatabase sets the connection limit and the owner of the database d.Name in one transaction, and creates the
// owner as a group if it does not exist. The objects in the database keep their owners. ChangeDatabase returns an error
// if the current owner is another group that this package created. In this case, the database was imported although
// another configuration manages it, and that configuration would lose it. It also returns an error if the database does
// not exist, if d.Owner can log in or is a superuser, or if the server cannot be reached or rejects a statement.
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

// checkOwner returns an error if the database belongs to a group other than d.Owner that this package created, or if a
// query fails. It returns nil if the database does not exist.
func (d Database) checkOwner(ctx context.Context, on querier) error {
	current, err := readDatabase(ctx, on, d.Name)
	if err != nil || current == nil || current.Owner == d.Owner {
		return err
	}
	owner, err := readRole(ctx, on, current.Owner)
	if err == nil && owner != nil && owner.comment == groupComment {
		err = fmt.Errorf("database %q was created or imported by another configuration and belongs to the group %q",
			d.Name, current.Owner)
	}
	return err
}

// DropDatabase ends the sessions of a database and drops it with its content. It then drops the role owner if this
// package created the role, and the role has no members other than the administrator and owns no objects. DropDatabase
// succeeds if the database does not exist. It returns an error if the server cannot be reached or rejects a statement.
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

// dropGroup drops a group if this package created it, and the group has no members other than the administrator, owns
// no objects and has no privileges. Otherwise, and if the group does not exist, dropGroup changes nothing and returns
// no error. It returns an error if a query or the statement fails.
func dropGroup(ctx context.Context, on querier, group string) error {
	const unused = `SELECT NOT EXISTS (SELECT FROM pg_auth_members WHERE roleid = $1
			AND member <> (SELECT oid FROM pg_roles WHERE rolname = current_user))
		AND NOT EXISTS (SELECT FROM pg_shdepend WHERE refclassid = 'pg_authid'::regclass AND refobjid = $1)`
	existing, err := readRole(ctx, on, group)
	if err != nil || existing == nil || existing.comment != groupComment {
		return err
	}
	var droppable bool
	if err := on.QueryRow(ctx, unused, existing.oid).Scan(&droppable); err != nil || !droppable {
		return err
	}
	return statements(ctx, on, "DROP ROLE IF EXISTS "+identifier(group))
}
