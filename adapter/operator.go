package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"service-adapter/binding"
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
	// CacheDir is used instead of the configuration's; "" means the latter.
	CacheDir string
	// NewState is for a state directory that the caller made: it is no mistake that nothing was ever stored there.
	NewState bool
}

// OpenOperator loads the configuration and the paks. The caller must Close it.
func OpenOperator(invocation Invocation, command string, options OperatorOptions) (*Operator, error) {
	invocation.Args = []string{"service-adapter", command}
	call := newCall(invocation)
	session, err := newSession(call)
	if err != nil {
		return nil, err
	}
	if session.config.LogLevel == "info" {
		session.logger = newLogger(call.stderr, slog.LevelWarn) // the commands tell themselves what they did
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
	if options.CacheDir != "" {
		s.config.CacheDir = options.CacheDir
	}
	s.acceptUnencrypted = options.AcceptUnencrypted
	if !options.NewState {
		if err := s.config.backend().CheckUsed(); err != nil {
			return nil, err
		}
	}
	return s.manager(nil)
}

// Services are the names of all services of the paks.
func (o *Operator) Services() []string { return o.session.serviceNames() }

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

// Encrypts tells whether the configuration has a key for states.
func (o *Operator) Encrypts() bool { return o.session.config.State.Encryption != nil }

// DeleteBinding deletes a binding as the broker does, with the inputs that it was made with. The error is lifecycle.ErrNotStored when
// there is none. It is an error when the binding is in another condition than only, unless that is empty.
func (o *Operator) DeleteBinding(ctx context.Context, id string, only ...lifecycle.Condition) error {
	binder := o.session.bareBinder()
	binder.Manager = o.manager
	err := binder.Delete(ctx, binding.Request{BindingID: id, Only: only})
	switch {
	case errors.Is(err, lifecycle.ErrNotStored):
		return o.deleteNamed(ctx, id, err, only)
	case errors.Is(err, fault.ErrBindingNotFound):
		return nil // its state is gone, and what it was about was gone before
	default:
		return err
	}
}

// deleteNamed deletes a binding that the name of its workspace was given for; missing is the error when it was not.
func (o *Operator) deleteNamed(ctx context.Context, name string, missing error, only []lifecycle.Condition) error {
	stored, err := o.manager.Look(ctx, lifecycle.Binding, name)
	switch {
	case errors.Is(err, lifecycle.ErrNotStored):
		return missing
	case err != nil:
		return err
	case stored.Record == nil:
		return errors.New(stored.Error)
	case stored.ID == name:
		return missing // it was made since
	default:
		return o.DeleteBinding(ctx, stored.ID, only...)
	}
}

// ErrInUse says that an instance has bindings.
var ErrInUse = errors.New("it has bindings")

// DestroyInstance destroys what the provision template of an instance without bindings made. The error is ErrInUse when it has some,
// and lifecycle.ErrNotStored when there is no such instance.
func (o *Operator) DestroyInstance(ctx context.Context, id string) error {
	all, err := o.List(ctx, lifecycle.Binding, nil)
	if err != nil {
		return err
	}
	for _, stored := range all {
		if stored.InstanceID == id {
			return fmt.Errorf("%w, such as %s; delete them first", ErrInUse, stored.ID)
		}
	}
	return o.DestroyInstanceOnly(ctx, id)
}

// DestroyInstanceOnly is DestroyInstance for a caller who has seen to the instance's bindings. It is an error when the instance is in
// another condition than only, unless that is empty.
func (o *Operator) DestroyInstanceOnly(ctx context.Context, id string, only ...lifecycle.Condition) error {
	return o.manager.DestroyStored(ctx, lifecycle.Instance, id, only...)
}

// ApplyInstance applies the provision template of an instance once more, with the inputs that it was made with.
func (o *Operator) ApplyInstance(ctx context.Context, id string) error {
	return o.manager.ApplyStored(ctx, lifecycle.Instance, id)
}

// Forget drops what is stored of a binding or instance and lets everything that it made exist. It is an error when it is in another
// condition than only, unless that is empty.
func (o *Operator) Forget(ctx context.Context, kind lifecycle.Kind, id string, only ...lifecycle.Condition) (*lifecycle.Stored, error) {
	return o.manager.Forget(ctx, kind, id, only...)
}

// Unsaved are the workspaces whose states an earlier run could not save and left in the cache directory.
func (o *Operator) Unsaved() ([]string, error) { return o.manager.Engine.Unsaved() }

// Save puts such a state into the backend.
func (o *Operator) Save(ctx context.Context, workspace string) error {
	return o.manager.Save(ctx, workspace)
}

// Unlock releases the lock of a state; lock is its id, "" for whichever there is.
func (o *Operator) Unlock(ctx context.Context, kind lifecycle.Kind, id, lock string) error {
	return o.manager.Unlock(ctx, kind, id, lock)
}

// Current tells of what List or Look read whether Upgrade would have nothing to do.
func (o *Operator) Current(stored *lifecycle.Stored) bool { return o.manager.Current(stored) }

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
	return o.manager.Workspaces(ctx, "")
}
