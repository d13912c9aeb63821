// Package instance gives expressions access to a deployed service instance: to its manifest, the adapter's record in
// the manifest, the values of its secrets, and the addresses of its VMs. It computes the outputs of an instance,
// which bindings use, and the URL of its dashboard.
//
// It also reads instances that another adapter created, whose manifests have no record.
package instance

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A View is a deployed instance, as one request of the broker or an operator describes it: its manifest, the record and
// secrets in the manifest, its addresses, the outputs of a template that an errand applied, and the data that replaces
// a missing record. All fields are optional; the zero value is an instance with an empty manifest.
//
// A View parses the manifest once, so Manifest must not be changed after the first call of a method that reads it. A
// View is not safe for concurrent use.
type View struct {
	// Manifest is the deployed manifest. It may be empty or invalid; then the functions that read it fail.
	Manifest []byte
	// Record is the adapter's record in the manifest, or nil if the manifest has none.
	Record *record.InstanceRecord
	// Secrets maps references, including their parentheses, to values. Nil means that the broker sent no secrets.
	Secrets map[string]string
	// Resolve is set if an operator describes the instance, and is nil if the broker does. It is used instead of
	// Secrets, and returns the value of a reference, which includes its parentheses. Its error must name the reference.
	Resolve func(reference string) (string, error)
	// VMs maps the names of instance groups to the IP addresses of their instances. It is nil if there are none.
	VMs map[string][]string
	// DNS maps the names in the plan's binding_with_dns to DNS addresses. It is nil if there are none.
	DNS map[string]string

	// Applied contains the outputs of a provision template that an errand applied, which are not in the record. It is
	// nil if no errand applied one.
	Applied map[string]any
	// ForeignInstance replaces the record of an instance whose manifest has none. It is not used if Record is set.
	ForeignInstance ForeignInstance

	tree   any  // the parsed manifest
	parsed bool // whether tree is set
}

// Deferred reports whether an expression reads the deployed manifest or BOSH's addresses, so that it cannot be
// evaluated before the deployment. It does if it calls a function manifest.* or bosh.*, or reads the variable bosh.vms
// or bosh.dns. The variable bosh.deployment does not count. template must not be nil.
func Deferred(template *expr.Template) bool {
	for _, call := range template.Calls() {
		if strings.HasPrefix(call.Name, "manifest.") || strings.HasPrefix(call.Name, "bosh.") {
			return true
		}
	}
	for _, reference := range template.References() {
		if strings.HasPrefix(reference.Name, "bosh.vms") || strings.HasPrefix(reference.Name, "bosh.dns") {
			return true
		}
	}
	return false
}

// Constants returns a new map of the variables that describe the BOSH deployment to expressions, by their whole
// names: "bosh.deployment" is the name of the deployment, or "" if it is not known, "bosh.vms" is a map from instance
// groups to lists of IP addresses, and "bosh.dns" is a map from names in binding_with_dns to DNS addresses. Either
// map is empty if the broker sent no such addresses.
func (v *View) Constants() map[string]any {
	vms := map[string]any{}
	for group, addresses := range v.VMs {
		vms[group] = value.Texts(addresses)
	}
	dns := map[string]any{}
	for name, address := range v.DNS {
		dns[name] = address
	}
	return map[string]any{"bosh.deployment": v.Deployment(), "bosh.vms": vms, "bosh.dns": dns}
}

// instancePrefix is the prefix of the instance id in the name of a deployment.
const instancePrefix = "service-instance_"

// Deployment returns the name of the instance's BOSH deployment, such as "service-instance_GUID", from the record or
// else from the key "name" of the manifest. It returns "" if neither contains the name, if the manifest cannot be
// parsed, or if the name in the manifest is a reference without a value.
func (v *View) Deployment() string {
	if v.Record != nil && v.Record.Deployment != "" {
		return v.Record.Deployment
	}
	name, err := v.Get("/name")
	if err != nil {
		return ""
	}
	return value.Text(name)
}

// InstanceID returns the id of the service instance, which is the name of the deployment without the prefix
// "service-instance_". It returns "" if the name of the deployment is not known. A name without the prefix is returned
// unchanged.
func (v *View) InstanceID() string { return ID(v.Deployment()) }

