package lifecycle

import (
	"context"
	"errors"
	"slices"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statelock"
)

// Inspect returns the content of a binding or an instance like Manager.Lookup, for a command that shows it. In
// addition, if OpenTofu reports that it cannot read the state, and the backend still lists the workspace, that is not
// an error: the backend responds, and the content has the condition Unreadable, as in the result of Manager.List.
// OpenTofu describes a damaged state on backends such as s3 with the words for a backend that does not respond. The
// other errors are those of Lookup.
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
