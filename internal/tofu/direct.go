package tofu

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"service-adapter/internal/opentofu"

	"service-adapter/internal/statestore"
)

// Of the backends local and pg the engine knows where a state is stored, how it is encrypted and which lock guards it. So it reads a
// state, makes a reservation and removes a workspace itself, under OpenTofu's lock, in a millisecond where OpenTofu needs thirty to
// start. Whatever is not as expected is left to OpenTofu, which reports it; so is all of the other backends.

// mostChanges is how often in a row somebody else may change a state right before we do. More often than that it is not somebody: the
// database does something else than it is told.
const mostChanges = 10

// found is what a look at the stored state finds.
type found struct {
	text  []byte            // the state; OpenTofu tells another version in it, and other spaces, than those that are stored
	state *statestore.State // nil when there is none or it holds nothing
	key   string            // the id of the key that encrypts it, "" without one
	// stored is what the backend stores, nil when there is nothing. It is known when direct is true: OpenTofu was not asked.
	stored []byte
	direct bool
	absent bool // it is known without OpenTofu that there is none
}

// newStore returns the store of a backend, nil where OpenTofu has to be asked. OpenTofu's environment may say more about pg than the
// configuration does.
func newStore(b Backend, files *statestore.Files, env map[string]string) statestore.Store {
	if files != nil {
		return files
	}
	if b.Type != pgType {
		return nil
	}
	for name := range env {
		if strings.HasPrefix(name, "PG") {
			return nil
		}
	}
	var config statestore.PostgresConfig
	texts := map[string]*string{"conn_str": &config.ConnStr, "schema_name": &config.Schema, "table_name": &config.Table}
	others := []string{"index_name", "skip_schema_creation", "skip_table_creation", "skip_index_creation"}
	for name, v := range b.Config {
		text, _ := v.(string)
		switch place := texts[name]; {
		case place != nil && text != "":
			*place = text
		case place != nil || !slices.Contains(others, name):
			return nil
		}
	}
	store, err := statestore.Postgres(config)
	if err != nil {
		return nil
	}
	return store
}

// knows tells whether states of this OpenTofu are read and written without it. What a version that nobody tested stores, and how it
// locks it, only that version knows.
func (e *Engine) knows(i opentofu.Installation) bool { return !e.options.OnlyOpenTofu && i.Tested() }

// see reads the stored state without OpenTofu; false where only OpenTofu can read it or tell what is wrong with it. OpenTofu's
// "state pull" does no more: it takes no lock and knows no more than what is stored. It is an error when a local state is not whole.
func (w *Workspace) see(ctx context.Context, i opentofu.Installation) (found, bool, error) {
	if w.store == nil || !w.engine.knows(i) {
		return found{}, false, nil
	}
	stored, err := w.store.Read(ctx, w.name)
	switch {
	case unreadable(err):
		return found{}, false, err
	case err != nil:
		w.distrust(ctx, err)
		return found{}, false, nil
	case len(stored) == 0:
		return found{direct: true}, true, nil
	}
	text, key, ok := w.engine.options.Encryption.Open(stored)
	if !ok {
		return found{}, false, nil
	}
	state, err := statestore.Parse(text)
	if err != nil {
		return found{}, false, nil //nolint:nilerr // OpenTofu tells what is wrong with it
	}
	return found{text: text, state: state, key: key, stored: stored, direct: true}, true, nil
}

// distrust leaves the rest of the work on this workspace to OpenTofu, whose errors everybody knows.
func (w *Workspace) distrust(ctx context.Context, err error) {
	if ctx.Err() == nil {
		w.engine.logger.Debug("leaving the state to OpenTofu", "workspace", w.name, "error", w.mask.Clean(err.Error()))
		w.store = nil
	}
}

// replace puts a state in the place of the one that was found. The error is statestore.ErrChanged when that changed since, and
// statestore.ErrUnsupported where OpenTofu has to do it. After another error nobody knows what is stored.
func (w *Workspace) replace(ctx context.Context, before found, text []byte) error {
	sealed, err := w.engine.options.Encryption.Seal(text)
	if err != nil {
		return err
	}
	return w.whileHeld(ctx, func() error { return w.store.Replace(ctx, w.name, before.stored, sealed) })
}

// erase deletes the workspace when it still holds what was found; the errors are those of replace.
func (w *Workspace) erase(ctx context.Context, before found) error {
	return w.whileHeld(ctx, func() error { return w.store.Delete(ctx, w.name, before.stored) })
}

// whileHeld tries something again as long as somebody else holds the lock of the state.
func (w *Workspace) whileHeld(ctx context.Context, try func() error) error {
	end := patience(ctx)
	for pause := shortestPause; ; pause = min(2*pause, longestPause) {
		err := try()
		var held *statestore.HeldError
		if !errors.As(err, &held) {
			return err
		}
		locked := &LockError{Workspace: w.name, HeldError: *held}
		if time.Now().After(end) {
			return locked
		}
		w.tellWaiting(locked)
		select {
		case <-ctx.Done():
			locked.cause = opentofu.Ended(ctx)
			return locked
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// reserveDirectly makes the reservation without OpenTofu. It is not done where OpenTofu has to do it, which with the same nonce does
// no harm when it was done after all.
func (w *Workspace) reserveDirectly(ctx context.Context, i opentofu.Installation, record []byte, nonce string) (done bool, err error) {
	for range mostChanges {
		before, ok, err := w.see(ctx, i)
		switch {
		case err != nil:
			return true, err
		case !ok:
			return false, nil
		case before.state != nil && before.state.Nonce == nonce:
			return true, nil // An earlier try was stored although it failed.
		case before.state != nil && before.state.Nonce != "":
			return true, ErrExists
		case before.state != nil:
			return false, nil // It lost its guard; OpenTofu adds one.
		}
		text, err := statestore.Reservation(before.text, i.Version, record, nonce)
		if err != nil {
			return true, err
		}
		err = w.replace(ctx, before, text)
		var held *LockError
		switch {
		case err == nil:
			return true, nil
		case errors.As(err, &held):
			return true, err
		case errors.Is(err, statestore.ErrChanged):
			continue
		default:
			w.distrust(ctx, err)
			return false, nil
		}
	}
	w.distrust(ctx, statestore.ErrChanged)
	return false, nil
}
