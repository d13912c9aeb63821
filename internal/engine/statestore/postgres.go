package statestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
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

// nowhere is the path of a file that cannot exist. It keeps the driver from reading files of the home directory.
const nowhere = "/dev/null/none"

// postgres is the Store of OpenTofu's backend pg: a table with one row per state, whose columns are the id, the name of
// the workspace and the data, which is the text of the state. Postgres creates one; the zero value is not usable.
//
// OpenTofu's lock of a state is an advisory lock on the id of its row. OpenTofu's lock belongs to a session, and the
// locks that this store takes belong to a transaction; both exclude each other. To create a workspace, OpenTofu also
// takes a lock of the whole table, and its other runs fail meanwhile. This store ignores that lock, because it creates
// a row with a single statement that inserts nothing if the row exists.
//
// The driver ends a query with its context, but not while it waits for a server that has accepted the connection and
// does not answer. All queries therefore run under ctxio.Await, which stops waiting when the context ends.
type postgres struct {
	db *sql.DB
	// These are the SQL statements of the operations.
	read, list, locks, create, replace, rename, delete string
}

// Postgres returns the store of OpenTofu's backend pg. The configuration contains the settings of that backend under
// OpenTofu's names: conn_str, which is required, and optionally schema_name, table_name, index_name,
// skip_schema_creation, skip_table_creation and skip_index_creation. The last four have no effect. Postgres itself does
// not connect; the store connects when its methods are called and keeps idle connections for a second. It never creates
// the schema or the table; without them the errors of the methods of Store wrap ErrUnprepared.
//
// The store must use the same database as OpenTofu, which the adapter runs without PostgreSQL's environment variables
// and with an empty home directory. The error is ErrUnsupported, and the store nil, if that is not certain: if this
// process has such variables, if the connection string is missing or invalid, if the connection string, the schema or
// the table is empty or not a string, if a setting is unknown, or if the connection depends on the user or the working
// directory of the process. Postgres returns no other error.
func Postgres(config map[string]any) (Store, error) {
	connString, schema, tableName := "", "terraform_remote_state", "states" // OpenTofu's defaults
	settings := map[string]*string{"conn_str": &connString, "schema_name": &schema, "table_name": &tableName}
	ignored := []string{"index_name", "skip_schema_creation", "skip_table_creation", "skip_index_creation"}
	for key, v := range config {
		text, _ := v.(string)
		switch setting := settings[key]; {
		case setting != nil && text != "":
			*setting = text
		case setting != nil || !slices.Contains(ignored, key):
			return nil, ErrUnsupported
		}
	}
	connection, err := connectionConfig(connString)
	if err != nil {
		return nil, err
	}
	connector, err := pq.NewConnectorConfig(connection)
	if err != nil {
		return nil, ErrUnsupported
	}
	db := sql.OpenDB(connector)
	db.SetMaxIdleConns(runtime.NumCPU()) // as many as are used concurrently; a binding needs one
	db.SetConnMaxIdleTime(time.Second)

	table := pq.QuoteIdentifier(schema) + "." + pq.QuoteIdentifier(tableName)
	// A single statement locks, compares and changes the row. It is one transaction, whose end releases the lock, and
	// has one result to wait for. If another run changes the row before this statement gets the lock, the server
	// compares the row once more.
	const change = `WITH found AS (SELECT id, pg_try_advisory_xact_lock(id) AS locked FROM %[1]s WHERE name = $1),
		changed AS (%[2]s WHERE found.locked AND state.id = found.id AND %[3]s RETURNING 1)
		SELECT locked, EXISTS (SELECT FROM changed) FROM found`
	const unchanged = `state.data = $2 AND state.data <> ''` // an empty before never matches a row
	return &postgres{
		db:   db,
		read: `SELECT name, coalesce(data, '') FROM ` + table + ` WHERE name = ANY($1)`,
		list: `SELECT name FROM ` + table + ` WHERE name != 'default' ORDER BY name`,
		// The view pg_locks has the upper and the lower half of a lock's id in two columns.
		// The session of another database user has no times and addresses for a user without privileges.
		locks: `SELECT state.name, coalesce(session.usename, ''), coalesce(host(session.client_addr), ''),
				session.backend_start
			FROM ` + table + ` AS state JOIN pg_locks AS held ON held.locktype = 'advisory'
			AND held.granted AND held.objsubid = 1 AND held.classid::bigint << 32 | held.objid::bigint = state.id
			AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
			LEFT JOIN pg_stat_activity AS session ON session.pid = held.pid ORDER BY state.name`,
		create: `INSERT INTO ` + table + ` (name, data) VALUES ($1, $2) ` +
			`ON CONFLICT (name) DO NOTHING RETURNING true, true`,
		replace: fmt.Sprintf(change, table, `UPDATE `+table+` AS state SET data = $3 FROM found`, unchanged),
		rename:  fmt.Sprintf(change, table, `UPDATE `+table+` AS state SET name = $2 FROM found`, "true"),
		delete:  fmt.Sprintf(change, table, `DELETE FROM `+table+` AS state USING found`, unchanged),
	}, nil
}

