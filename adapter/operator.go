package adapter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"service-adapter/binding"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
)

// Operator is what operators do with stored bindings and instances, besides what the broker asks for.
type Operator struct {
	session *session
	manager *lifecycle.Manager
}

// OperatorOptions are unusual wishes.
type OperatorOptions struct {
	// AcceptUnencrypted reads states that are not encrypted although the configuration has a key, so that they can be encrypted.
	AcceptUnencrypted bool
}

// OpenOperator loads the configuration and the paks. The caller must Close it.
func OpenOperator(invocation Invocation, command string, options OperatorOptions) (*Operator, error) {
	invocation.Args = []string{"service-adapter", command}
	session, err := newSession(newCall(invocation))
	if err != nil {
		return nil, err
	}
	manager, err := session.operatorManager(options)
	if err != nil {
		session.close()
		return nil, err
	}
	return &Operator{session: session, manager: manager}, nil
}

// operatorManager has what all paks ask for; what one of them lacks is only a warning.
func (s *session) operatorManager(options OperatorOptions) (*lifecycle.Manager, error) {
	s.acceptUnencrypted = options.AcceptUnencrypted
	return s.manager(nil)
}

// Close releases what the operator holds.
func (o *Operator) Close() { o.session.close() }

// List reads all bindings or instances, "" for both, sorted by workspace.
func (o *Operator) List(ctx context.Context, kind lifecycle.Kind, progress lifecycle.Progress) ([]lifecycle.Stored, error) {
	return o.manager.List(ctx, kind, progress)
}

// Look reads one binding or instance. The error is lifecycle.ErrNotStored when there is none.
func (o *Operator) Look(ctx context.Context, kind lifecycle.Kind, id string) (*lifecycle.Stored, error) {
	return o.manager.Look(ctx, kind, id)
}

// DeleteBinding deletes a binding as the broker does, with the inputs that it was made with. The error is lifecycle.ErrNotStored when
// there is none.
func (o *Operator) DeleteBinding(ctx context.Context, id string) error {
	binder := o.session.bareBinder()
	binder.Manager = o.manager
	err := binder.Delete(ctx, binding.Request{BindingID: id, Instance: &instance.View{}, Body: map[string]any{}})
	if errors.Is(err, fault.ErrBindingNotFound) {
		if _, left := o.manager.Look(ctx, lifecycle.Binding, id); errors.Is(left, lifecycle.ErrNotStored) {
			return fmt.Errorf("binding %q: %w", id, lifecycle.ErrNotStored)
		}
	}
	return err
}

// ErrInUse says that an instance has bindings.
var ErrInUse = errors.New("the instance has bindings")

// DestroyInstance destroys what the provision template of an instance made. The error is ErrInUse when it has bindings and force is
// not set, and lifecycle.ErrNotStored when there is none. With force the bindings are deleted first; one that cannot be deleted is
// only logged.
func (o *Operator) DestroyInstance(ctx context.Context, id string, force bool) error {
	bindings, err := o.bindingsOf(ctx, id)
	if err != nil {
		return err
	}
	if len(bindings) > 0 && !force {
		return fmt.Errorf("instance %q: %w: %d, such as %s; delete them first", id, ErrInUse, len(bindings), bindings[0])
	}
	for _, each := range bindings {
		if err := o.DeleteBinding(ctx, each); err != nil && !errors.Is(err, lifecycle.ErrNotStored) {
			o.session.logger.Warn("deleting a binding of the instance", "instance", id, "binding", each, "error", err)
		}
	}
	return o.manager.DestroyStored(ctx, lifecycle.Instance, id)
}

// bindingsOf returns the ids of an instance's bindings.
func (o *Operator) bindingsOf(ctx context.Context, id string) ([]string, error) {
	all, err := o.manager.List(ctx, lifecycle.Binding, nil)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, stored := range all {
		if stored.InstanceID == id {
			ids = append(ids, stored.ID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// ApplyInstance applies the provision template of an instance once more, with the inputs that it was made with.
func (o *Operator) ApplyInstance(ctx context.Context, id string) error {
	return o.manager.ApplyStored(ctx, lifecycle.Instance, id)
}

// Forget drops what is stored of a binding or instance and lets everything that it made exist.
func (o *Operator) Forget(ctx context.Context, kind lifecycle.Kind, id string) (*lifecycle.Stored, error) {
	return o.manager.Forget(ctx, kind, id)
}

// Unlock releases the lock of a state; lock is its id, "" for whichever there is.
func (o *Operator) Unlock(ctx context.Context, kind lifecycle.Kind, id, lock string) error {
	return o.manager.Unlock(ctx, kind, id, lock)
}

// Upgrade upgrades a binding or instance to the OpenTofu of the installed pak that made it.
func (o *Operator) Upgrade(ctx context.Context, kind lifecycle.Kind, id string) (*lifecycle.Upgraded, error) {
	return o.manager.UpgradeStored(ctx, kind, id)
}

// Reencrypt stores a workspace's state with the current key where it is not. It reports whether it did.
func (o *Operator) Reencrypt(ctx context.Context, workspace string) (bool, error) {
	return o.manager.Reencrypt(ctx, workspace)
}

// Workspaces are the names of all bindings' and instances' workspaces, without reading them.
func (o *Operator) Workspaces(ctx context.Context) ([]string, error) {
	reader, err := o.manager.Reader(ctx, nil)
	if err != nil {
		return nil, err
	}
	return o.manager.Engine.Workspaces(ctx, reader)
}
