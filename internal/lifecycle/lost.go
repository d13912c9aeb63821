package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/tofu"
)

// lostInterval is how often it is tried to reserve a workspace that another run still has.
const lostInterval = 200 * time.Millisecond

// KeepLost sees to it that what a creation made, and what is in no state, is not forgotten: it logs the resources, and reserves the
// workspace once more with a record that names them, when whoever took it over is done. False when an error tells of no such resources.
func (m *Manager) KeepLost(ctx context.Context, space *tofu.Workspace, installation opentofu.Installation, record *Record, err error) bool {
	var lost *tofu.LostError
	if !errors.As(err, &lost) {
		return false
	}
	kind, id := record.Of()
	logger := m.Logger.With(string(kind), id, "resources", strings.Join(lost.Resources, ", "))
	logger.Error("a creation lost its state while it ran; what it made is in no state and may exist")
	record.Lost = lost.Resources
	encoded, err := record.Encode()
	for err == nil {
		err = space.Reserve(ctx, installation, encoded)
		if err == nil || !errors.Is(err, tofu.ErrExists) {
			break
		}
		select {
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
		case <-time.After(lostInterval):
			err = nil
		}
	}
	if err != nil {
		logger.Error("these resources could not be recorded", "error", err)
	}
	return true
}

// lost is the error of a record that names resources which are in no state.
func (r *Record) lost() error {
	if len(r.Lost) == 0 {
		return nil
	}
	kind, id := r.Of()
	command := "bindings delete"
	if kind == Instance {
		command = "instance destroy"
	}
	return fmt.Errorf("its creation lost its state while it ran, and what it made is in no state: look for %s and remove by hand what exists, "+
		"and then run service-adapter %s %s --forget", strings.Join(r.Lost, ", "), command, id)
}
