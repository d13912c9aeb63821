// Package binding creates and deletes bindings. It resolves the inputs of the bind action and runs OpenTofu with the
// bind template. It guarantees that every resource created by OpenTofu is either returned to the user as a binding,
// or recorded so that it can be found and destroyed.
//
// Each binding has one OpenTofu workspace. Before OpenTofu creates a resource, the workspace is reserved with a
// record of all data that is needed to finish or undo the binding. A mark in the state distinguishes a complete
// binding from an interrupted one.
package binding

import (
	"context"
	"errors"
	"fmt"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/schemas"
)

// A Binder creates and deletes bindings. It has no state between calls. The Manager must not be nil; see its fields.
type Binder struct{ *lifecycle.Manager }

// A Request is a create-binding or delete-binding request of the broker.
type Request struct {
	// Pak is the pak of the service. A creation requires it. For a deletion it is only preferred for reading the state,
	// which names the pak of the binding; it may be nil.
	Pak *brokerpak.Pak
	// Service is the service of the binding. A creation requires it. For a deletion it is used, like Plan, ServiceID,
	// PlanID and Defaults, only to adopt a binding that has no state; it may be nil, and then no binding is adopted.
	Service *brokerpak.Service
	// Plan is the plan, with the properties that the record of the instance contains.
	Plan      brokerpak.Plan
	ServiceID string
	PlanID    string
	// BindingID must not be "", except for a request for a backup agent.
	BindingID string
	// Instance is the service instance. A creation requires it, and so does a deletion that may adopt a binding. It may
	// be nil for any other deletion, which then uses the recorded inputs and evaluates only ephemeral ones again.
	Instance *instance.View
	// Environment is what expressions may read of the adapter's environment and configuration. It may be empty.
	Environment vars.Environment
	// Defaults are the operator's default values for the inputs of the bind action. They may be nil.
	Defaults map[string]any
	// Body is the body of the request, and Parameters are the parameters in it. Both may be nil.
	Body       map[string]any
	Parameters map[string]any

	// ReportStored, if it is not nil, is called by Delete with the part of the stored entry that the record contains,
	// before the resources of the binding are destroyed. It may be called more than once.
	ReportStored func(lifecycle.Entry)

	// MustEvaluate makes it an error of a deletion if an input that depends on the instance cannot be evaluated again.
	// Otherwise the error is logged, and the recorded value is used.
	MustEvaluate bool

	// Supplied are the texts that an operator supplies for ephemeral inputs of a deletion, by name. They may be nil.
	Supplied map[string]string

	// recorded is set if the inputs of an existing binding are evaluated again, and is the record of that binding.
	recorded *lifecycle.StateRecord
}

// A Binding is the response to a create-binding request. Its JSON form is that of the broker. Fields without a value
// are zero and left out of the JSON.
type Binding struct {
	Credentials     map[string]any `json:"credentials,omitempty"`
	SyslogDrainURL  string         `json:"syslog_drain_url,omitempty"`
	RouteServiceURL string         `json:"route_service_url,omitempty"`
	BackupAgentURL  string         `json:"backup_agent_url,omitempty"`
}

// The outputs of the bind template that are fields of a Binding and not credentials.
const (
	syslogDrainURL  = "syslog_drain_url"
	routeServiceURL = "route_service_url"
	backupAgentURL  = "backup_agent_url"
)

// errNoID means that the broker sent no binding id.
var errNoID = errors.New("the request has no binding_id")

