package tofu

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

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
	err := e.reading(ctx, "", func(s *states) (err error) {
		names, err = s.list(ctx, i)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	return names, nil
}

// peekAtOnce is how many states PeekAll asks the backend for with one question, where it takes one for several.
const peekAtOnce = 16

// PeekAll is Peek for several workspaces, side by side; told is called with the index of each.
func (e *Engine) PeekAll(ctx context.Context, i opentofu.Installation, names []string, told func(n int, state *statestore.State, err error)) {
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for first := 0; first < len(names); first += peekAtOnce {
		group.Go(func() error {
			some := names[first:min(first+peekAtOnce, len(names))]
			var stored map[string][]byte
			if all, ok := e.store.(interface {
				ReadAll(ctx context.Context, workspaces []string) (map[string][]byte, error)
			}); ok && e.knows(i) {
				stored, _ = all.ReadAll(ctx, some) // else each is asked for, and tells what is wrong
			}
			for n, name := range some {
				state, err := e.peek(ctx, i, name, stored)
				told(first+n, state, err)
			}
			return nil
		})
	}
	_ = group.Wait() // what fails is told
}

// Locked counts the workspaces whose states are locked at this moment; -1 where only OpenTofu knows.
func (e *Engine) Locked(ctx context.Context) (int, error) {
	if e.store == nil {
		return -1, nil
	}
	return e.store.Locked(ctx)
}

// Peek reads the state of a workspace without waiting for runs that are under way: nil when there is none or it is empty, and then none
// exists afterwards.
func (e *Engine) Peek(ctx context.Context, i opentofu.Installation, name string) (*statestore.State, error) {
	return e.peek(ctx, i, name, nil)
}

func (e *Engine) peek(ctx context.Context, i opentofu.Installation, name string, stored map[string][]byte) (*statestore.State, error) {
	if !isWorkspaceName(name) {
		return nil, fmt.Errorf("reading workspace %q: it has no plain name", name)
	}
	dir := filepath.Join(e.options.CacheDir, runsName, name)
	direct := states{session: &session{engine: e, name: name, dir: dir, mask: e.mask()}, store: e.store, ahead: stored}
	now, ok, err := direct.readDirectly(ctx, i)
	if !ok && err == nil {
		ok, err = direct.absent(ctx)
	}
	if errors.Is(err, statestore.ErrIncomplete) {
		// Perhaps it is being written at this moment.
		brief, cancel := context.WithTimeout(ctx, peekPatience)
		defer cancel()
		if err = direct.repair(brief); err == nil {
			now, ok, err = direct.readDirectly(ctx, i)
		}
	}
	if !ok && err == nil {
		err = e.reading(ctx, name, func(s *states) (err error) {
			now, err = s.existing(ctx, i)
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("reading workspace %q: %w", name, err)
	}
	return now.state, nil
}

// peekPatience is how long a look waits, in the worst case twice, for a state that is being written.
const peekPatience = 4 * time.Second

// directory is where the local backend keeps its workspaces, "" for other backends.
func (b Backend) directory() string {
	if b.Type != localType {
		return ""
	}
	dir, _ := b.Config[localWorkspaceDir].(string)
	return dir
}

// reading lends a scratch directory of its own to commands that only read, without the lease of the workspace. Whoever finds such a directory
// that nobody uses removes it, with the state in clear text and the keys that a killed adapter left there.
func (e *Engine) reading(ctx context.Context, workspace string, read func(*states) error) (err error) {
	session, lease, err := e.scratch(ctx, workspace, "look-"+rand.Text())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clearScratch(session.dir), lease.release()) }()
	return read(&states{session: session})
}

// list returns the names of all workspaces but the default one, sorted.
func (s *session) list(ctx context.Context, i opentofu.Installation) ([]string, error) {
	text, err := s.runBase(ctx, i, outsidePlace, nil, "workspace", "list", "-no-color")
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