// connectionConfig parses the connection string of OpenTofu's backend pg, a URL or a list of key=value pairs, into the
// driver's configuration. It changes the configuration so that the driver reads no password file and no certificate
// from the user's home directory. The error is ErrUnsupported, with a zero configuration, if the string is empty or
// invalid, if this process has environment variables of the driver, or if the driver might connect differently in this
// process than in OpenTofu's. It is not the driver's error, which may contain the password; OpenTofu reports an invalid
// string without it.
func connectionConfig(connString string) (pq.Config, error) {
	if environmentAffectsDriver() {
		return pq.Config{}, ErrUnsupported
	}
	config, err := pq.NewConfig(connString)
	if err != nil || strings.TrimSpace(connString) == "" || dependsOnProcess(config) {
		return pq.Config{}, ErrUnsupported
	}
	// OpenTofu runs with an empty home directory, so the driver must not read the default files in the home directory
	// here.
	if config.Passfile == "" {
		config.Passfile = nowhere
	}
	if config.SSLCert == "" && !config.SSLInline {
		config.SSLCert = nowhere
	}
	return config, nil
}

// environmentAffectsDriver reports whether this process has environment variables that the driver may read: those whose
// names begin with PG or PQGO. OpenTofu's processes do not have them.
func environmentAffectsDriver() bool {
	return slices.ContainsFunc(os.Environ(), func(variable string) bool { //nolint:forbidigo // the driver reads it
		return strings.HasPrefix(variable, "PG") || strings.HasPrefix(variable, "PQGO")
	})
}

// dependsOnProcess reports whether a configuration yields different connections in different processes. That is so if
// the database user equals $USER, from which the driver takes the default, but not the user of this process, or if the
// path of the password file, a certificate or a key is relative. Paths are not checked if the certificates are inline
// in the connection string. dependsOnProcess returns true if the user of this process cannot be determined.
func dependsOnProcess(config pq.Config) bool {
	// Without a user in the connection string the driver uses $USER, which OpenTofu's processes do not have, and
	// without $USER the user of the process.
	account, err := user.Current()
	variable := os.Getenv("USER") //nolint:forbidigo // the driver reads it
	if err != nil || config.User == variable && config.User != account.Username {
		return true
	}
	files := []string{config.Passfile, config.SSLCert, config.SSLKey, config.SSLRootCert}
	return !config.SSLInline && slices.ContainsFunc(files, func(file string) bool {
		return file != "" && !filepath.IsAbs(file)
	})
}

// Read returns the data of the row of a workspace, or nil and no error if the workspace has no row. The error wraps
// ErrIncomplete if the row has no data, because OpenTofu writes a state in every row that it creates. It wraps
// ErrUnprepared if the schema or the table does not exist. It is another error if the name is not valid, the database
// cannot be reached, the query fails, or the context ends before the result. Read takes no lock.
func (p *postgres) Read(ctx context.Context, workspace string) ([]byte, error) {
	if err := checkName(workspace); err != nil {
		return nil, err
	}
	rows, err := p.readRows(ctx, []string{workspace})
	if err != nil {
		return nil, fmt.Errorf("reading the state of workspace %q: %w", workspace, unprepared(err))
	}
	text, exists := rows[workspace]
	if exists && len(text) == 0 {
		return nil, fmt.Errorf("%w: the row of workspace %q has no data; restore the row from a backup of the database",
			ErrIncomplete, workspace)
	}
	return text, nil
}

