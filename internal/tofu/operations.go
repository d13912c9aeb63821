package tofu

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/value"
)

// State reads the workspace's state: nil when the workspace does not exist or is empty, and then none exists afterwards.
func (w *Workspace) State(ctx context.Context, i opentofu.Installation) (*statestore.State, error) {
	err := w.while(ctx, i, "reading", func() (err error) {
		w.last, err = w.existing(ctx, i)
		return err
	})
	state := w.last.state
	if err != nil || state == nil {
		return nil, err
	}
	w.record, w.nonce, w.tofu = state.Record, state.Nonce, state.TofuVersion
	w.hide(state)
	return state, nil
}

// Reserve creates the workspace with a guard that holds the record. When the workspace has a guard already, nothing is
// changed and the error is ErrExists.
func (w *Workspace) Reserve(ctx context.Context, i opentofu.Installation, record []byte) error {
	if err := w.refuseOlder(i); err != nil {
		return w.failed("reserving", err)
	}
	return w.while(ctx, i, "reserving", func() error {
		w.last = snapshot{}
		nonce := rand.Text()
		ours, err := w.reserveDirectly(ctx, i, record, nonce)
		if !ours && err == nil {
			ours, err = w.reserve(ctx, i, record, nonce)
		}
		if ours {
			w.record, w.nonce, w.tofu = record, nonce, i.Version
		}
		return err
	})
}

// reserve has OpenTofu make the reservation. It tells whether it was made, with an error as well: the run may be interrupted after all was
// done.
func (w *Workspace) reserve(ctx context.Context, i opentofu.Installation, record []byte, nonce string) (ours bool, err error) {
	vars := map[string]any{recordVariable: string(record), nonceVariable: nonce}
	if err := w.keepEmpty(ctx); err != nil {
		return false, err
	}
	// Only the guard: in a workspace that lost its guard nothing else may be touched.
	_, runErr := w.runBase(ctx, i, reservePlace, vars,
		w.noBackup([]string{"apply", "-json", "-input=false", "-auto-approve", "-target=" + statestore.GuardAddress})...)
	if runErr == nil {
		return true, nil
	}
	// The state, not the text of the error, tells why.
	state, err := w.afterFailure(ctx, i, runErr)
	switch {
	case err != nil:
		return false, errors.Join(runErr, err)
	case state != nil && state.Nonce != "" && state.Nonce != nonce:
		return false, ErrExists
	default:
		return state != nil && state.Nonce == nonce, runErr
	}
}

// afterFailure saves and reads the state after a failed reservation, within the grace even when the context has ended. The
// empty workspace of a reservation that made nothing is removed, unless another run is working on it.
func (w *Workspace) afterFailure(ctx context.Context, i opentofu.Installation, failure error) (*statestore.State, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.engine.options.Grace)
	defer cancel()
	if err := w.pushUnsaved(ctx, i); err != nil {
		return nil, err
	}
	now, err := w.read(ctx, i)
	var held *LockError
	if err != nil || now.state != nil || errors.As(failure, &held) {
		return now.state, err
	}
	return nil, w.delete(ctx, i, now)
}

// Apply applies the template with the guard that Reserve made or State found, and with the record of SetRecord when there is
// one. Of the variables those are passed that the template declares. A failed apply may leave resources; the state tells which.
// When the workspace was reserved by another run meanwhile, nothing is changed and the error is ErrExists. It is a *LostError when it was
// taken over or removed while the apply was under way.
func (w *Workspace) Apply(ctx context.Context, p *Prepared, vars map[string]any) error {
	if w.nonce == "" {
		return w.failed("applying", errors.New("it is not reserved"))
	}
	if err := w.intend(ctx, p, vars); err != nil {
		return err
	}
	err := w.change(ctx, p, "applying", applyPlace, w.guarded(p, vars), "apply", "-json", "-input=false", "-auto-approve")
	if err == nil {
		return w.failed("applying", w.keepCopy(ctx))
	}
	known, whose := w.afterApply(ctx, p.installation)
	if errors.Is(whose, ErrExists) {
		return whose
	}
	var run *opentofu.Error
	switch {
	case !errors.As(err, &run):
	case known:
		run.Hide(w.mask) // once more: the state that was looked at has secrets that the run generated
	case run.Backend == "" && w.lost(nil) != nil:
		run.Withhold("what it said is left out, for it may show secrets that were generated, and the state that marks them cannot be read")
	}
	return errors.Join(err, whose)
}