// ID returns the instance id in the name of a BOSH deployment: "GUID" for "service-instance_GUID". A name without that
// prefix is returned unchanged.
func ID(deployment string) string { return strings.TrimPrefix(deployment, instancePrefix) }

// Functions returns the functions by which expressions read the deployed instance, by name. bosh.host returns the IP
// address of the first instance of an instance group, bosh.hosts those of all its instances, and bosh.address the DNS
// address of an entry of binding_with_dns. They fail if the View has no address of that name.
//
// manifest.get returns the value at a go-patch path of the manifest, with references replaced by the values of
// secrets; see Get for its errors. manifest.find has a default as its second argument, which replaces a value whose
// path does not exist or is invalid, and a value with a reference if Secrets and Resolve are nil. It replaces neither
// null in the manifest nor the value of a missing part that the path marks as optional, which is null for a key; see
// GetRaw. manifest.find fails if the manifest is not valid YAML, or if Secrets or Resolve is set and a reference in
// the value has no value.
func (v *View) Functions() map[string]expr.Function {
	return map[string]expr.Function{
		"bosh.host": FunctionOf(expr.String, func(group string) (any, error) {
			hosts, err := v.hosts(group)
			if err != nil {
				return nil, err
			}
			return hosts[0], nil
		}),
		"bosh.hosts": FunctionOf(expr.List, func(group string) (any, error) {
			hosts, err := v.hosts(group)
			return value.Texts(hosts), err
		}),
		"bosh.address": FunctionOf(expr.String, func(name string) (any, error) {
			address, ok := v.DNS[name]
			if !ok && v.Resolve != nil {
				return nil, fmt.Errorf("there is no DNS address %q, only: %s; it must be an entry of binding_with_dns",
					name, diag.Names(value.Keys(v.DNS)))
			}
			if !ok {
				return nil, fmt.Errorf("the broker sent no DNS address %q, only: %s; "+
					"configure binding_with_dns for the plan", name, diag.Names(value.Keys(v.DNS)))
			}
			return address, nil
		}),
		"manifest.find": {
			Args: []expr.Type{expr.String, expr.Any}, Result: expr.Any,
			Call: func(args []any) (any, error) { return v.getOrDefault(value.Text(args[0]), args[1]) },
		},
		"manifest.get": FunctionOf(expr.Any, v.Get),
	}
}

// hosts returns the IP addresses of the instances of an instance group, in the order in which the broker sent them. The
// slice is that of v.VMs, not a copy. hosts returns nil and an error if the group does not exist or has no addresses.
// The error names the groups of v.VMs.
func (v *View) hosts(group string) ([]string, error) {
	if len(v.VMs[group]) == 0 {
		return nil, fmt.Errorf("no VMs for instance group %q; instance groups: %s", group,
			diag.Names(value.Keys(v.VMs)))
	}
	return v.VMs[group], nil
}

// Details returns the outputs of the service's provision action, by name, which are instance.details in bind
// expressions: the outputs of the provision template, and those that provision.bosh declares. The latter have their
// recorded values, which take precedence over template outputs of the same names, also if the definition no longer
// declares the output. A declared output is evaluated, with the current addresses, only if it is Deferred or if
// neither the record nor the template has a value of its name. Texts in declared outputs of provision.bosh are
// converted to the declared types if possible.
//
// The environment provides environment variables and configuration values for the expressions. The caller may modify
// the map, which is not nil unless there is an error.
//
// Details returns nil and an error if an output cannot be evaluated, or if a reference to a sensitive output has no
// value (see TemplateOutputs). If the manifest has no record and provision.bosh declares outputs, it also returns an
// error if the manifest is not valid YAML or a path of carry_over has an invalid syntax.
func (v *View) Details(service *brokerpak.Service, environment vars.Environment) (map[string]any, error) {
	details, err := v.TemplateOutputs()
	if err != nil {
		return nil, err
	}
	if v.Record != nil {
		maps.Copy(details, v.Record.Outputs)
	}
	if service.Provision.Bosh == nil || len(service.Provision.Bosh.Outputs) == 0 {
		return details, nil
	}
	scope, unresolved, err := v.scope(service, environment)
	if err != nil {
		return nil, err
	}
	for _, name := range value.Keys(service.Provision.Bosh.Outputs) {
		output := service.Provision.Bosh.Outputs[name]
		_, recorded := details[name]
		switch {
		case recorded && (output.Expr == nil || !Deferred(output.Expr)):
		case output.Expr == nil:
			details[name] = output.Literal
		default:
			if details[name], err = scope.Eval("outputs."+name, output.Expr); err != nil {
				return nil, fmt.Errorf("evaluating output %q of the instance%s: %w", name, v.provenance(),
					errors.Join(err, unresolved))
			}
		}
	}
	castOutputs(service, details)
	return details, nil
}