// ReadAll reads the rows of several workspaces with one query and returns the states by the name of the workspace.
// Workspaces without a row, and those whose row has no data, are absent from the result; an empty map means that none
// has a state. ReadAll returns nil and an error if the database cannot be reached, the query fails, or the context ends
// before the result. Unlike Read, ReadAll does not check the names, and its error does not wrap ErrUnprepared if the
// table does not exist.
func (p *postgres) ReadAll(ctx context.Context, workspaces []string) (map[string][]byte, error) {
	rows, err := p.readRows(ctx, workspaces)
	maps.DeleteFunc(rows, func(_ string, text []byte) bool { return len(text) == 0 })
	return rows, err
}

// readRows reads the rows of workspaces with one query and returns their data by the name of the workspace. The data
// of a row with NULL is empty. Workspaces without a row are absent from the result, which is an empty map if no
// workspace has one. readRows returns nil and the error of the connection or the query, or of the context if that
// ends first. The error does not wrap ErrUnprepared if the table does not exist; see unprepared.
func (p *postgres) readRows(ctx context.Context, workspaces []string) (map[string][]byte, error) {
	return ctxio.Await(ctx, func() (map[string][]byte, error) {
		texts := map[string][]byte{}
		err := p.each(ctx, func(rows *sql.Rows) error {
			var name string
			var data []byte
			err := rows.Scan(&name, &data)
			texts[name] = data
			return err
		}, p.read, pq.Array(workspaces))
		if err != nil {
			return nil, err
		}
		return texts, nil
	})
}

// List returns the names of all rows except "default", sorted by the database. The result is nil if there are none. The
// error wraps ErrUnprepared if the schema or the table does not exist, and is another error if the database cannot be
// reached, the query fails, or the context ends before the result. The result is nil with an error.
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
		return nil, fmt.Errorf("listing workspaces: %w", unprepared(err))
	}
	return names, nil
}

