// Package binding creates and deletes bindings: it resolves the variables of the bind action, runs the bind template through
// OpenTofu, and sees to it that whatever a run created is either returned to the user or can be found and destroyed.
//
// A binding is one OpenTofu workspace. Before any resource exists, the workspace is reserved with a record of everything that
// is needed to finish or undo the binding; an output tells a finished binding from an interrupted one.
package binding

import (
	"context"
	"errors"
	"fmt"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// Binder creates and deletes bindings. It holds no state between calls.
type Binder struct{ *lifecycle.Manager }

// Request is a create-binding or delete-binding call.
type Request struct {
	// Pak is that of the service. In a deletion it is any pak: its OpenTofu reads the state, which tells the rest.
	Pak *brokerpak.Pak
	// Service may be nil in a deletion, which needs it only to adopt a binding, as it does the ids and the defaults.
	Service *brokerpak.Service
	// Plan is the plan with the properties that the instance's record keeps.
	Plan      brokerpak.Plan
	ServiceID string
	PlanID    string
	BindingID string
	// Instance may be nil in a deletion, which then uses the recorded inputs as they are.
	Instance    *instance.View
	Environment vars.Environment
	// Defaults are the operator's for the bind action.
	Defaults map[string]any
	// Body is the whole request, Parameters its parameters.
	Body       map[string]any
	Parameters map[string]any

	// Found, which may be nil, is told what is stored of a binding that is to be deleted.
	Found func(lifecycle.Entry)

	// past is the record of a binding whose inputs are computed again.
	past *lifecycle.Record
}

// Binding is what the user gets. Its JSON is the broker's.
type Binding struct {
	Credentials     map[string]any `json:"credentials,omitempty"`
	SyslogDrainURL  string         `json:"syslog_drain_url,omitempty"`
	RouteServiceURL string         `json:"route_service_url,omitempty"`
	BackupAgentURL  string         `json:"backup_agent_url,omitempty"`
}

// The outputs that are fields of the binding instead of credentials.
const (
	syslogDrainURL  = "syslog_drain_url"
	routeServiceURL = "route_service_url"
	backupAgentURL  = "backup_agent_url"
)

var errNoID = errors.New("the request has no binding_id")

// Create makes a binding. The error is fault.ErrNotImplemented when the service has no bind section, fault.ErrBindingExists when a complete
// binding of this id exists, fault.ErrAppGUIDMissing when the service wants an app, or a *fault.UserError.
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

// Resolve returns the variables of a bind request. It fails as Create would and runs nothing.
func (r *Request) Resolve() (*vars.Scope, error) {
	_, scope, err := r.resolve()
	return scope, err
}

// resolve checks the request and computes the variables; it returns the instance's outputs as well.
func (r *Request) resolve() (map[string]any, *vars.Scope, error) {
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
	details, scope, err := r.variables()
	if err != nil {
		return nil, nil, err
	}
	if err := scope.Require("bind.requires", action.Requires); err != nil {
		return nil, nil, err
	}
	return details, scope, nil
}

// variables computes the variables; it returns the instance's outputs as well.
func (r *Request) variables() (map[string]any, *vars.Scope, error) {
	details, err := r.Instance.Details(r.Service, r.Environment)
	if err != nil {
		return nil, nil, err
	}
	scope := r.scope(details, nil)
	bind := vars.Bind{Service: r.Service, Plan: r.Plan, Defaults: r.Defaults, Parameters: r.Parameters}
	if err := bind.Resolve(scope); err != nil {
		return nil, nil, err
	}
	return details, scope, nil
}

// backupAgent answers a request for a backup agent from the instance's outputs; no template runs.
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

// newBinding makes credentials of the instance's outputs overlaid with the binding's.
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
