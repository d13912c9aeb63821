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

// An Operator executes the commands and errands of operators on the stored bindings and service instances, with the
// configuration, the paks and the state backend of the adapter. Changes are written to the audit log. The embedded
// Manager gives access to the states. Open returns an Operator, and Close must be called at the end; the zero value is
// not usable.
type Operator struct {
	*lifecycle.Manager
	session *session.Session
}

// Options are the options of Open. With the zero value, Open requires a readable pak and, for the state backend
// local, a state directory that an earlier command, such as `service-adapter prepare`, has initialised; it need not
// contain a state. Open uses the configured cache directory, and reading a state in clear text is an error if the
// configuration has a key.
type Options struct {
	// AcceptUnencrypted permits reading states that are not encrypted although the configuration has a key, so that
	// they can be encrypted.
	AcceptUnencrypted bool
	// CacheDir replaces the cache directory of the configuration unless it is "".
	CacheDir string
	// WithoutPaks permits that no pak can be read. States cannot be read then.
	WithoutPaks bool
	// NewState permits a state directory in which no state was ever stored and that prepare has not initialised, for a
	// caller that has just created it. Otherwise such a directory is an error, because it probably is the wrong one.
	NewState bool
}

// errandVariable is the environment variable with the name of the errand that runs the command. The jobs of the errands
// set it. The user in audit events is then the errand, and they are written to standard error at every log level,
// because the errand's output may be their only record.
const errandVariable = "SERVICE_ADAPTER_ERRAND"

// Open loads the configuration, opens the paks, creates the directories of the cache and of a local state, removes
// files of dead runs from the cache, and sets the umask of this process to 077. process supplies the environment, which
// contains the path of the configuration, and the stream for the log. command is the name of the command for the log
// and the audit log, such as "bindings delete"; the prefix "service-adapter " is removed from it. The caller must call
// Close unless Open returns an error.
//
// At the configured log level info, which is the default, only warnings and errors are logged. The user in audit events
// is "errand NAME" if SERVICE_ADAPTER_ERRAND contains the name of an errand, and otherwise the first of SUDO_USER,
// LOGNAME and USER that is not empty. The audit events of an errand are logged at every log level. The time limit of
// work on a service instance is errand_limit of the configuration.
//
// Open returns nil and an error if the configuration is invalid, if no pak can be read, if the state directory of the
// local backend was never used, if a key of the state encryption or a setting of the state backend is invalid, or if a
// directory cannot be created or is not safe to use. Options.WithoutPaks permits that no pak can be read, and
// Options.NewState an unused state directory. If only some paks can be read, Open logs the others, and methods that
// need one of them return an error.
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

// Services returns the sorted names of all services of the readable paks. The result is empty if no pak can be read.
func (o *Operator) Services() []string { return o.session.Catalog.ServiceNames() }

// Plans returns the names of the plans of the service called service, or of all services for "", in no particular
// order and with duplicates. They are the plans of the readable paks and those that the operator adds in the
// configuration or the environment. Invalid plans of the operator are not an error: such a plan is listed with its
// name, which may be "", and all plans of the operator for a service are left out if its environment variable is not
// a JSON array of objects. The result is nil if no readable pak has the service, or if there are no plans.
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

// Owns reports whether a service instance belongs to a service of the readable paks, according to stored, the record in
// its manifest, which must not be nil. The service id in the record must be that of one of these services, or
// brokerServiceID, the id of the service in the broker's catalog, which may differ from the id in the pak. A record
// without a service id belongs to any service. Owns returns false if the readable paks have no services.
func (o *Operator) Owns(stored *record.InstanceRecord, brokerServiceID string) bool {
	return o.session.Catalog.Owns(stored, brokerServiceID)
}

// Close closes the paks that Open opened. The operator must not be used afterwards.
func (o *Operator) Close() { o.session.Close() }

// Encrypts reports whether the configuration sets the encryption of states, so that states are stored encrypted.
func (o *Operator) Encrypts() bool { return o.session.Config.State.Encryption != nil }

// BackendType returns the type of the state backend in the configuration, such as "pg" or "local".
func (o *Operator) BackendType() string { return o.session.Config.State.Type }

// AuditLog returns the configured path of the audit log, and "" if none is configured. The file may not exist yet.
func (o *Operator) AuditLog() string { return o.session.Config.AuditLog }

// UnreadablePaks returns an error for each pak of the configuration that cannot be read, in the order of the
// configuration, and nil if all can be read.
func (o *Operator) UnreadablePaks() []error { return o.session.Catalog.Unreadable }

// IsLocal reports whether the state backend in the configuration is "local", which stores states in a directory of this
// machine.
func (o *Operator) IsLocal() bool { return o.session.Config.State.Type == config.Local }

// IsEmpty reports whether the state backend contains no workspace except "default", neither of this program nor of
// another one. It is empty before its first use and after the loss of all states. IsEmpty returns an error, with a
// result that must not be used, if the OpenTofu of no pak can be prepared, if the workspaces cannot be listed, or if
// ctx ends.
func (o *Operator) IsEmpty(ctx context.Context) (bool, error) {
	reader, err := o.StateReader(ctx, nil)
	if err != nil {
		return false, err
	}
	names, err := o.Engine.Workspaces(ctx, reader)
	return len(names) == 0, err
}

// Metrics returns the metrics of bindings, instances, locks, paks, certificates and commands in the text format of
// OpenMetrics. It asks the Director of fleet for the certificates of instances; with a nil fleet, only certificates in
// states are considered. If no pak can be read, the metrics of states, locks and certificates are missing.
//
// Metrics is not read-only: like lifecycle.Manager.Walk, it may delete empty workspaces and restore incomplete local
// states, and it waits for a run that holds the lock of one of these.
//
// Metrics returns "" and an error if the readable paks have no usable OpenTofu, if the states or the locks cannot be
// listed, if the audit log or its counts cannot be read, or if ctx ends. A single unreadable state and a failed request
// to the Director are not errors but are counted.
func (o *Operator) Metrics(ctx context.Context, fleet *certificates.Fleet) (string, error) {
	return metrics.Text(ctx, o.Manager, metrics.Sources{
		UnreadablePaks: len(o.session.Catalog.Unreadable), AuditLog: o.session.Config.AuditLog, Fleet: fleet,
	})
}