// each runs a query with these arguments and calls scan for every row of the result; scan reads the columns of the
// current row with rows.Scan. It stops at the first error of the connection, the query, the context or scan, and
// returns it. A result without rows is not an error. While the server does not answer, each does not return even if
// the context has ended, so the caller must run it under ctxio.Await.
func (p *postgres) each(ctx context.Context, scan func(*sql.Rows) error, query string, arguments ...any) error {
	rows, err := p.db.QueryContext(ctx, query, arguments...)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // rows.Err returns the error
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Locks returns a Lock for each row whose advisory lock any session holds, sorted by workspace, also for "default". Who
// is the database user of the session, with @ and the address of its client if it has one; a session on a socket of the
// server's host has no address. Operation is empty, and Since is the time at which the session connected. If this user
// may not inspect the session of another user, Who contains no address and Since is zero. If the session has ended
// meanwhile, Who is "" and Since is zero.
//
// The result is nil if no lock is held. The error wraps ErrUnprepared if the schema or the table does not exist; any
// other error means that the database cannot be queried before ctx ends. The result must not be used with an error.
func (p *postgres) Locks(ctx context.Context) ([]Lock, error) {
	return ctxio.Await(ctx, func() (locks []Lock, err error) {
		err = p.each(ctx, func(rows *sql.Rows) error {
			var lock Lock
			var address string
			var connected sql.NullTime
			err := rows.Scan(&lock.Workspace, &lock.Who, &address, &connected)
			if address != "" {
				lock.Who += "@" + address
			}
			lock.Since = connected.Time
			locks = append(locks, lock)
			return err
		}, p.locks)
		return locks, unprepared(err)
	})
}

// Replace stores the state next: it inserts the row of the workspace if before is empty, and otherwise updates the row
// if its data equals before, byte for byte. The row is locked only for the duration of the statement.
//
// The error is ErrChanged if the row to insert exists, the row to update does not exist, or its data differs from
// before. It is a *HeldError without fields if another run holds the lock of an existing row. It wraps ErrUnprepared if
// the schema or the table does not exist. The state is unchanged after these errors, and if the name is not valid or
// next is empty, which are also errors. After any other error of the connection, the statement or the context, the
// state may have been stored.
func (p *postgres) Replace(ctx context.Context, workspace string, before, next []byte) error {
	if err := errors.Join(checkName(workspace), checkNext(next)); err != nil {
		return err
	}
	if len(before) == 0 {
		// If the row exists, the update below returns ErrChanged or, if another run holds the lock, a *HeldError.
		if noRow, err := p.change(ctx, "creating", p.create, workspace, string(next)); !noRow {
			return err
		}
	}
	_, err := p.change(ctx, "writing the state of", p.replace, workspace, string(before), string(next))
	return err
}

// SetAside changes the name of the row from workspace to name, whatever its data is. The error is ErrChanged if the
// workspace has no row, and a *HeldError without fields if another run holds its lock. It wraps ErrUnprepared if the
// schema or the table does not exist. It is another error if one of the names is not valid, another row has the new
// name, the statement fails, or the context ends before the result; in the last two cases the row may have been
// renamed.
func (p *postgres) SetAside(ctx context.Context, workspace, name string) error {
	if err := errors.Join(checkName(workspace), checkName(name)); err != nil {
		return err
	}
	_, err := p.change(ctx, "renaming", p.rename, workspace, name)
	return err
}

// Delete deletes the row of a workspace if its data equals before, byte for byte. An empty before stands for a missing
// row: Delete then returns nil if the workspace has no row, and never deletes a row.
//
// The error is ErrChanged if the data differs from before, if before is empty and the workspace has a row, even one
// without data, or if before is not empty and the workspace has no row. It is a *HeldError without fields if another
// run holds the lock of the row. It wraps ErrUnprepared if the schema or the table does not exist, and is another error
// if the name is not valid. After an error of the connection or the statement, or if the context ends before the
// result, the row may have been deleted.
func (p *postgres) Delete(ctx context.Context, workspace string, before []byte) error {
	if err := checkName(workspace); err != nil {
		return err
	}
	noRow, err := p.change(ctx, "deleting", p.delete, workspace, string(before))
	if noRow && len(before) == 0 {
		return nil
	}
	return err
}

// change runs statement, one of those in p that insert, update, rename or delete the row of a workspace. The name of
// the workspace is the statement's first argument, and the states are its further arguments: the expected and the new
// data, or the new name. The parameter doing is the verb for errors, such as "deleting".
//
// The error is ErrChanged if the statement does not find the expected row, and a *HeldError without fields if another
// run holds the row's lock. It wraps ErrUnprepared if the schema or the table does not exist, and is any other error if
// the statement fails or does not end before ctx; the row may have been changed then. noRow is true only with
// ErrChanged. It means that the statement returned no row: there is none to change, or the row to insert exists.
//
// The statement runs on a connection and not on the pool. The pool runs a statement again if the connection ends before
// the result. If the first attempt has changed the row, the second one would find another row than expected and wrongly
// return ErrChanged.
func (p *postgres) change(
	ctx context.Context, doing, statement, workspace string, states ...any,
) (noRow bool, err error) {
	type outcome struct{ noRow, locked, changed bool }
	result, err := ctxio.Await(ctx, func() (result outcome, err error) {
		connection, err := p.db.Conn(ctx)
		if err != nil {
			return outcome{}, err
		}
		defer connection.Close() //nolint:errcheck // It returns to the pool, which checks whether it is usable.
		err = connection.QueryRowContext(ctx, statement, append([]any{workspace}, states...)...).
			Scan(&result.locked, &result.changed)
		if errors.Is(err, sql.ErrNoRows) {
			return outcome{noRow: true}, nil
		}
		return result, err
	})
	switch {
	case err != nil:
		return false, fmt.Errorf("%s workspace %q: %w", doing, workspace, unprepared(err))
	case result.changed:
		return false, nil
	case result.noRow || result.locked:
		return result.noRow, ErrChanged
	default:
		return false, &HeldError{}
	}
}

// unprepared returns an error that wraps both ErrUnprepared and err if err is the server's error for a missing table or
// schema. It returns any other error, and nil, unchanged.
func unprepared(err error) error {
	const undefinedTable, invalidSchema = "42P01", "3F000"
	var failure *pq.Error
	if errors.As(err, &failure) && (failure.Code == undefinedTable || failure.Code == invalidSchema) {
		return fmt.Errorf("%w: %w", ErrUnprepared, err)
	}
	return err
}
