package lifecycle

import (
	"context"
	"errors"
	"slices"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statelock"
)

// Inspect returns the content of the binding or the instance with this id, for a command that shows it. kind must be
// Binding or Instance. Like Manager.Lookup, it accepts instead of the id the name of the workspace if that contains a
// hash, for example "bh-" and 64 hexadecimal digits, and returns content with the condition Unreadable if the state or
// the record cannot be decoded.
//
// Inspect is not read-only: an empty workspace is deleted if OpenTofu has to read it, and an incomplete state file of
// the backend local is restored. It waits for a running command only if that holds the lock of such a state; see
// workspace.Engine.Peek.
//
// Inspect differs from Lookup if OpenTofu reports that the backend failed, because OpenTofu describes a damaged state
// on backends such as s3 with the same words. If the backend still lists the workspace, Inspect returns content with
// the condition Unreadable and no error.
//
// Inspect returns nil and an error that wraps ErrNotStored if the backend has no such workspace or an empty one. It
// returns nil and an error that wraps a *statelock.Error if the state is locked, and nil and another error if the
// backend cannot be reached, if no pak has a usable OpenTofu, or if the context ends.
func Inspect(ctx context.Context, m *Manager, kind Kind, id string) (*Stored, error) {
	stored, err := m.Lookup(ctx, kind, id)
	var run *opentofu.Error
	if err == nil || ctx.Err() != nil || !errors.As(err, &run) || errors.As(err, new(*statelock.Error)) {
		return stored, err
	}
	name := workspaceByIDOrName(kind, id)
	names, listErr := m.Workspaces(ctx, kind)
	if _, listed := slices.BinarySearch(names, name); listErr != nil || !listed {
		return nil, err
	}
	unreadable := newStored(name, nil, err)
	return &unreadable, nil
}
