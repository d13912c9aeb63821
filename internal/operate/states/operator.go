// Package states executes the commands and errands of operators on the states of bindings and service instances: it
// opens the state backend with the configuration and the paks of the adapter, applies the intent of an errand, and
// deletes bindings.
package states

import (
	"cmp"
	"context"
	"log/slog"
	"strings"

	"service-adapter/adapter/config"
	"service-adapter/adapter/session"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/certificates"
	"service-adapter/internal/operate/metrics"
	"service-adapter/internal/record"
)

// An Operator executes the commands and errands of operators on stored bindings and instances, with the configuration
// and the paks of the adapter. Changes are written to the audit log. Open returns one, and Close must be called at the
// end.
type Operator struct {
	*lifecycle.Manager
	session *session.Session
}

// Options are the options of Open. With the zero value, Open requires a readable pak and a local state directory in
// which a state was stored before, uses the configured cache directory, and states in clear text are an error if the
// configuration has a key.
type Options struct {
	// AcceptUnencrypted permits reading states that are not encrypted although the configuration has a key, so that
	// they can be encrypted.
	AcceptUnencrypted bool
	// CacheDir replaces the cache directory of the configuration unless it is "".
	CacheDir string
	// WithoutPaks permits that no pak can be read. States cannot be read then.
	WithoutPaks bool
	// NewState permits a state directory in which no state was ever stored, for a caller that has just created it.
	// Otherwise such a directory is an error, because it probably is the wrong one.
	NewState bool
}

// errandVariable is the environment variable with the name of the errand that runs the command. The jobs of the errands
// set it. The user in audit events is then the errand, and they are written to standard error at every log level,
// because the errand's output may be their only record.
const errandVariable = "SERVICE_ADAPTER_ERRAND"

// Open loads the configuration, opens the paks and creates the directories of the cache and the state. command is the
// name of the command for the log and the audit log. Open returns an error if the configuration is invalid, if no pak
// can be read, if no state was ever stored in the local backend, or if the manager cannot be created; see Options for
// the exceptions and session.Session.Manager for the last. At the configured log level info, which is the default, only
// warnings and errors are logged. Open only logs paks that cannot be read if another one is readable; methods that need
// the unreadable pak return an error. The caller must call Close unless Open returns an error.
func Open(process session.Process, command string, options Options) (*Operator, error) {
	opened := session.New(process, strings.TrimPrefix(command, "service-adapter "))
	opened.Tolerant, opened.WithoutPaks = true, options.WithoutPaks
	err := opened.Open()
	if err != nil {
		return nil, err
	}
	if opened.Config.LogLevel == "info" {
		opened.Logger = opened.Journal.Logger(slog.LevelWarn) // the commands report their actions themselves
	}
	for _, name := range []string{"USER", "LOGNAME", "SUDO_USER"} {
		if user, ok := opened.Getenv(name); ok && user != "" {
			opened.User = user
		}
	}
	if errand, _ := opened.Getenv(errandVariable); errand != "" {
		opened.User, opened.AuditLogger = "errand "+errand, opened.Journal.Logger(slog.LevelInfo)
	}
	opened.Config.CacheDir = cmp.Or(options.CacheDir, opened.Config.CacheDir)
	opened.AcceptUnencrypted, opened.InstanceLimit = options.AcceptUnencrypted, opened.Config.ErrandLimit
	if !options.NewState {
		err = opened.Config.Backend().CheckExists()
	}
	var manager *lifecycle.Manager
	if err == nil {
		manager, err = opened.Manager(nil) // nil: no pak requires its environment variables
	}
	if err != nil {
		opened.Close()
		return nil, err
	}
	manager.Audit = opened.Audited
	operator := &Operator{Manager: manager, session: opened}
	manager.Reevaluate = operator.reevaluate
	return operator, nil
}

// Services returns the sorted names of all services of the readable paks.
func (o *Operator) Services() []string { return o.session.Catalog.ServiceNames() }

// Plans returns the names of the plans of a service, or of all services for "", in no particular order and with
// duplicates. They are the plans of the readable paks and those that the operator adds. Plans of the operator that
// cannot be read are left out.
func (o *Operator) Plans(service string) []string {
	catalog := &o.session.Catalog
	var names []string
	for _, pak := range catalog.Paks {
		for _, candidate := range pak.Services {
			if service != "" && candidate.Name != service {
				continue
			}
			names = append(names, candidate.PlanNames()...)
			added, _ := catalog.OperatorPlans(candidate) // the commands that choose a plan report the error
			for _, plan := range added {
				names = append(names, plan.Name)
			}
		}
	}
	return names
}

// Owns reports whether an instance with this record belongs to a service of the readable paks. brokerServiceID is the
// id of the service in the broker's catalog, which may differ from the id in the pak. A record without the id of a
// service belongs to any service.
func (o *Operator) Owns(stored *record.InstanceRecord, brokerServiceID string) bool {
	return o.session.Catalog.Owns(stored, brokerServiceID)
}

// Close closes the paks and releases what Open opened. The operator must not be used afterwards.
func (o *Operator) Close() { o.session.Close() }

// Encrypts reports whether the configuration has a key for the encryption of states.
func (o *Operator) Encrypts() bool { return o.session.Config.State.Encryption != nil }

// BackendType returns the type of the state backend in the configuration, such as "pg" or "local".
func (o *Operator) BackendType() string { return o.session.Config.State.Type }

// AuditLog returns the path of the audit log, and "" if none is configured.
func (o *Operator) AuditLog() string { return o.session.Config.AuditLog }

// UnreadablePaks returns an error for each pak of the configuration that cannot be read, in the order of the
// configuration, and nil if all can be read.
func (o *Operator) UnreadablePaks() []error { return o.session.Catalog.Unreadable }

// IsLocal reports whether states are stored on this machine, in the backend local.
func (o *Operator) IsLocal() bool { return o.session.Config.State.Type == config.Local }

// IsEmpty reports whether the state backend contains no workspace, neither of this program nor of another one. It is
// empty before its first use and after the loss of all states. If the backend cannot be read, IsEmpty returns an error,
// and the result must not be used.
func (o *Operator) IsEmpty(ctx context.Context) (bool, error) {
	reader, err := o.StateReader(ctx, nil)
	if err != nil {
		return false, err
	}
	names, err := o.Engine.Workspaces(ctx, reader)
	return len(names) == 0, err
}

// Metrics returns the metrics for monitoring in the text format of OpenMetrics. The Director of fleet is asked for the
// certificates of instances; a nil fleet asks no Director. See metrics.Text for the content and the errors.
func (o *Operator) Metrics(ctx context.Context, fleet *certificates.Fleet) (string, error) {
	return metrics.Text(ctx, o.Manager, metrics.Sources{
		UnreadablePaks: len(o.session.Catalog.Unreadable), AuditLog: o.session.Config.AuditLog, Fleet: fleet,
	})
}