// look reads whose the workspace is. Another run took it over when the guard is no longer the one that Reserve made, State found or TakeOver
// set. It can happen with pg as well that a machine that stalls while it creates the workspace, between its look at the table and its
// lock, overwrites what others did meanwhile with an empty state; whoever reserves then has the workspace. With an error nobody can tell.
func (w *Workspace) look(ctx context.Context, i opentofu.Installation) (*statestore.State, error) {
	now, err := w.read(ctx, i)
	if err != nil {
		return nil, fmt.Errorf("looking whose workspace %q is: %w", w.name, err)
	}
	w.last = now
	w.hide(now.state)
	return now.state, nil
}

// Destroy destroys everything but the guard, which Remove drops with the workspace: as long as anything exists the record
// tells what made it. The OpenTofu may be newer than the one that applied. When the workspace is another run's by now, nothing is
// destroyed and the error is ErrExists; what State or TakeOver told a moment ago is believed.
func (w *Workspace) Destroy(ctx context.Context, p *Prepared, vars map[string]any) error {
	if w.nonce != "" && w.last.state == nil {
		state, err := w.look(ctx, p.installation)
		if err == nil && state != nil && state.Nonce != "" && state.Nonce != w.nonce {
			err = ErrExists
		}
		if err != nil {
			return w.failed("destroying", err)
		}
	}
	options, err := w.sparing(ctx, p.installation)
	if err != nil || options == nil {
		return err
	}
	args := append([]string{"destroy", "-json", "-input=false", "-auto-approve"}, options...)
	return w.change(ctx, p, "destroying", destroyPlace, p.declared(vars), args...)
}

// BeginDestroy notes in the state that a destroy begins: State.Destroying is true from now on, even when the process is killed before
// OpenTofu has saved anything.
func (w *Workspace) BeginDestroy(ctx context.Context, i opentofu.Installation) error {
	state, err := w.known(ctx, i, "destroying")
	if err != nil || state == nil || !state.Marked {
		return err
	}
	return w.edit(ctx, i, "destroying", "rm", statestore.CompleteAddress)
}

// sparing returns the options that leave the guard out of a destroy, nil when nothing else is there. OpenTofu before 1.9 cannot
// leave it out, so everything else is named to it.
func (w *Workspace) sparing(ctx context.Context, i opentofu.Installation) ([]string, error) {
	exclude := []string{"-exclude=" + statestore.GuardAddress}
	if i.Excludes() && w.tofu != "" {
		if err := w.refuseOlder(i); err != nil {
			return nil, w.failed("destroying", err)
		}
		return exclude, nil
	}
	state, err := w.known(ctx, i, "destroying")
	if err != nil || state == nil {
		return nil, err
	}
	if i.Excludes() {
		return exclude, nil
	}
	targets := value.Each(state.Resources, func(address string) string { return "-target=" + address })
	if state.Marked {
		targets = append(targets, "-target="+statestore.CompleteAddress)
	}
	return targets, nil
}

// change runs a command that changes the state. A state that OpenTofu could not save is tried again at once.
func (w *Workspace) change(ctx context.Context, p *Prepared, doing string, in place, vars map[string]any, args ...string) error {
	return w.while(ctx, p.installation, doing, func() error {
		if err := w.keepCopy(ctx); err != nil {
			return err
		}
		w.last = snapshot{}
		w.mask.AddValues(vars, p.sensitive()...)
		_, err := w.run(ctx, p, in, vars, w.noBackup(args)...)
		if err == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.engine.options.Grace)
		defer cancel()
		return errors.Join(err, w.pushUnsaved(ctx, p.installation))
	})
}

