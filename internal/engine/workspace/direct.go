package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statelock"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/redact"
)

// A direct reads, replaces and copies the state of one workspace without OpenTofu, as far as the backend and the
// OpenTofu allow that. For the backends local and pg the adapter implements how OpenTofu stores, encrypts and locks
// states. Reading a state takes about a millisecond, where OpenTofu takes thirty to start. The zero value is not
// usable. A direct is not safe for concurrent use.
type direct struct {
	engine  *Engine
	name    string            // of the workspace
	secrets *redact.Secrets   // masked in errors and log entries
	lock    *statelock.Waiter // waits for the lock of the state
	store   statestore.Store  // nil if OpenTofu must be used
	// prefetched are contents of the backend that have already been read, by workspace.
	prefetched map[string][]byte
}

// A snapshot is the state of a workspace at the time at which it was read: the text, the decoded state, and for a
// read without OpenTofu the stored bytes. A snapshot without a decoded state means that the workspace is missing or
// empty. The zero snapshot means that no state has been read, or that it may have changed since; readExisting also
// returns it for a workspace that was missing, or empty and deleted. The snapshot that read returns for a missing
// workspace is never zero: the field direct or absent is set, or the field text if the read created the workspace.
type snapshot struct {
	// text is the state in clear text. OpenTofu formats it anew, and replaces the OpenTofu version in it by its own.
	text  []byte
	state *statestore.State // nil if there is no state, or an empty one
	key   string            // the id of the key that encrypts it, "" if it is not encrypted or the key is not known
	// stored is the content of the backend, nil if it has none. It is only valid if direct is true, which means that
	// the state was read without OpenTofu.
	stored []byte
	direct bool
	// absent states, if direct is false, whether the workspace does not exist and reading it did not create it.
	absent bool
}

// maxConflicts is the number of attempts at a change that concurrent changes prevent. If all fail, the database does
// not behave as required.
const maxConflicts = 10

// readDirectly reads the state without OpenTofu. If d.prefetched contains the workspace, every call uses that
// content, which an earlier query of the backend returned, and does not access the backend. Like OpenTofu's "state
// pull" it takes no lock. If the workspace does not exist, ok is true and the snapshot now has no state and no text;
// a workspace without resources and outputs yields a text but no state.
//
// The result ok is false, without an error, if OpenTofu must read the state: if the backend or the OpenTofu i does not
// allow direct access, if the state cannot be decrypted or parsed, and after an error of the backend, so that OpenTofu
// reports that. Unless the context has ended, an error of the backend is logged, and d uses OpenTofu for all further
// operations. The only error, with ok false, wraps statestore.ErrIncomplete: the workspace exists and its state is not
// complete.
func (d *direct) readDirectly(ctx context.Context, i opentofu.Installation) (now snapshot, ok bool, err error) {
	if d.store == nil || !d.engine.canAccessDirectly(i) {
		return snapshot{}, false, nil
	}
	stored, isPrefetched := d.prefetched[d.name]
	if !isPrefetched {
		stored, err = d.store.Read(ctx, d.name)
	}
	switch {
	case errors.Is(err, statestore.ErrIncomplete):
		return snapshot{}, false, err
	case err != nil:
		d.fallBackToOpenTofu(ctx, err)
		return snapshot{}, false, nil
	case len(stored) == 0:
		return snapshot{direct: true}, true, nil
	}
	state, text, key, ok := d.engine.options.Encryption.Open(stored)
	if !ok {
		return snapshot{}, false, nil
	}
	return snapshot{text: text, state: state, key: key, stored: stored, direct: true}, true, nil
}

// fallBackToOpenTofu makes this object use OpenTofu for all further operations, because direct access to the backend
// failed with err, and writes a debug log entry with err. err must not be nil. It does nothing if the context ctx has
// ended, because err then says nothing about the backend.
func (d *direct) fallBackToOpenTofu(ctx context.Context, err error) {
	if ctx.Err() == nil {
		d.engine.logger.Debug("accessing the state with OpenTofu",
			"workspace", d.name, "error", d.secrets.Clean(err.Error()))
		d.store = nil
	}
}

// replaceDirectly encrypts text, the new state in clear text, and stores it instead of the state before, which must
// have been read without OpenTofu. Without encryption, the text is stored unchecked. d.store must not be nil.
// replaceDirectly waits for the lock of the state.
//
// The error is statestore.ErrChanged if the state has been changed since it was read, statestore.ErrUnsupported if
// OpenTofu must replace it, as in the local backend for a workspace that exists, and a *statelock.Error if another run
// holds the lock for too long. The state is unchanged after these errors, and after the error for a text that is not a
// state and therefore cannot be encrypted. After any other error either state may be stored.
func (d *direct) replaceDirectly(ctx context.Context, before snapshot, text []byte) error {
	sealed, err := d.engine.options.Encryption.Seal(text)
	if err != nil {
		return err
	}
	return d.lock.Retry(ctx, func() error { return d.store.Replace(ctx, d.name, before.stored, sealed) })
}

