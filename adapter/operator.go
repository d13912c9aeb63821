package adapter

import (
	"cmp"
	"context"
	"log/slog"
	"strings"

	"service-adapter/binding"
	"service-adapter/internal/lifecycle"
)

// Operator is what operators do with stored bindings and instances, besides what the broker asks for.
type Operator struct {
	*lifecycle.Manager
	session *session
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
	session := newSession(invocation, strings.TrimPrefix(command, "service-adapter "))
	err := session.open()
	if err != nil {
		return nil, err
	}
	if session.config.LogLevel == "info" {
		session.logger = newLogger(session.Stderr, session.secrets, slog.LevelWarn) // the commands tell themselves what they did
	}
	for _, name := range []string{"USER", "LOGNAME", "SUDO_USER"} {
		if user, ok := session.Getenv(name); ok && user != "" {
			session.user = user
		}
	}
	session.config.CacheDir = cmp.Or(options.CacheDir, session.config.CacheDir)
	session.acceptUnencrypted, session.instanceLimit = options.AcceptUnencrypted, session.config.ErrandLimit
	if !options.NewState {
		err = session.config.backend().CheckUsed()
	}
	var manager *lifecycle.Manager
	if err == nil {
		manager, err = session.manager(nil) // has what all paks ask for; what one of them lacks is only a warning
	}
	if err != nil {
		session.close()
		return nil, err
	}
	manager.Audit = auditor{session}.change
	return &Operator{Manager: manager, session: session}, nil
}

// Services are the names of all services of the paks.
func (o *Operator) Services() []string { return o.session.serviceNames() }

// Close releases what the operator holds.
func (o *Operator) Close() { o.session.close() }

// Encrypts tells whether the configuration has a key for states.
func (o *Operator) Encrypts() bool { return o.session.config.State.Encryption != nil }

// IsLocal tells whether states are kept on this machine.
func (o *Operator) IsLocal() bool { return o.session.config.State.Type == localBackend }

// DeleteBinding deletes a binding as the broker does, with the inputs that it was made with. The error is lifecycle.ErrNotStored when
// there is none. It is an error when the binding is in another condition than only, unless that is empty.
func (o *Operator) DeleteBinding(ctx context.Context, id string, only ...lifecycle.Condition) error {
	binder := &binding.Binder{Manager: o.Manager}
	return binder.DeleteStored(ctx, id, only...)
}