// declared returns the variables that the template declares: null for one that nobody set and that has no default.
func (p *Prepared) declared(vars map[string]any) map[string]any {
	declared := map[string]any{}
	for name, variable := range p.Variables {
		if v, ok := vars[name]; ok || !variable.HasDefault {
			declared[name] = v
		}
	}
	return declared
}

// Outputs returns the values of the template's outputs after a complete apply, sensitive ones too; an output that is null is absent.
// The error is ErrExists when another run reserved the workspace meanwhile, and a *LostError when that left something in no state.
func (w *Workspace) Outputs(ctx context.Context, p *Prepared) (map[string]any, error) {
	nonce := w.nonce
	state, err := w.State(ctx, p.installation)
	if err != nil {
		return nil, err
	}
	if state == nil || state.Nonce != nonce {
		err := w.lost(state)
		switch {
		case err != nil:
		case state != nil:
			err = ErrExists
		default:
			err = errors.New("it does not exist")
		}
		w.disown()
		return nil, w.failed("reading", err)
	}
	if !state.Complete {
		return nil, w.failed("reading", errors.New("its last apply is not stored as complete"))
	}
	return state.Outputs, nil
}

// Remove deletes the workspace when nothing but the guard is in it, else the error is ErrNotEmpty; when the guard is not the one that
// Reserve made, State found or TakeOver set, it is ErrExists. A workspace that does not exist is fine.
func (w *Workspace) Remove(ctx context.Context, i opentofu.Installation) error {
	err := w.while(ctx, i, "removing", func() error { return w.remove(ctx, i) })
	if err == nil {
		w.disown()
	}
	return err
}

// begin checks that the OpenTofu can do what the backend and the encryption need and, before anything else, saves a state that an
// earlier run could not save.
func (w *Workspace) begin(ctx context.Context, i opentofu.Installation) error {
	if err := w.engine.supports(i); err != nil {
		return err
	}
	return w.pushUnsaved(ctx, i)
}

// while begins, works, and says of an error what was being done.
func (w *Workspace) while(ctx context.Context, i opentofu.Installation, doing string, work func() error) error {
	err := w.begin(ctx, i)
	if err == nil {
		err = work()
	}
	return w.failed(doing, err)
}

// disown forgets the guard: it is gone, or another run's.
func (w *Workspace) disown() {
	w.record, w.nonce, w.tofu, w.next, w.last = nil, "", "", nil, snapshot{}
}

// failed tells what was done with the workspace when an error happened, nil when none did.
func (s *session) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	return &workspaceError{doing: doing, name: s.name, err: err}
}

// workspaceError tells what failed with a workspace. Its text is made when it is asked for: a RunError in it may learn of secrets.
type workspaceError struct {
	doing, name string
	err         error
}

func (e *workspaceError) Error() string {
	return fmt.Sprintf("%s workspace %q: %s", e.doing, e.name, e.err)
}

func (e *workspaceError) Unwrap() error { return e.err }

// remove deletes the workspace when it holds nothing but the guard.
func (w *Workspace) remove(ctx context.Context, i opentofu.Installation) error {
	now, err := w.read(ctx, i)
	switch state := now.state; {
	case err != nil:
		return err
	case state == nil:
	case opentofu.Older(i.Version, state.TofuVersion):
		return newerState(state.TofuVersion, i)
	case state.Nonce != "" && state.Nonce != w.nonce:
		return ErrExists
	case len(state.Resources) > 0:
		return fmt.Errorf("%w: it holds %s", ErrNotEmpty, strings.Join(state.Resources, ", "))
	}
	if err = w.delete(ctx, i, now); !errors.Is(err, statestore.ErrChanged) {
		return err
	}
	// Another run changed it. What was ours is gone when it is empty by now.
	if now, err := w.read(ctx, i); err != nil || now.state != nil {
		return errors.Join(ErrExists, err)
	}
	return nil
}

// hide masks from now on what a state holds of secrets: outputs that are, as their names or looks say, and the attributes that the
// template or a provider marks as sensitive, such as a password that was generated.
func (s *session) hide(state *statestore.State) {
	if state == nil {
		return
	}
	s.mask.AddValues(state.Outputs)
	s.mask.Add(state.SensitiveValues())
}