// Create creates a binding within the budget of the Manager. It first destroys what an interrupted creation of a
// binding with this id left. A request for a backup agent runs no template and needs no BindingID; the result then
// contains only the URL from the instance's outputs, and the error is a *fault.UserError if there is none.
//
// The error wraps fault.ErrNotImplemented if the service has no bind section, fault.ErrBindingExists if another run
// creates a binding with this id or one is complete, and fault.ErrAppGUIDMissing if the service requires an app. It is
// a *fault.UserError if the user's parameters are not valid. If the template fails and bind.errors of the service
// definition explains the error, the error is a *fault.UserError or wraps fault.ErrBindingExists or
// fault.ErrBindingNotFound; see lifecycle.ExplainError. It is also an error if the request has no BindingID, if an
// input, an output of the instance or a check of bind.requires fails, if OpenTofu or its providers cannot be found, or
// if the workspace cannot be opened or its state cannot be stored.
//
// After an error of the template, the resources were destroyed or stay recorded for the deletion. The error wraps a
// *lifecycle.LostResourcesError if resources are in no state.
func (b *Binder) Create(ctx context.Context, r Request) (*Binding, error) {
	if backup, _ := bindResource(r.Body)["backup_agent"].(bool); backup {
		return r.backupAgent()
	}
	if r.BindingID == "" {
		return nil, errNoID
	}
	details, scope, err := r.resolve()
	if err != nil {
		return nil, err
	}
	outputs, err := b.create(ctx, &r, scope)
	if err != nil {
		return nil, err
	}
	return newBinding(details, outputs), nil
}

// Resolve returns the resolved inputs of a create-binding request, in a scope. It checks the request, but not its
// BindingID, and returns the errors that Create returns before it runs OpenTofu. It neither reads nor changes a state.
func (r *Request) Resolve() (*vars.Scope, error) {
	_, scope, err := r.resolve()
	return scope, err
}

// resolve checks the request, but not its BindingID, and resolves the inputs. It returns details, the outputs of the
// instance, and the scope with the inputs. The errors are those of Create that precede a run of OpenTofu. After an
// error both are nil.
func (r *Request) resolve() (details map[string]any, scope *vars.Scope, err error) {
	if !r.Service.Binds() {
		return nil, nil, fmt.Errorf("service %q has no bind section: %w", r.Service.Name, fault.ErrNotImplemented)
	}
	action := &r.Service.Bind
	if action.RequiresAppGUID && record.OwnerOf(r.Body).App == "" {
		return nil, nil, fault.ErrAppGUIDMissing
	}
	if err := schemas.CheckParameters(action, nil, r.Parameters, false); err != nil {
		return nil, nil, err
	}
	details, scope, err = r.resolveVariables()
	if err != nil {
		return nil, nil, err
	}
	if err := scope.Require("bind.requires", action.Requires); err != nil {
		return nil, nil, err
	}
	return details, scope, nil
}

// resolveVariables resolves the inputs without the checks of resolve. It returns details, the outputs of the instance,
// and the scope with the inputs. It returns an error if an output or an expression cannot be evaluated, or if the value
// of an input is not valid; that error is a *fault.UserError if the value is the user's. After an error both results
// are nil.
func (r *Request) resolveVariables() (details map[string]any, scope *vars.Scope, err error) {
	details, err = r.Instance.Details(r.Service, r.Environment)
	if err != nil {
		return nil, nil, err
	}
	scope = r.scope(details, nil)
	bind := vars.Bind{Service: r.Service, Plan: r.Plan, Defaults: r.Defaults, Parameters: r.Parameters}
	if err := bind.Resolve(scope); err != nil {
		return nil, nil, err
	}
	return details, scope, nil
}

// backupAgent returns a binding with the URL of the backup agent, which is an output of the instance. The error is a
// *fault.UserError if the instance has no such output, and another error if the outputs cannot be read.
func (r *Request) backupAgent() (*Binding, error) {
	details, err := r.Instance.Details(r.Service, r.Environment)
	if err != nil {
		return nil, err
	}
	url, _ := details[backupAgentURL].(string)
	if url == "" {
		return nil, fault.Userf("service %q has no backup agent", r.Service.Name)
	}
	return &Binding{BackupAgentURL: url}, nil
}

// newBinding returns a binding. Its credentials are details, the outputs of the instance, overridden by outputs, those
// of the bind template. The other fields have their values only from outputs. Their names are removed from the
// credentials, so an output of the instance with such a name is dropped.
func newBinding(details, outputs map[string]any) *Binding {
	credentials := value.Merge(details, outputs)
	result := &Binding{
		Credentials:    credentials,
		SyslogDrainURL: value.Text(outputs[syslogDrainURL]), RouteServiceURL: value.Text(outputs[routeServiceURL]),
		BackupAgentURL: value.Text(outputs[backupAgentURL]),
	}
	for _, name := range []string{syslogDrainURL, routeServiceURL, backupAgentURL} {
		delete(credentials, name)
	}
	return result
}
