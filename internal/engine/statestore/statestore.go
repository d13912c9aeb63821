// Package statestore reads and writes the states of OpenTofu's workspaces without running OpenTofu. It stores them
// where OpenTofu's backends "local" and "pg" store them, in the same form and under the same locks. OpenTofu therefore
// reads the states that this package stores, and this package reads those of OpenTofu. The tests compare it with
// OpenTofu 1.6 to 1.12.
//
// A Store handles states as bytes and does not interpret them. Parse reads the content of a state, and Encryption
// decrypts and encrypts states in OpenTofu's format.
//
//	store := statestore.Local("/var/vcap/store/states/workspaces")
//	before, err := store.Read(ctx, "b-1")                 // nil: the workspace does not exist
//	err = store.Replace(ctx, "b-1", before, next)         // ErrChanged, *HeldError: the stored state is unchanged
//	err = store.Delete(ctx, "b-1", next)
//
// The package works on Linux only.
package statestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Store stores the states of workspaces, as bytes, in the directory or the database of one state backend of OpenTofu.
// Local and Postgres return the two implementations. The methods are safe for concurrent use. Several stores of the
// same directory or database, in this process or in others, exclude each other with OpenTofu's locks, and exclude
// OpenTofu. No method waits until another run releases the lock of a state.
//
// After ErrChanged, ErrUnprepared, ErrUnsupported or a *HeldError the stored states are unchanged. After any other
// error a change may have taken effect, unless the implementation states otherwise, because the connection to a
// database may end before the database confirms the change.
//
// Methods with a workspace parameter return an error if the name is empty, "default", "." or "..", or contains a slash
// or a NUL byte. All methods return an error if the directory or the database cannot be used, and if the context has
// ended before the call. If it ends during the call, a method of a LocalStore may complete nevertheless.
type Store interface {
	// Read returns the stored state, or nil if the workspace does not exist. The error is ErrIncomplete if the
	// workspace exists without a whole state. Read takes no lock, as OpenTofu's "state pull" takes none, and creates
	// nothing.
	Read(ctx context.Context, workspace string) ([]byte, error)
	// List returns the names of all workspaces except "default", sorted.
	List(ctx context.Context) ([]string, error)
	// Locks returns the locks of states that are held at this moment, by OpenTofu or by a Store, sorted by workspace.
	Locks(ctx context.Context) ([]Lock, error)
	// Replace replaces the stored state before by next, under the state's lock. An empty before creates the workspace.
	// The error is ErrChanged if the stored state is not equal to before, byte for byte, a *HeldError if another run
	// holds the lock, and ErrUnsupported if only OpenTofu can replace the state. An empty next is an error.
	Replace(ctx context.Context, workspace string, before, next []byte) error
	// Delete deletes the workspace, under the state's lock, if the stored state is equal to before. Otherwise the error
	// is ErrChanged, also if the workspace does not exist. An empty before stands for a workspace of which Read returns
	// nil; Delete succeeds if it does not exist. The error is a *HeldError if another run holds the lock.
	Delete(ctx context.Context, workspace string, before []byte) error
	// SetAside renames the workspace to name, under the state's lock, without reading its content. It serves to put an
	// unreadable state out of the way. The error is a *HeldError if another run holds the lock. It is also an error if
	// the workspace does not exist or name is in use.
	SetAside(ctx context.Context, workspace, name string) error
}

// ErrChanged is the error for a stored state that is not the one that the caller expects. The stored state was not
// changed.
var ErrChanged = errors.New("the state was changed in the meantime")

// ErrUnprepared is the error for a database in which the schema or the table of the states does not exist. OpenTofu
// creates both.
var ErrUnprepared = errors.New("the table of the states does not exist yet")

// ErrUnsupported is the error for an operation that only OpenTofu can do, and for a configuration that OpenTofu may
// understand differently from this package. Nothing was changed.
var ErrUnsupported = errors.New("only OpenTofu can do this")

// A HeldError reports that another run holds the lock of a workspace's state. A method of a Store that returns it did
// not wait for the lock and did not change the state. Its fields are then empty if the backend does not report the
// lock holder: pg never does, and local does not if the lock info file is damaged or missing, as at the moments at
// which a lock is taken or released. For a run of OpenTofu, the field HeldLock of its *opentofu.Error is a
// *HeldError, which errors.As does not find.
type HeldError struct {
	ID        string    // the lock's id
	Who       string    // user@host
	Operation string    // such as "OperationTypeApply"
	Created   time.Time // when the lock was taken
}

// Error returns a message with the lock holder, the time, the operation and the id of the lock. If the field ID is
// empty, because the backend did not report the holder, the message is "the state is locked by another run".
func (e *HeldError) Error() string {
	if e.ID == "" {
		return "the state is locked by another run"
	}
	return fmt.Sprintf("the state is locked by %s since %s (%s, lock %s)",
		e.Who, e.Created.UTC().Format(time.RFC3339), e.Operation, e.ID)
}

// A Lock describes the lock of one workspace's state that a run held when Store.Locks was called: the workspace, the
// holder, its operation and the start time. Fields that the backend does not report are zero.
type Lock struct {
	Workspace string
	// Who describes the holder: user@host on local, and on pg the user of the database and the address of the client.
	// It is "" if the backend does not report the holder.
	Who string
	// Operation is what the holder does, such as "OperationTypeApply". It is "" on pg, and if Who is "".
	Operation string
	// Since is the time at which the lock was taken, and on pg the time at which the holder connected to the database,
	// which OpenTofu does to take the lock. It is zero if the backend does not report it.
	Since time.Time
}

// checkName returns an error if a workspace of this name cannot have a directory or a row of its own: if the name is
// empty, "default", "." or "..", or contains a slash or a NUL byte. It returns nil for any other name, and does not
// check whether the workspace exists.
func checkName(workspace string) error {
	if workspace == "" || workspace == "default" || workspace == "." || workspace == ".." ||
		strings.ContainsAny(workspace, "/\x00") {
		return fmt.Errorf("the state of workspace %q cannot be used: it must have a plain name that is not default",
			workspace)
	}
	return nil
}

// checkNext returns an error if next, a state to store, has no bytes. It does not check the content.
func checkNext(next []byte) error {
	if len(next) == 0 {
		return errors.New("a state to store must not be empty")
	}
	return nil
}