// castOutputs converts the values of outputs of provision.bosh that are texts to the types that provision.outputs
// declares for them, such as "integer", because expressions return numbers and booleans as texts. It changes details,
// a map from the names of outputs to their values. A value stays as it is if it is not a text, if provision.bosh or
// provision.outputs does not contain the output, or if it cannot be converted. The service must have a provision.bosh
// section.
func castOutputs(service *brokerpak.Service, details map[string]any) {
	for _, output := range service.Provision.Outputs {
		text, isText := details[output.Name].(string)
		if _, ofBosh := service.Provision.Bosh.Outputs[output.Name]; !ofBosh || !isText {
			continue
		}
		if item, err := expr.Cast(text, output.Type); err == nil {
			details[output.Name] = item
		}
	}
}

// TemplateOutputs returns the outputs of the provision template, as of its last application, by name. They are read
// from these sources; a later one takes precedence:
//   - the outputs in the record, which are those that are not sensitive,
//   - the outputs in Applied,
//   - for a sensitive output, the value in the record if the broker does not manage secrets, and otherwise the value in
//     the manifest, which is a reference to a secret that the broker sent.
//
// An output that none of these contains is left out. The manifest contains no reference for a sensitive output whose
// value is null. If the manifest is not valid YAML, it counts as containing no outputs; neither is an error. The caller
// may modify the map, which is not nil unless there is an error.
//
// TemplateOutputs returns nil and an error if a reference to a sensitive output has no value. The error wraps a
// *fault.UserError for the operator if the broker did not send the value, and otherwise the error of Resolve.
func (v *View) TemplateOutputs() (map[string]any, error) {
	outputs := v.openOutputs()
	for _, name := range v.template().Sensitive {
		if literal := v.Record.Secrets[name].Value; literal != nil {
			outputs[name] = literal
			continue
		}
		path := "/" + record.OutputsKey + "/" + name
		if _, err := v.GetRaw(path); err != nil {
			continue // the value of the output is null
		}
		item, err := v.Get(path)
		if err != nil {
			return nil, fmt.Errorf("reading the output %q of the provision template: %w", name, err)
		}
		outputs[name] = item
	}
	return outputs, nil
}

// openOutputs returns a new map with the outputs of the provision template that can be read without resolving
// references: the recorded outputs, which are those that are not sensitive, and the outputs in Applied, which take
// precedence. Either may be missing. The map is never nil.
func (v *View) openOutputs() map[string]any { return value.Merge(v.template().Outputs, v.Applied) }

// template returns the record of the provision template. It returns a new, empty one if the instance has no record or
// the record has no template, so the result is never nil.
func (v *View) template() *record.Template {
	if v.Record == nil || v.Record.Template == nil {
		return &record.Template{}
	}
	return v.Record.Template
}

// provenance returns a clause that continues the words "the instance" in an error: ", whose manifest was created by
// version V of pak P", according to the record. The version can explain the error, because an instance that has not
// been upgraded lacks the values that a later version of the pak records. If the manifest has no record, the clause
// says that; it is never "".
func (v *View) provenance() string {
	if v.Record == nil {
		return ", whose manifest has no record of this adapter"
	}
	return fmt.Sprintf(", whose manifest was created by version %s of pak %s", v.Record.PakVersion, v.Record.Pak)
}

