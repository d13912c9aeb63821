package tofu

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// Surgery is what people do with the state of a workspace where nothing else helps.
type Surgery struct{ *Workspace }

// Backup keeps a state that State returned in a file of the cache directory, encrypted as states are, and returns its path. Nothing but the
// caller removes it.
func (w Surgery) Backup(state *statestore.State) (path string, err error) {
	sealed, err := w.engine.options.Encryption.Seal(state.Text)
	if err == nil {
		path = filepath.Join(w.engine.options.CacheDir, w.unique("backup")+".tfstate")
		err = writeFile(path, sealed)
	}
	if err != nil {
		return "", w.failed("keeping a copy of", err)
	}
	return path, nil
}

// unique is a name for something of the workspace that nothing else has.
func (s *session) unique(what string) string {
	return fmt.Sprintf("%s-%s-%d", what, s.name, time.Now().UnixNano())
}

// OpenState returns the text of a state from a file: from one of Backup, from one that a backend stored, or from one in clear text.
func (e *Engine) OpenState(file []byte) []byte {
	if _, text, _, ok := e.options.Encryption.Open(file); ok {
		return text
	}
	return file
}

// Push stores a state in the place of what is stored, or where nothing is. OpenTofu refuses one of another lineage, with a lower serial, or
// with the same one and another content, unless it is forced.
func (w Surgery) Push(ctx context.Context, i opentofu.Installation, text []byte, force bool) error {
	err := w.while(ctx, i, "storing", func() error {
		if err := w.keepEmpty(ctx); err != nil {
			return err
		}
		return w.push(ctx, i, namedPlace, text, fmt.Sprintf("-force=%t", force))
	})
	if err == nil {
		w.disown()
	}
	return err
}

// SetAside gives a workspace whose state nobody can read another name, which is that of no binding or instance, and returns it. It is an
// error when the state can be read, is out of reach, or is where only OpenTofu finds it.
func (w Surgery) SetAside(ctx context.Context, i opentofu.Installation) (name string, err error) {
	err = w.begin(ctx, i)
	if err == nil {
		_, err = w.read(ctx, i)
	}
	switch {
	case err == nil:
		err = errors.New("its state can be read, or there is none")
	case isLocked(err): // it may be fine
	case w.engine.store == nil:
		err = fmt.Errorf("rename it by the means of the backend %s, which OpenTofu does not: %w", w.engine.options.Backend.Type, err)
	default:
		name = w.unique("aside")
		err = w.whileHeld(ctx, func() error { return w.rename(ctx, name) })
	}
	if err != nil {
		return "", w.failed("setting aside", err)
	}
	return name, nil
}

// rename gives the workspace another name, whatever is stored of it. It is an error when the backend is what failed.
func (w Surgery) rename(ctx context.Context, name string) error {
	if w.engine.files != nil {
		return w.engine.files.SetAside(ctx, w.name, name)
	}
	stored, err := w.engine.store.Read(ctx, w.name)
	if err == nil {
		err = w.engine.store.Replace(ctx, name, nil, stored)
	}
	if err == nil {
		err = w.engine.store.Delete(ctx, w.name, stored)
	}
	return err
}

// Exec runs any command of OpenTofu with the template, its variables, providers, backend and encryption, for a person, to whom nothing is
// secret, and tells whether it changed what State told. Unlike all others it does not wait for the lock of the state. It is an error when
// the guard is gone afterwards, or another one.
func (w Surgery) Exec(
	ctx context.Context, p *Prepared, vars map[string]any, terminal opentofu.Terminal, args ...string,
) (changed bool, err error) {
	before := w.last.state
	if err := errors.Join(w.refuse(p.installation), w.keepCopy(ctx)); err != nil {
		return false, w.failed("working on", err)
	}
	w.terminal = &terminal
	_, err = w.run(ctx, p, applyPlace, w.guarded(p, vars), args...)
	w.terminal = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.engine.options.Grace)
	defer cancel()
	after, readErr := w.State(ctx, p.installation)
	switch {
	case readErr != nil:
		return true, errors.Join(err, readErr)
	case after == nil || after.Nonce != before.Nonce:
		return true, errors.Join(err, w.failed("working on", errors.New("its record is gone from the state")))
	default:
		return statestore.Changed(before.Text, after.Text), err
	}
}

// Restore stores a state of a backup, with its lineage, in a workspace that does not exist or is empty, and tells whether it did. It does not
// where the same state is there already, perhaps since an import that was killed left its OpenTofu running; for another one the error is
// ErrExists.
func (w Surgery) Restore(ctx context.Context, i opentofu.Installation, state *statestore.State) (stored bool, err error) {
	err = w.while(ctx, i, "restoring", func() error {
		before, err := w.read(ctx, i)
		switch {
		case err != nil:
			return err
		case before.state != nil && statestore.Same(before.state, state):
			return nil
		case before.state != nil:
			return ErrExists
		}
		err = w.put(ctx, i, before, namedPlace, state.Text)
		switch {
		case errors.Is(err, statestore.ErrChanged):
			return ErrExists
		case err != nil:
			return err
		}
		stored = true
		return w.keepCopy(ctx)
	})
	return stored, err
}
