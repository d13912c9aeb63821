package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Role is a login role for one database. It shares its objects with the other roles of its group: each session in the
// database starts with the identity of the group, so that the group owns the objects that the session creates. Objects
// that a session creates under the role's own name are granted to the group.
type Role struct {
	Name string
	// Group is the name of a role without login. It is created if it does not exist, and never dropped with the Role.
	Group    string
	Database string
	// Marker identifies the configuration that manages the role. It is stored in the role's comment.
	Marker   string
	Password string
	// ConnectionLimit is the maximum number of concurrent sessions; -1 means any number.
	ConnectionLimit int64
	// ValidUntil is the time at which the password expires; zero means never.
	ValidUntil time.Time
}

// comment returns the comment that marks the role on the server.
func (r Role) comment() string { return "pgaccess: " + r.Marker }

// groupComment is the comment that marks the groups that this package created. Groups on existing servers have it.
const groupComment = "pgaccess: owns what the members of this role make"

// ErrUncertain is the error of an interrupted creation, after which the role may or may not exist.
var ErrUncertain = errors.New("it is not known whether the role was created")

// attributes are the attributes of an existing role, from the system catalogs.
type attributes struct {
	oid        uint32
	comment    string // "" means none
	login      bool
	super      bool
	limit      int64
	validUntil *time.Time // nil: the password never expires
}

// readRole returns the attributes of a role, or nil and no error if the role does not exist. It returns an error if the
// query fails.
func readRole(ctx context.Context, on querier, name string) (*attributes, error) {
	var existing attributes
	err := on.QueryRow(ctx, `SELECT oid, coalesce(shobj_description(oid, 'pg_authid'), ''),
		rolcanlogin, rolsuper, rolconnlimit,
		CASE WHEN isfinite(rolvaliduntil) THEN rolvaliduntil END FROM pg_roles WHERE rolname = $1`, name).
		Scan(&existing.oid, &existing.comment, &existing.login, &existing.super, &existing.limit, &existing.validUntil)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // the role does not exist
	}
	if err != nil {
		return nil, fmt.Errorf("reading the attributes of role %q: %w", name, err)
	}
	return &existing, nil
}

// checkMarker returns an error if the existing role has another marker than r.
func (r Role) checkMarker(existing *attributes) error {
	if existing.comment == r.comment() {
		return nil
	}
	return fmt.Errorf("role %q exists and belongs to another configuration: its comment must be %q",
		r.Name, r.comment())
}

// CreateRole creates a role in one transaction, and its group if the group does not exist. A role that exists with the
// same marker remained after an interrupted run; CreateRole completes it and sets the new password. CreateRole returns
// an error if the role has another marker, if the group can log in or is a superuser, if the database does not exist,
// if the administrator may not grant the privileges, or if the server cannot be reached or rejects a statement. The
// error wraps ErrUncertain if the commit failed, after which the role may exist.
func (s Server) CreateRole(ctx context.Context, r Role) error {
	secret, err := verifier(r.Password)
	if err != nil {
		return err
	}
	committing := false
	err = s.do(ctx, r.Database, func(ctx context.Context, conn *pgx.Conn) error {
		return transact(ctx, conn, func(tx pgx.Tx) error {
			err := r.create(ctx, tx, secret)
			committing = err == nil
			if err != nil {
				return fmt.Errorf("creating role %q: %w", r.Name, err)
			}
			return nil
		})
	})
	if err != nil && committing {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return err
}

// create runs the statements of CreateRole in a transaction. secret is the result of verifier for the password.
func (r Role) create(ctx context.Context, tx pgx.Tx, secret string) error {
	if err := ensureGroup(ctx, tx, r.Group); err != nil {
		return err
	}
	if err := grantDatabase(ctx, tx, r.Group, r.Database); err != nil {
		return err
	}
	existing, err := readRole(ctx, tx, r.Name)
	if err != nil {
		return err
	}
	name, group := identifier(r.Name), identifier(r.Group)
	if existing == nil {
		err = statements(ctx, tx, "CREATE ROLE "+name, "COMMENT ON ROLE "+name+" IS "+literal(r.comment()))
	} else {
		err = r.checkMarker(existing)
	}
	if err != nil {
		return err
	}
	if err := joinRole(ctx, tx, r.Name); err != nil {
		return err
	}
	all := []string{
		r.alter(secret),
		"GRANT " + group + " TO " + name,
		"ALTER ROLE " + name + " IN DATABASE " + identifier(r.Database) + " SET role = " + literal(r.Group),
	}
	for _, kind := range []string{"TABLES", "SEQUENCES", "FUNCTIONS", "TYPES", "SCHEMAS"} {
		all = append(all, "ALTER DEFAULT PRIVILEGES FOR ROLE "+name+" GRANT ALL ON "+kind+" TO "+group)
	}
	return statements(ctx, tx, all...)
}

// alter returns the SQL statement that allows logins and sets the connection limit, the expiry and the password. secret
// is the result of verifier for the password; "" keeps the password.
func (r Role) alter(secret string) string {
	until := "infinity"
	if !r.ValidUntil.IsZero() {
		until = r.ValidUntil.UTC().Format(time.RFC3339)
	}
	text := fmt.Sprintf("ALTER ROLE %s LOGIN CONNECTION LIMIT %d VALID UNTIL %s",
		identifier(r.Name), r.ConnectionLimit, literal(until))
	if secret != "" {
		text += " PASSWORD " + literal(secret)
	}
	return text
}

// UpdateRole sets the connection limit, the expiry and the password of the role r.Name. A Password of "" keeps the
// password. It returns an error if the role or its database does not exist, or if the server cannot be reached or
// rejects the statement. It does not check the marker.
func (s Server) UpdateRole(ctx context.Context, r Role) (err error) {
	secret := ""
	if r.Password != "" {
		if secret, err = verifier(r.Password); err != nil {
			return err
		}
	}
	return s.do(ctx, r.Database, func(ctx context.Context, conn *pgx.Conn) error {
		return transact(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, r.alter(secret)); err != nil {
				return fmt.Errorf("changing role %q: %w", r.Name, err)
			}
			return nil
		})
	})
}

// ReadRole sets r.ConnectionLimit and r.ValidUntil to the values on the server, and reports whether a role with the
// name and the marker of r exists. If none exists, r is unchanged. The database of the role need not exist. ReadRole
// returns an error if the server cannot be reached or rejects the query.
func (s Server) ReadRole(ctx context.Context, r *Role) (exists bool, err error) {
	err = s.doAnywhere(ctx, r.Database, func(ctx context.Context, conn *pgx.Conn) error {
		existing, err := readRole(ctx, conn, r.Name)
		if err != nil || existing == nil || existing.comment != r.comment() {
			return err
		}
		exists, r.ConnectionLimit, r.ValidUntil = true, existing.limit, time.Time{}
		if existing.validUntil != nil {
			r.ValidUntil = *existing.validUntil
		}
		return nil
	})
	return exists, err
}