// DashboardURL returns the URL of the instance's dashboard, or "" if the service definition has no dashboard_url. The
// recorded URL is returned if there is one, unless the expression reads the deployed manifest or BOSH's addresses
// (see Deferred), because these may have changed since. Otherwise the result is "" if an errand applies the provision
// template and the expression reads its outputs, because the errand may not have run when the broker asks for the
// URL. In all other cases the expression is evaluated.
//
// The environment provides environment variables and configuration values for the expression. The constants are further
// variables for it, and take precedence over those of the instance; nil adds none.
//
// DashboardURL returns "" and an error if the expression cannot be evaluated, or if the manifest has no record and
// either is not valid YAML or a path of carry_over has an invalid syntax.
func (v *View) DashboardURL(
	service *brokerpak.Service, environment vars.Environment, constants map[string]any,
) (string, error) {
	bosh := service.Provision.Bosh
	if bosh == nil || bosh.DashboardURL == nil {
		return "", nil
	}
	if v.Record != nil && v.Record.DashboardURL != "" && !Deferred(bosh.DashboardURL) {
		return v.Record.DashboardURL, nil
	}
	if v.Record != nil && v.Record.Errand != nil && brokerpak.ReadsDetails(bosh.DashboardURL) {
		return "", nil // the broker asks for the URL before it runs the errand
	}
	scope, unresolved, err := v.scope(service, environment)
	if err != nil {
		return "", err
	}
	text, err := scope.With(constants, nil).Text("dashboard_url", bosh.DashboardURL)
	if err != nil {
		return "", fmt.Errorf("evaluating the dashboard URL of the instance%s: %w", v.provenance(),
			errors.Join(err, unresolved))
	}
	return text, nil
}

// scope returns a scope for expressions of the deployed instance. environment provides environment variables and
// configuration values for them.
//
// If v.Record is set, the scope has the recorded variables, the constants and functions of the instance, and
// constants that describe the request that created the instance (see requestConstants). Its variable instance.details
// contains the outputs of the provision template that openOutputs returns, so a sensitive one only if Applied
// contains it. unresolved and err are nil.
//
// If v.Record is nil, the result is that of unrecordedScope: the variables are computed from the service, which must
// then have a provision.bosh section, and request.context and instance.details are empty. unresolved contains the
// errors of variables that could not be computed, or is nil. They matter only if an expression that reads such a
// variable fails. If the manifest is not valid YAML or a path of carry_over has an invalid syntax, err is set and the
// other results are nil; otherwise err is nil.
func (v *View) scope(
	service *brokerpak.Service, environment vars.Environment,
) (scope *vars.Scope, unresolved, err error) {
	if v.Record == nil {
		return v.unrecordedScope(service, environment)
	}
	scope = vars.NewScope(vars.Options{Constants: v.Constants(), Functions: v.Functions(), Environment: environment})
	scope.Set("record", v.Record.Variables)
	constants := requestConstants(v.Record.ServiceID, v.Record.PlanID, v.InstanceID(), v.Record.UAAClient)
	constants["request.context"] = value.Merge(v.Record.Context)
	constants[brokerpak.InstanceDetails] = v.openOutputs()
	return scope.With(constants, nil), nil, nil
}

// requestConstants returns a new map with the variables of Brokerpak V1 that describe the request that created the
// instance, such as request.plan_id, and its UAA client. client contains the fields of the UAA client by name, and
// may be nil. The result contains them as the map uaa_client, which is empty if client is nil, and each as a
// variable, such as uaa_client.client_id. The variables for the request's context and the instance details are empty
// maps, which the caller may replace.
func requestConstants(serviceID, planID, instanceID string, client map[string]any) map[string]any {
	constants := map[string]any{
		"request.service_id": serviceID, "request.plan_id": planID, "request.instance_id": instanceID,
		"request.context": map[string]any{},
		"uaa_client":      value.Merge(client), brokerpak.InstanceDetails: map[string]any{},
	}
	for field, item := range client {
		constants[brokerpak.UAAClient+field] = item
	}
	return constants
}
