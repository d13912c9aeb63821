// Package statestore reads and writes the states of OpenTofu's workspaces where OpenTofu's backends local and pg keep them, in
// their form and under their locks, without a process of OpenTofu. What it stores OpenTofu finds, and the other way round; it was
// held against OpenTofu 1.6 to 1.12. It knows nothing of what a state says.
//
//	store := statestore.Local("/var/vcap/store/states/workspaces")
//	before, err := store.Read(ctx, "b-1")                 // nil: there is no such workspace, or nothing is in it
//	err = store.Replace(ctx, "b-1", before, next)         // ErrChanged, *HeldError: nothing was changed
//	err = store.Delete(ctx, "b-1", next)
//
// It works on Linux.
package statestore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Store keeps the states of workspaces, as bytes. Its methods may be called by many goroutines; several stores of the same place, in
// this process or in others, exclude each other as they exclude OpenTofu. Where an error is none of ErrChanged, ErrUnprepared,
// ErrUnsupported and HeldError, it is not known whether a change was made: the connection to a database may end before it says so.
type Store interface {
	// Read returns what is stored; nil when the workspace does not exist, and on pg when it holds no bytes. It takes no lock, as
	// OpenTofu's "state pull" takes none, and creates nothing.
	Read(ctx context.Context, workspace string) ([]byte, error)
	// List returns all workspaces but the default one, sorted.
	List(ctx context.Context) ([]string, error)
	// Locked counts the workspaces whose states are locked at this moment.
	Locked(ctx context.Context) (int, error)
	// Replace stores next, which must not be empty, in the place of before, under the state's lock. With an empty before it creates
	// the workspace, or on pg fills one that holds no bytes. ErrChanged when what is stored is not before, byte for byte.
	// ErrUnsupported where only OpenTofu can do that.
	Replace(ctx context.Context, workspace string, before, next []byte) error
	// Delete deletes the workspace, under the state's lock, when what is stored is before; ErrChanged else. With an empty before that
	// is a workspace of which Read returns nil.
	Delete(ctx context.Context, workspace string, before []byte) error
}

// ErrChanged says that something else is stored than the caller thinks. Nothing was changed.
var ErrChanged = errors.New("the state was changed meanwhile")

// ErrUnprepared says that the place of the states does not exist yet: OpenTofu makes it. Nothing was changed.
var ErrUnprepared = errors.New("the place of the states does not exist yet")

// ErrUnsupported says that something is left to OpenTofu: what this package does not do itself, and configurations that OpenTofu may
// understand in another way. Nothing was changed.
var ErrUnsupported = errors.New("only OpenTofu can do this")

// HeldError says that another run holds the lock of a workspace's state. Nothing was changed, nor was waited. The fields are empty
// where the backend does not tell them: pg never does, local not at the moments at which a lock is taken and released.
type HeldError struct {
	ID        string
	Who       string // user@host
	Operation string // such as "OperationTypeApply"
	Created   time.Time
}

// Error tells who holds the lock.
func (e *HeldError) Error() string {
	if e.ID == "" {
		return "the state is locked by another run"
	}
	return fmt.Sprintf("the state is locked by %s since %s (%s, lock %s)", e.Who, e.Created.UTC().Format(time.RFC3339), e.Operation, e.ID)
}

// checkName refuses names that are not those of a workspace with a place of its own.
func checkName(workspace string) error {
	if workspace == "" || workspace == "default" || workspace == "." || workspace == ".." || strings.ContainsAny(workspace, "/\x00") {
		return fmt.Errorf("the state of workspace %q cannot be used: it must have a plain name that is not default", workspace)
	}
	return nil
}

// checkNext refuses to store what would be no state.
func checkNext(next []byte) error {
	if len(next) == 0 {
		return errors.New("a state to store must not be empty")
	}
	return nil
}
