package tofu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Workspaces returns the names of all workspaces of the state backend but the default one, sorted.
func (e *Engine) Workspaces(ctx context.Context, i Installation) ([]string, error) {
	if dir := e.options.Backend.directory(); dir != "" {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("listing workspaces: %w", err)
		}
		var names []string
		for _, entry := range entries {
			if entry.IsDir() {
				names = append(names, entry.Name())
			}
		}
		return names, nil
	}
	var names []string
	err := e.look(ctx, i, "", func(w *Workspace, base *Prepared) (err error) {
		names, err = w.list(ctx, base)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing workspaces: %w", err)
	}
	return names, nil
}

// Peek reads the state of a workspace that Workspaces returned, without waiting for runs that are under way: nil when it is empty
// or was removed since.
func (e *Engine) Peek(ctx context.Context, i Installation, name string) (*State, error) {
	if !isWorkspaceName(name) {
		return nil, fmt.Errorf("reading workspace %q: it has no plain name", name)
	}
	if dir := e.options.Backend.directory(); dir != "" && e.options.Encryption == nil {
		state, err := peekFile(filepath.Join(dir, name, "terraform.tfstate"))
		if err != nil {
			return nil, fmt.Errorf("reading workspace %q: %w", name, err)
		}
		return state, nil
	}
	var state *State
	err := e.look(ctx, i, name, func(w *Workspace, base *Prepared) (err error) {
		state, err = w.pull(ctx, base)
		if err == nil && state == nil {
			// It was removed since, and to look at a workspace creates it.
			err = w.deleteWorkspace(ctx, base)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading workspace %q: %w", name, err)
	}
	return state, nil
}

// peekFile reads the state file of a local workspace. OpenTofu empties it before it writes it, so one that is cut off is empty.
func peekFile(path string) (*State, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseState(text)
}

// localCopy reads the state of a local workspace as OpenTofu stored it, nil where there is none that can be read in this way. OpenTofu's
// "state pull" does no more with such a file: it neither takes the state's lock nor knows more than the file. Whoever writes it under
// this lease is done, and of somebody else's work a cut-off file, which is no JSON, is all that can be seen.
func (w *Workspace) localCopy() ([]byte, *State) {
	path := w.localState()
	if path == "" || w.engine.options.Encryption != nil {
		return nil, nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator's directory
	if err != nil {
		return nil, nil
	}
	state, err := parseState(text)
	if err != nil {
		return nil, nil
	}
	return text, state
}

// absent tells whether a local workspace does not exist, which OpenTofu would find out in the same way and, to look, create it.
func (w *Workspace) absent() bool {
	path := w.localState()
	if path == "" {
		return false
	}
	_, err := os.Stat(filepath.Dir(path))
	return errors.Is(err, fs.ErrNotExist)
}

// directory is where the local backend keeps its workspaces, "" for other backends.
func (b Backend) directory() string {
	dir, ok := b.Config[localWorkspaceDir].(string)
	if !ok || b.Type != localType {
		return ""
	}
	return dir
}

// look lends a scratch directory of its own to commands that only read, without a lease.
func (e *Engine) look(ctx context.Context, i Installation, name string, read func(*Workspace, *Prepared) error) (err error) {
	base, err := e.base(ctx, i)
	if err != nil {
		return err
	}
	lock, err := e.lookDir()
	if err != nil {
		return err
	}
	dir := lock.Name()
	w := &Workspace{engine: e, name: name, dir: dir, look: lock, mask: e.mask()}
	defer func() {
		err = errors.Join(err, os.RemoveAll(dir), lock.Close())
		if w.temp != "" {
			err = errors.Join(err, os.RemoveAll(w.temp))
		}
	}()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "tmp"), 0o700), w.writeKeys()); err != nil {
		return err
	}
	return read(w, base)
}

// list returns the names of all workspaces but the default one, sorted.
func (w *Workspace) list(ctx context.Context, base *Prepared) ([]string, error) {
	text, err := w.run(ctx, base, outsidePlace, nil, "workspace", "list", "-no-color")
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
