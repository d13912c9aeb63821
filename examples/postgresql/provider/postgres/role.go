package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Role is a login role of one database. It shares what it makes with the other roles of its group: a session begins as
// the group, so that the group owns its tables; what a session makes under the role's own name is granted to the group.
type Role struct {
	Name string
	// Group is a role without login that is made when there is none, and never dropped.
	Group    string
	Database string
	// Marker tells whose role it is. It is kept as the role's comment.
	Marker   string
	Password string
	// ConnectionLimit is how many sessions there may be at a time; -1 means any number.
	ConnectionLimit int64
	// ValidUntil is when the password expires; zero means never.
	ValidUntil time.Time
}

// comment is how the role is marked.
func (r Role) comment() string { return "pgaccess: " + r.Marker }

// groupComment marks the groups that this package made.
const groupComment = "pgaccess: owns what the members of this role make"

// ErrUncertain is an error after which it is not known whether the role exists.
var ErrUncertain = errors.New("it is not known whether the role was created")

// known is what the catalogs tell of a role.
type known struct {
	oid        uint32
	comment    string
	login      bool
	super      bool
	limit      int64
	validUntil *time.Time // nil: never expires
}

// lookUp finds a role; nil when there is none.
func lookUp(ctx context.Context, on querier, name string) (*known, error) {
	var found known
	err := on.QueryRow(ctx, `SELECT oid, coalesce(shobj_description(oid, 'pg_authid'), ''),
		rolcanlogin, rolsuper, rolconnlimit,
		CASE WHEN isfinite(rolvaliduntil) THEN rolvaliduntil END FROM pg_roles WHERE rolname = $1`, name).
		Scan(&found.oid, &found.comment, &found.login, &found.super, &found.limit, &found.validUntil)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // there is none
	}
	if err != nil {
		return nil, fmt.Errorf("looking up role %q: %w", name, err)
	}
	return &found, nil
}

// foreign refuses a role that bears another mark.
func (r Role) foreign(found *known) error {
	if found.comment == r.comment() {
		return nil
	}
	return fmt.Errorf("role %q exists and is not the one that this configuration makes: its comment must be %q",
		r.Name, r.comment())
}

// CreateRole makes a role, all of it or nothing. One that exists with the same marker was left by an interrupted run
// and is completed with the new password; any other is refused. After an error that satisfies errors.Is with
// ErrUncertain the role may exist.
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

func (r Role) create(ctx context.Context, tx pgx.Tx, secret string) error {
	if err := ensureGroup(ctx, tx, r.Group); err != nil {
		return err
	}
	if err := share(ctx, tx, r.Group, r.Database); err != nil {
		return err
	}
	found, err := lookUp(ctx, tx, r.Name)
	if err != nil {
		return err
	}
	name, group := identifier(r.Name), identifier(r.Group)
	if found == nil {
		err = statements(ctx, tx, "CREATE ROLE "+name, "COMMENT ON ROLE "+name+" IS "+literal(r.comment()))
	} else {
		err = r.foreign(found)
	}
	if err != nil {
		return err
	}
	if err := act(ctx, tx, r.Name); err != nil {
		return err
	}
	all := []string{
		r.attributes(secret),
		"GRANT " + group + " TO " + name,
		"ALTER ROLE " + name + " IN DATABASE " + identifier(r.Database) + " SET role = " + literal(r.Group),
	}
	for _, kind := range []string{"TABLES", "SEQUENCES", "FUNCTIONS", "TYPES", "SCHEMAS"} {
		all = append(all, "ALTER DEFAULT PRIVILEGES FOR ROLE "+name+" GRANT ALL ON "+kind+" TO "+group)
	}
	return statements(ctx, tx, all...)
}

// attributes sets what can be changed later. Without a secret the password stays.
func (r Role) attributes(secret string) string {
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

// UpdateRole changes password, connection limit and expiry. Without a password that stays.
func (s Server) UpdateRole(ctx context.Context, r Role) (err error) {
	secret := ""
	if r.Password != "" {
		if secret, err = verifier(r.Password); err != nil {
			return err
		}
	}
	return s.do(ctx, r.Database, func(ctx context.Context, conn *pgx.Conn) error {
		return transact(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, r.attributes(secret)); err != nil {
				return fmt.Errorf("changing role %q: %w", r.Name, err)
			}
			return nil
		})
	})
}

// ReadRole refreshes connection limit and expiry of a role. It returns false when there is none with its name and
// marker.
func (s Server) ReadRole(ctx context.Context, r *Role) (exists bool, err error) {
	err = s.doAnywhere(ctx, r.Database, func(ctx context.Context, conn *pgx.Conn) error {
		found, err := lookUp(ctx, conn, r.Name)
		if err != nil || found == nil || found.comment != r.comment() {
			return err
		}
		exists, r.ConnectionLimit, r.ValidUntil = true, found.limit, time.Time{}
		if found.validUntil != nil {
			r.ValidUntil = *found.validUntil
		}
		return nil
	})
	return exists, err
}
