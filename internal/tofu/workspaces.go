package tofu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"service-adapter/internal/opentofu"

	"service-adapter/internal/statestore"
)

// Workspaces returns the names of all workspaces of the state backend but the default one, sorted.
func (e *Engine) Workspaces(ctx context.Context, i opentofu.Installation) ([]string, error) {
	if e.store != nil && e.knows(i) {
		names, err := e.store.List(ctx)
		if err == nil {
			return names, nil
		}
		e.logger.Debug("leaving the list of workspaces to OpenTofu", "error", e.mask().Clean(err.Error()))
	}
	var names []string
	err := e.look("", func(w *Workspace) (err error) {
		names, err = w.list(ctx, i)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	return names, nil
}

// Peek reads the state of a workspace that Workspaces returned, without waiting for runs that are under way: nil when it is empty
// or was removed since.
func (e *Engine) Peek(ctx context.Context, i opentofu.Installation, name string) (*statestore.State, error) {
	if !isWorkspaceName(name) {
		return nil, fmt.Errorf("reading workspace %q: it has no plain name", name)
	}
	direct := Workspace{engine: e, name: name, dir: filepath.Join(e.options.CacheDir, "runs", name), store: e.store, mask: e.mask()}
	now, ok, err := direct.see(ctx, i)
	if !ok && err == nil {
		ok, err = direct.absent(ctx)
	}
	if unreadable(err) {
		// Perhaps it is being written at this moment.
		brief, cancel := context.WithTimeout(ctx, peekPatience)
		defer cancel()
		if err = direct.repair(brief); err == nil {
			now, ok, err = direct.see(ctx, i)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading workspace %q: %w", name, err)
	}
	if ok {
		return now.state, nil
	}
	var state *statestore.State
	err = e.look(name, func(w *Workspace) (err error) {
		state, err = w.existing(ctx, i)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading workspace %q: %w", name, err)
	}
	return state, nil
}

// peekPatience is how long a look waits, in the worst case twice, for a state that is being written.
const peekPatience = 4 * time.Second

// directory is where the local backend keeps its workspaces, "" for other backends.
func (b Backend) directory() string {
	dir, ok := b.Config[localWorkspaceDir].(string)
	if !ok || b.Type != localType {
		return ""
	}
	return dir
}

// look lends a scratch directory of its own to commands that only read, without a lease.
func (e *Engine) look(name string, read func(*Workspace) error) (err error) {
	lock, err := e.lookDir()
	if err != nil {
		return err
	}
	dir := lock.Name()
	w := &Workspace{engine: e, name: name, dir: dir, look: lock, mask: e.mask()}
	defer func() {
		err = errors.Join(err, clearScratch(dir), lock.Close())
	}()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "tmp"), 0o700), w.writeKeys()); err != nil {
		return err
	}
	return read(w)
}

// list returns the names of all workspaces but the default one, sorted.
func (w *Workspace) list(ctx context.Context, i opentofu.Installation) ([]string, error) {
	text, err := w.runBase(ctx, i, outsidePlace, nil, "workspace", "list", "-no-color")
	if err != nil {
		return nil, err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		name := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "*"))
		if name != "" && name != "default" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