// reserveDirectly creates the guard with this record and nonce in the state, without OpenTofu, and reports whether the
// workspace is reserved with the nonce. The record is the caller's text; the nonce is a random text that identifies the
// reservation. The version of the OpenTofu i becomes that of the state. done is also true if an earlier call with the
// same nonce stored the guard.
//
// The result done is false, without an error, if OpenTofu must create the guard: if direct access is not possible or
// fails, also because ctx ends, if other runs change the state during each of 10 attempts, or if the workspace contains
// resources or outputs and no guard. This reservation may have been stored nevertheless; repeating it with the same
// nonce is harmless. If direct access fails before ctx ends, d uses OpenTofu for all further operations.
//
// With an error, done is false. The error is ErrExists if another run has reserved the workspace, a *statelock.Error if
// another run holds the lock for too long or until ctx ends, and wraps statestore.ErrIncomplete if the state is
// damaged.
func (d *direct) reserveDirectly(
	ctx context.Context, i opentofu.Installation, record []byte, nonce string,
) (done bool, err error) {
	for range maxConflicts {
		before, ok, err := d.readDirectly(ctx, i)
		switch {
		case err != nil || !ok:
			return false, err
		case before.state != nil && before.state.Nonce == nonce:
			return true, nil // an earlier attempt was stored although it failed
		case before.state != nil && before.state.Nonce != "":
			return false, ErrExists
		case before.state != nil:
			return false, nil // the state has no guard, and OpenTofu adds one
		}
		text, err := statestore.Reservation(before.text, i.Version, record, nonce)
		if err == nil {
			err = d.replaceDirectly(ctx, before, text)
		}
		switch {
		case err == nil || statelock.IsLocked(err):
			return err == nil, err
		case !errors.Is(err, statestore.ErrChanged):
			d.fallBackToOpenTofu(ctx, err)
			return false, nil
		}
	}
	d.fallBackToOpenTofu(ctx, statestore.ErrChanged)
	return false, nil
}

// keepCopy makes a durable copy of the state of the local backend, in place of the previous copy, and removes a mark
// that the workspace is empty. For other backends and for a missing workspace, keepCopy does nothing. A workspace
// that has the mark, but neither a complete state nor a copy, counts as missing. The error wraps
// statestore.ErrIncomplete if the workspace is not missing and has no complete state. It is another error if a file
// cannot be read, written or removed, or if the context has ended.
//
// Operations call it before every run that may write the state, because OpenTofu truncates the file even if it makes
// no changes, and after an operation that completed. OpenTofu's own backup does not suffice: OpenTofu writes it only
// if something changes, and does not sync it to the disk.
func (d *direct) keepCopy(ctx context.Context) error {
	if d.engine.files == nil {
		return nil
	}
	if err := d.engine.files.KeepCopy(ctx, d.name); err != nil {
		return fmt.Errorf("keeping a copy of the state: %w", err)
	}
	return nil
}

// keepCopyOrMarkEmpty makes a durable copy of the state of the local backend, from which repair can restore it. If
// the workspace does not exist, it creates the workspace with a mark that it is empty, so that repair can distinguish
// it from a workspace that lost its state. A workspace that has the mark already, but neither a complete state nor a
// copy, counts as missing and stays as it is. For backends other than local, keepCopyOrMarkEmpty does nothing. The
// error wraps statestore.ErrIncomplete if the workspace is not missing and has no complete state. It is another error
// if the state cannot be read, if the copy or the mark cannot be written, or if the context has ended.
func (d *direct) keepCopyOrMarkEmpty(ctx context.Context) error {
	absent, err := d.absentLocally(ctx)
	switch {
	case err != nil:
		return err
	case absent:
		return d.engine.files.MarkEmpty(d.name)
	default:
		return d.keepCopy(ctx)
	}
}

// withoutBackup returns the arguments of an OpenTofu command with the option "-backup=-" inserted after the first
// argument, which must be the subcommand, such as "apply". The option keeps OpenTofu's local backend from overwriting
// the copy of the state that keepCopy wrote. The result is a new slice; for other backends it is args itself.
func (d *direct) withoutBackup(args []string) []string {
	if d.engine.files == nil {
		return args
	}
	return append([]string{args[0], "-backup=-"}, args[1:]...)
}

// repair replaces an incomplete state file of the local backend by the copy of keepCopy or, if that copy is missing or
// damaged, by a state that an earlier run could not save, and logs a warning. It waits for the lock of the state.
// OpenTofu would treat an empty file as an empty state. For a complete state, a workspace that does not exist and other
// backends, repair changes nothing.
//
// The error wraps statestore.ErrIncomplete if there is neither, and is a *statelock.Error if another run holds the lock
// for too long or until ctx ends. It is any other error if a file cannot be read or written or ctx has ended. With the
// local backend, an unsaved state that cannot be read is an error even if the state is complete.
func (d *direct) repair(ctx context.Context) error {
	if d.engine.files == nil {
		return nil
	}
	var unsaved []byte
	if path := d.engine.scratch.UnsavedState(d.name); path != "" {
		var err error
		if unsaved, err = os.ReadFile(path); err != nil { //nolint:gosec // a state in the scratch directory
			return err
		}
	}
	err := d.lock.Retry(ctx, func() error {
		repaired, err := d.engine.files.Repair(ctx, d.name, unsaved)
		if repaired {
			d.engine.logger.Warn("restored the copy of a state that was not completely written", "workspace", d.name)
		}
		return err
	})
	if err != nil && !statelock.IsLocked(err) {
		return fmt.Errorf("reading the state: %w", err)
	}
	return err
}

// absentLocally reports whether the backend is the local one and the workspace is missing. A workspace that has the
// mark of keepCopyOrMarkEmpty, but neither a complete state nor a copy, counts as missing. Reading a workspace that
// does not exist with OpenTofu would create it. The result is false for other backends and with an error. The error
// wraps statestore.ErrIncomplete if the workspace is not missing and has no complete state. It is another error if
// the file cannot be read or the context has ended.
func (d *direct) absentLocally(ctx context.Context) (bool, error) {
	if d.engine.files == nil {
		return false, nil
	}
	stored, err := d.engine.files.Read(ctx, d.name)
	return err == nil && stored == nil, err
}
