package statestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/lib/pq"

	"service-adapter/internal/ctxio"
)

// nowhere is a file that cannot exist.
const nowhere = "/dev/null/none"

// postgres keeps states in the rows of a table. OpenTofu's lock of a state is an advisory lock on the id of its row, which belongs to a
// session; the locks here belong to a transaction and are of the same space. There is another lock, one for all rows of the table,
// that OpenTofu takes to create a workspace. It is not taken here, nor heeded: one statement either makes the row or finds it, and while somebody
// holds that lock all other runs of OpenTofu fail that begin to work on any row.
//
// The driver heeds contexts, but not while a server that it has reached does not answer; so whoever asks waits no longer than the context.
type postgres struct {
	db                                          *sql.DB
	read, list, locked, create, replace, delete string
}

// Postgres returns the store of OpenTofu's backend pg. It connects when it is used, keeps connections for a second, and makes
// neither the schema nor the table: ErrUnprepared. It is for a backend that OpenTofu runs in an environment without variables of
// PostgreSQL and with a home directory that is empty; ErrUnsupported where this process's environment has such variables, or where the
// connection depends on something else that OpenTofu may see in another way. The configuration is that of the backend, with OpenTofu's
// names. Errors never hold the password.
func Postgres(config map[string]any) (Store, error) {
	text, schema, name := "", "terraform_remote_state", "states" // as OpenTofu has them by default
	texts := map[string]*string{"conn_str": &text, "schema_name": &schema, "table_name": &name}
	others := []string{"index_name", "skip_schema_creation", "skip_table_creation", "skip_index_creation"}
	for key, v := range config {
		given, _ := v.(string)
		switch place := texts[key]; {
		case place != nil && given != "":
			*place = given
		case place != nil || !slices.Contains(others, key):
			return nil, ErrUnsupported
		}
	}
	connection, err := configuration(text)
	if err != nil {
		return nil, err
	}
	connector, err := pq.NewConnectorConfig(connection)
	if err != nil {
		return nil, ErrUnsupported
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(runtime.NumCPU()) // as many as work side by side; a binding needs one
	db.SetConnMaxIdleTime(time.Second)

	table := pq.QuoteIdentifier(schema) + "." + pq.QuoteIdentifier(name)
	// One statement locks, compares and changes the row: there is one answer to wait for, and one transaction, whose end releases the
	// lock. A row that another run changes after the statement began, before it got the lock, is compared once more by the server.
	const change = `WITH found AS (SELECT id, pg_try_advisory_xact_lock(id) AS locked FROM %[1]s WHERE name = $1),
		changed AS (%[2]s WHERE found.locked AND state.id = found.id AND coalesce(state.data, '') = $2 RETURNING 1)
		SELECT locked, EXISTS (SELECT FROM changed) FROM found`
	return &postgres{
		db:   db,
		read: `SELECT name, coalesce(data, '') FROM ` + table + ` WHERE name = ANY($1)`,
		list: `SELECT name FROM ` + table + ` WHERE name != 'default' ORDER BY name`,
		// The id of a lock is in two columns.
		locked: `SELECT count(*) FROM ` + table + ` AS state JOIN pg_locks AS held ON held.locktype = 'advisory' AND held.granted AND
			held.objsubid = 1 AND held.classid::bigint << 32 | held.objid::bigint = state.id
			AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
		create:  `INSERT INTO ` + table + ` (name, data) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING true, true`,
		replace: fmt.Sprintf(change, table, `UPDATE `+table+` AS state SET data = $3 FROM found`),
		delete:  fmt.Sprintf(change, table, `DELETE FROM `+table+` AS state USING found`),
	}, nil
}

// configuration reads a connection string as the driver does for OpenTofu. What is wrong with one OpenTofu tells without the password.
func configuration(text string) (pq.Config, error) {
	for _, variable := range os.Environ() { //nolint:forbidigo // the driver reads it
		if strings.HasPrefix(variable, "PG") || strings.HasPrefix(variable, "PQGO") {
			return pq.Config{}, ErrUnsupported
		}
	}
	config, err := pq.NewConfig(text)
	if err != nil || strings.TrimSpace(text) == "" {
		return pq.Config{}, ErrUnsupported
	}
	// Without a user the driver takes $USER, which OpenTofu does not have, and then the user of the process.
	account, err := user.Current()
	if err != nil || config.User == os.Getenv("USER") && config.User != account.Username { //nolint:forbidigo // the driver reads it
		return pq.Config{}, ErrUnsupported
	}
	// The files of the home directory are not for OpenTofu, and its working directory is another one.
	for _, file := range []*string{&config.Passfile, &config.SSLCert, &config.SSLKey, &config.SSLRootCert} {
		if *file != "" && !config.SSLInline && !filepath.IsAbs(*file) {
			return pq.Config{}, ErrUnsupported
		}
	}
	if config.Passfile == "" {
		config.Passfile = nowhere
	}
	if config.SSLCert == "" && !config.SSLInline {
		config.SSLCert = nowhere
	}
	return config, nil
}

// Read reads the row.
func (p *postgres) Read(ctx context.Context, workspace string) ([]byte, error) {
	if err := checkName(workspace); err != nil {
		return nil, err
	}
	found, err := p.ReadAll(ctx, []string{workspace})
	if err != nil {
		return nil, fmt.Errorf("reading the state of workspace %q: %w", workspace, explain(err))
	}
	return found[workspace], nil
}

// ReadAll reads the rows of workspaces with one question, by name; those that do not exist are absent. After an error there are none.
func (p *postgres) ReadAll(ctx context.Context, workspaces []string) (map[string][]byte, error) {
	return ctxio.Await(ctx, func() (map[string][]byte, error) {
		found := map[string][]byte{}
		err := p.each(ctx, func(rows *sql.Rows) error {
			var name string
			var data []byte
			err := rows.Scan(&name, &data)
			if found[name] = data; len(data) == 0 {
				found[name] = nil
			}
			return err
		}, p.read, pq.Array(workspaces))
		if err != nil {
			return nil, err
		}
		return found, nil
	})
}

// List lists the rows.
func (p *postgres) List(ctx context.Context) ([]string, error) {
	names, err := ctxio.Await(ctx, func() (names []string, err error) {
		err = p.each(ctx, func(rows *sql.Rows) error {
			var name string
			err := rows.Scan(&name)
			names = append(names, name)
			return err
		}, p.list)
		return names, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", explain(err))
	}
	return names, nil
}

// each asks for rows.
func (p *postgres) each(ctx context.Context, scan func(*sql.Rows) error, query string, arguments ...any) error {
	rows, err := p.db.QueryContext(ctx, query, arguments...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // Err tells
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Locked counts the rows whose locks some session has.
func (p *postgres) Locked(ctx context.Context) (int, error) {
	return ctxio.Await(ctx, func() (locked int, err error) {
		err = p.db.QueryRowContext(ctx, p.locked).Scan(&locked)
		return locked, explain(err)
	})
}

// Replace inserts or updates the row.
func (p *postgres) Replace(ctx context.Context, workspace string, before, next []byte) error {
	if err := errors.Join(checkName(workspace), checkNext(next)); err != nil {
		return err
	}
	if len(before) == 0 {
		// None is made where there is one.
		if none, err := p.change(ctx, "creating", p.create, workspace, string(next)); !none {
			return err
		}
	}
	_, err := p.change(ctx, "writing the state of", p.replace, workspace, string(before), string(next))
	return err
}

// Delete deletes the row.
func (p *postgres) Delete(ctx context.Context, workspace string, before []byte) error {
	if err := checkName(workspace); err != nil {
		return err
	}
	none, err := p.change(ctx, "deleting", p.delete, workspace, string(before))
	if none && len(before) == 0 {
		return nil
	}
	return err
}

// change makes or changes the row of a workspace by one of the statements for that. The error is ErrChanged where the statement finds another
// row than it expects, or none at all, or a *HeldError. It asks a connection, and not the pool, which repeats what it asked for when the
// connection ends before the answer: the second time a change that was made finds something else than it expects.
func (p *postgres) change(ctx context.Context, doing, statement, workspace string, states ...any) (none bool, err error) {
	type outcome struct{ none, locked, changed bool }
	found, err := ctxio.Await(ctx, func() (found outcome, err error) {
		connection, err := p.db.Conn(ctx)
		if err != nil {
			return outcome{}, err
		}
		defer connection.Close() //nolint:errcheck // It goes back to the pool, which looks whether it is of use.
		err = connection.QueryRowContext(ctx, statement, append([]any{workspace}, states...)...).Scan(&found.locked, &found.changed)
		if errors.Is(err, sql.ErrNoRows) {
			return outcome{none: true}, nil
		}
		return found, err
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("%s workspace %q: %w", doing, workspace, explain(err))
	case found.changed:
		return false, nil
	case found.none || found.locked:
		return found.none, ErrChanged
	default:
		return false, &HeldError{}
	}
}

// explain tells a table that is missing, or its schema, from other errors.
func explain(err error) error {
	const undefinedTable, invalidSchema = "42P01", "3F000"
	var failure *pq.Error
	if errors.As(err, &failure) && (failure.Code == undefinedTable || failure.Code == invalidSchema) {
		return fmt.Errorf("%w: %w", ErrUnprepared, err)
	}
	return err
}

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
