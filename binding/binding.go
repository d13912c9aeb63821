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

// A Binder creates and deletes bindings with the OpenTofu, paks, time limits and logger of its Manager, which must not
// be nil. It has no state between calls. Create and Delete are for the requests of the broker, and DeleteStored and
// DeleteStoredWith for operators.
type Binder struct{ *lifecycle.Manager }

// A Request describes a binding that a Binder creates or deletes: its id, pak, service and plan, the service
// instance, the body of the broker's request, and the values that the operator supplies. All maps may be nil. The
// zero value is only valid for Binder.DeleteStoredWith and Binder.Reevaluate, which then use the recorded inputs and
// evaluate only ephemeral ones again.
//
// Binder.Create requires Pak, Service, Instance and BindingID. A request for a backup agent needs neither BindingID
// nor Pak.
//
// Binder.Delete requires BindingID. DeleteStoredWith, which receives the id as an argument, and Reevaluate ignore it.
// Delete adopts a binding only if the request has a Service, and needs a Pak and an Instance for that. ReportStored,
// if it is not nil, is called by Delete with the entry of the record.
//
// A deletion evaluates ephemeral inputs again, because their values are never stored, and with an Instance also the
// inputs that depend on the instance. An input that depends on the instance and cannot be evaluated keeps its
// recorded value, and the error is logged. An ephemeral input that cannot be evaluated has no value: its variable has
// its default or is null in OpenTofu, but the deletion fails if a provider block may read it. Supplied are the
// operator's texts for ephemeral inputs, by name. With MustEvaluate, a deletion with an Instance fails if an input
// that depends on the instance, or the recorded expression of an ephemeral input, cannot be evaluated.
type Request struct {
	// Pak is the pak of the service. A creation requires it, and so does a deletion that may adopt the binding. For any
	// other deletion it is only preferred for reading the state, which names the pak of the binding, and may be nil.
	Pak *brokerpak.Pak
	// Service is the service of the binding. A creation requires it. A deletion uses it, like Plan and Defaults, to
	// adopt a binding that has no state, and to determine the ephemeral inputs whose expressions are not recorded. It
	// may be nil for a deletion, which then adopts no binding.
	Service *brokerpak.Service
	// Plan is the plan, with the properties that the record of the instance contains.
	Plan brokerpak.Plan
	// ServiceID and PlanID are the ids that expressions read as request.service_id and request.plan_id. The deletion of
	// a stored binding uses the recorded ids instead.
	ServiceID string
	PlanID    string
	// BindingID must not be "" for Create and Delete, except for a request for a backup agent.
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

	// MustEvaluate makes it an error of a deletion with an Instance if an input that depends on the instance, or the
	// recorded expression of an ephemeral input, cannot be evaluated again. Otherwise the error is logged, and the
	// recorded value is used; an ephemeral input has none.
	MustEvaluate bool

	// Supplied are the texts that an operator supplies for ephemeral inputs of a deletion, by name. They may be nil.
	Supplied map[string]string

	// recorded is set if the inputs of an existing binding are evaluated again, and is the record of that binding.
	recorded *lifecycle.StateRecord
}

// A Binding is the response to a create-binding request: the credentials, and the URLs of the syslog drain, the route
// service and the backup agent. Its JSON form is that of the broker. Fields without a value are zero and left out of
// the JSON, so the zero value is an empty JSON object.
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

// Create creates a binding within the budget of the Manager: it applies the bind template in a new OpenTofu workspace,
// whose state contains a record of the binding. It first destroys the resources that an interrupted creation of a
// binding with this id left. After an error the result is nil.
//
// A request for a backup agent, in whose Body bind_resource.backup_agent is true, runs no template and needs neither a
// BindingID nor a bind section; the result then contains only the URL from the instance's outputs. The error is a
// *fault.UserError if there is no URL, and another error if the outputs cannot be evaluated.
//
// For every other request, the error wraps fault.ErrNotImplemented if the service has no bind section,
// fault.ErrBindingExists if another run creates a binding with this id or one is complete, and
// fault.ErrAppGUIDMissing if the service requires an app and the body names none. It is a *fault.UserError if the
// user's parameters, or other values that depend on the request, are not valid. If the template fails and bind.errors
// of the service definition explains the error, the error is a *fault.UserError or wraps fault.ErrBindingExists or
// fault.ErrBindingNotFound; see lifecycle.ExplainError. It is also an error in these cases:
//
//   - The request has no BindingID.
//   - An output of the instance or an input cannot be evaluated, a value does not fit its input, or a required plan
//     property is missing.
//   - A check of bind.requires does not hold or cannot be evaluated.
//   - OpenTofu, its providers or the template cannot be prepared.
//   - The workspace cannot be opened, or its state cannot be read or stored.
//   - The resources of an interrupted creation cannot be destroyed.
//   - OpenTofu fails, or ctx or the budget ends.
//
// After an error of the template, the resources were destroyed or stay recorded for the deletion. The error wraps a
// *lifecycle.LostResourcesError if resources are in no state. If the reservation of the workspace fails, the workspace
// may be reserved all the same, without resources of this call; Delete removes it, and Create can be called again.
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

// Resolve checks a create-binding request and returns a scope whose Values are the inputs of the bind template, by
// name. It does not check BindingID, and neither runs OpenTofu nor reads a state. Service and Instance must be set.
//
// It returns nil and an error that wraps fault.ErrNotImplemented if the service has no bind section, or
// fault.ErrAppGUIDMissing if the service requires an app and the body names none. It returns a *fault.UserError if the
// user's parameters, or other values that depend on the request, are not valid (see vars.Bind.Resolve), and another
// error if an output of the instance or an input cannot be evaluated, if a required plan property is missing, or if
// another value does not fit its input. A check of bind.requires that does not hold is a *fault.UserError or another
// error, as the service definition decides.
func (r *Request) Resolve() (*vars.Scope, error) {
	_, scope, err := r.resolve()
	return scope, err
}

// resolve checks a create-binding request, but not its BindingID, and resolves the inputs of the bind template. It
// returns details, the outputs of the instance, and a scope whose Values are the inputs. Service and Instance must be
// set. See Resolve for the errors; both results are nil after an error.
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

// resolveVariables resolves the inputs of the bind template without checking the parameters against the schema of the
// action and without bind.requires. It returns details, the outputs of the instance, and a scope whose Values are the
// inputs. It returns an error if an output or an expression cannot be evaluated, if a required plan property is
// missing, or if the value of an input is not valid; the latter is a *fault.UserError if the value is the user's or
// depends on the request (see vars.Bind.Resolve). After an error both results are nil. Service and Instance must be
// set.
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

// backupAgent returns a binding that contains only the URL of the backup agent, which is the output backup_agent_url of
// the instance. It runs no template. It returns nil and a *fault.UserError if the instance has no such output, or if
// the output is empty or is not a text. It returns nil and another error if the outputs cannot be evaluated. Service
// and Instance must be set.
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

// newBinding returns a binding from details, the outputs of the instance, and outputs, those of the bind template. The
// credentials are both, and outputs take precedence. The outputs syslog_drain_url, route_service_url and
// backup_agent_url of the bind template become the fields of these names, as text, and are not credentials. An output
// of the instance with one of these names is dropped. The parameters are not changed and may be nil.
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
