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

// A View is a deployed instance, as one request of the broker describes it. It is not safe for concurrent use,
// because it caches the parsed manifest.
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
// evaluated before the deployment.
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

// Constants returns the variables bosh.deployment, bosh.vms and bosh.dns, as a new map. bosh.deployment is "" if the
// name of the deployment is not known. bosh.vms and bosh.dns are empty maps if the broker sent no addresses.
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

// Deployment returns the name of the instance's BOSH deployment, from the record or else from the manifest. It returns
// "" if neither contains the name, if the manifest cannot be parsed, or if its name is a reference without a value.
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

// InstanceID returns the id of the service instance, or "" if the name of the deployment is not known. See ID for names
// that contain no id.
func (v *View) InstanceID() string { return ID(v.Deployment()) }

// ID returns the instance id in the name of a deployment. A name without the prefix "service-instance_" is returned
// unchanged.
func ID(deployment string) string { return strings.TrimPrefix(deployment, instancePrefix) }

// Functions returns the functions bosh.host, bosh.hosts, bosh.address, manifest.get and manifest.find. bosh.host
// returns the IP address of the first instance of an instance group, bosh.hosts those of all its instances, and
// bosh.address the DNS address of an entry of binding_with_dns. They fail if the broker sent no address of that name;
// see Get for the errors of manifest.get. The default of manifest.find replaces a value whose path does not exist or is
// invalid; it replaces a value with a reference only if Secrets and Resolve are nil. See getOrDefault for the errors of
// manifest.find.
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

// hosts returns the IP addresses of the instances of an instance group. It returns an error if there are none. The
// error names the groups that have addresses.
func (v *View) hosts(group string) ([]string, error) {
	if len(v.VMs[group]) == 0 {
		return nil, fmt.Errorf("no VMs for instance group %q; instance groups: %s", group,
			diag.Names(value.Keys(v.VMs)))
	}
	return v.VMs[group], nil
}

// Details returns the outputs of the service's provision action, which are instance.details in bind expressions: the
// outputs of the provision template, and those of provision.bosh. Of the latter, recorded values are used, except that
// Deferred outputs and those without a recorded value are evaluated with the current addresses. Texts are converted to
// the declared types; see castOutputs. The environment is that of the expressions. The caller may modify the map, which
// is never nil.
//
// Details returns an error if an output cannot be evaluated, if the value of a secret is missing (see TemplateOutputs),
// or if scope returns one.
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

// castOutputs converts the outputs of provision.bosh in details, in place, to their declared types, because the result
// of an expression is a text. An output that is not a text or cannot be converted is not changed. The service must have
// a provision.bosh section.
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

// TemplateOutputs returns the outputs of the provision template, as of its last application. The value of a sensitive
// output is read from the record if the broker does not manage secrets, and otherwise from the secrets that the broker
// sent; see Get for the error if such a value is missing. A sensitive output whose reference cannot be found in the
// manifest is null, and is left out unless Applied contains it. The caller may modify the map, which is never nil.
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

// openOutputs returns a copy of the recorded outputs of the provision template, which are those that are not sensitive,
// overlaid with the outputs in Applied. The map is never nil.
func (v *View) openOutputs() map[string]any { return value.Merge(v.template().Outputs, v.Applied) }

// template returns the record of the provision template, or an empty one if the record has none.
func (v *View) template() *record.Template {
	if v.Record == nil || v.Record.Template == nil {
		return &record.Template{}
	}
	return v.Record.Template
}

// provenance returns a clause that continues the words "the instance" in an error: ", whose manifest was created by
// version V of pak P". The version can explain the error, because an instance that has not been upgraded lacks the
// values that a later version of the pak records. If the manifest has no record, the clause says that; it is never "".
func (v *View) provenance() string {
	if v.Record == nil {
		return ", whose manifest has no record of this adapter"
	}
	return fmt.Sprintf(", whose manifest was created by version %s of pak %s", v.Record.PakVersion, v.Record.Pak)
}

// DashboardURL returns the URL of the instance's dashboard. It returns "" if the service has none, or if the URL needs
// the outputs of an errand that may not have run when the broker asks for the URL. The recorded URL is used unless the
// expression is Deferred. The environment is that of the expression. The constants are further variables for it, and
// take precedence over those of the instance; nil adds none. DashboardURL returns an error if the expression cannot be
// evaluated, or if scope returns one.
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

// scope returns a scope with the recorded variables, the constants and functions of the deployed instance, and the
// environment. If the manifest has no record, the variables are computed from the service, which must then have a
// provision.bosh section. The result unresolved contains the errors of variables that could not be computed, or is nil;
// these errors matter only if an expression that reads such a variable fails. See unrecordedScope for err, which is nil
// if the manifest has a record.
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

// requestConstants returns the variables of Brokerpak V1 that describe the request that created the instance, and its
// UAA client. client contains the fields of the UAA client by name, and may be nil; the result contains them as the map
// uaa_client and each as a variable. The context and the instance details are empty maps, which the caller may replace.
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
