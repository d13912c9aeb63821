package lifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
)

// Surgery is what people do with states where nothing else helps.
type Surgery struct{ *Manager }

// PushState stores the content of a file as the state of a binding or instance, which need not exist: a state in clear text, or a copy that
// this package kept. It refuses what is none of this binding or instance, and, unless it is forced, what does not follow the stored state.
// It returns the path of a copy of what was stored before; "" when there was nothing.
func (m Surgery) PushState(ctx context.Context, kind Kind, id string, file []byte, force bool) (backup string, err error) {
	name := workspaceOf(kind, id)
	err = m.onWorkspace(ctx, name, func(ctx context.Context, space *tofu.Workspace, reader opentofu.Installation) error {
		text := m.Engine.OpenState(file)
		state, err := statestore.Parse(text)
		if err != nil || state == nil {
			return cmp.Or(err, errors.New("the file holds no state"))
		}
		record, err := DecodeRecord(state.Record)
		switch {
		case err != nil:
			return err
		case state.Nonce == "" || Workspace(record.Of()) != name:
			return errors.New("it is the state of another binding or instance")
		case opentofu.Older(reader.Version, state.TofuVersion):
			return fmt.Errorf("%w: by %s, and this is %s", tofu.ErrNewerState, state.TofuVersion, reader.Version)
		}
		before, err := space.State(ctx, reader)
		if err == nil && before != nil {
			backup, err = tofu.Surgery{Workspace: space}.Backup(before)
		}
		if err != nil {
			return err
		}
		return tofu.Surgery{Workspace: space}.Push(ctx, reader, text, force)
	})
	return backup, err
}

// ExecState runs a command of OpenTofu in the workspace of a binding or instance, with the template and the inputs that it was made with.
// It returns the path of a copy of the state before; "" when the state did not change.
func (m Surgery) ExecState(ctx context.Context, kind Kind, id string, terminal opentofu.Terminal, args ...string) (backup string, err error) {
	err = onTemplate(ctx, m.Manager, kind, id, func(ctx context.Context, space *tofu.Workspace, stored *Stored, prepared *tofu.Prepared) error {
		surgery := tofu.Surgery{Workspace: space}
		if backup, err = surgery.Backup(stored.State); err != nil {
			return err
		}
		changed, err := surgery.Exec(ctx, prepared, stored.Record.Inputs, terminal, args...)
		if !changed {
			err, backup = errors.Join(err, os.Remove(backup)), ""
		}
		return err
	})
	return backup, err
}

// SetAside keeps the state of a binding or instance that nobody can read under another name, which it returns, so that nothing is stored of
// the binding or instance any more.
func (m Surgery) SetAside(ctx context.Context, kind Kind, id string) (name string, err error) {
	err = m.onWorkspace(ctx, workspaceOf(kind, id), func(ctx context.Context, space *tofu.Workspace, reader opentofu.Installation) (err error) {
		name, err = tofu.Surgery{Workspace: space}.SetAside(ctx, reader)
		return err
	})
	return name, err
}
