// Package instance looks at a deployed service instance: its manifest with the adapter's record, the values of its secrets, and
// where BOSH runs it. Binding and the dashboard read instances through it.
package instance

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/cppforlife/go-patch/patch"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// View is a deployed instance as one call of the broker shows it.
type View struct {
	// Manifest is the deployed manifest; it may be empty or unreadable.
	Manifest []byte
	// Record is the manifest's record, nil when it has none.
	Record *record.Record
	// Secrets maps references with their parentheses to values.
	Secrets map[string]string
	// VMs maps instance groups to the IP addresses of their instances.
	VMs map[string][]string
	// DNS maps names of the broker's binding_with_dns to addresses.
	DNS map[string]string

	// Applied are the outputs of the provision template where an errand applies it: the record has none.
	Applied map[string]any
	// Unrecorded is what takes the record's place where the manifest has none.
	Unrecorded Unrecorded

	tree   any
	parsed bool
}

// Deferred tells whether an expression reads the deployed manifest or BOSH, so that it cannot be evaluated before.
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

// Constants are the names bosh.deployment, bosh.vms and bosh.dns.
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

// instancePrefix stands before the instance id in a deployment's name.
const instancePrefix = "service-instance_"

// Deployment is the name of the instance's BOSH deployment, "" when the manifest does not tell.
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

// InstanceID is the id of the service instance.
func (v *View) InstanceID() string { return ID(v.Deployment()) }

// ID returns the instance id that a deployment name holds.
func ID(deployment string) string { return strings.TrimPrefix(deployment, instancePrefix) }

// Functions are bosh.host, bosh.hosts, bosh.address, manifest.get and manifest.find.
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
			if !ok {
				return nil, fmt.Errorf("the broker sent no DNS address %q; there are: %s; configure binding_with_dns for the plan",
					name, diag.Names(value.Keys(v.DNS)))
			}
			return address, nil
		}),
		"manifest.find": {Args: []expr.Type{expr.String, expr.Any}, Result: expr.Any, Call: func(args []any) (any, error) {
			return v.find(value.Text(args[0]), args[1])
		}},
		"manifest.get": FunctionOf(expr.Any, v.Get),
	}
}

// hosts are the addresses of an instance group, at least one.
func (v *View) hosts(group string) ([]string, error) {
	if len(v.VMs[group]) == 0 {
		return nil, fmt.Errorf("no VMs for instance group %q; there are: %s", group, diag.Names(value.Keys(v.VMs)))
	}
	return v.VMs[group], nil
}

// Get returns the value at a path of the manifest, with references replaced by the secrets' values.
func (v *View) Get(path string) (any, error) {
	found, err := v.Find(path)
	if err != nil {
		return nil, err
	}
	return v.resolve(found, path)
}

// find is Get with a default where the manifest has nothing at the path, or a reference there and the broker sends no secrets at
// all. Where it sends some, one that is missing is an error.
func (v *View) find(path string, otherwise any) (any, error) {
	if _, err := v.yamlTree(); err != nil {
		return nil, err
	}
	found, err := v.Find(path)
	if err != nil || v.Secrets == nil && vars.HasReference(found) {
		return otherwise, nil //nolint:nilerr // the path leads nowhere
	}
	return v.resolve(found, path)
}

// Find returns the value at a path of the manifest, with references as they stand there.
func (v *View) Find(path string) (any, error) {
	pointer, err := patch.NewPointerFromString(path)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", path, err)
	}
	tree, err := v.yamlTree()
	if err != nil {
		return nil, err
	}
	found, err := patch.FindOp{Path: pointer}.Apply(tree)
	if err != nil {
		return nil, fmt.Errorf("the manifest has nothing at %q: %w", path, err)
	}
	return value.Normalise(found), nil
}

func (v *View) yamlTree() (any, error) {
	if v.parsed {
		return v.tree, nil
	}
	var raw any
	if err := yaml.Unmarshal(v.Manifest, &raw); err != nil { // an empty manifest has nothing
		return nil, fmt.Errorf("reading the deployed manifest: %w", err)
	}
	v.tree, v.parsed = value.AnyKeys(value.Normalise(raw), nil), true
	return v.tree, nil
}

// resolve replaces references in strings. A reference whose value the broker did not send is an error: a credential with a
// placeholder in it would be useless.
func (v *View) resolve(item any, path string) (any, error) {
	return value.Map(item, func(scalar any) (any, error) {
		text, ok := scalar.(string)
		if !ok {
			return scalar, nil
		}
		var failed error
		resolved := vars.Reference.ReplaceAllStringFunc(text, func(reference string) string {
			secret, ok := v.Secrets[reference]
			if !ok && failed == nil {
				failed = &fault.UserError{
					Message:  "the broker sent no value for " + reference,
					Operator: true,
					Err:      fmt.Errorf("the manifest has it at %q; is enable_secure_manifests on?", path),
				}
			}
			return secret
		})
		return resolved, failed
	})
}

// Details are the outputs of the service's provision action: instance.details of bind expressions.
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
				return nil, fmt.Errorf("evaluating output %q of the instance%s: %w", name, v.made(), errors.Join(err, unresolved))
			}
		}
	}
	typed(service, details)
	return details, nil
}

// typed gives the outputs of provision.bosh their declared types: an expression gives a text.
func typed(service *brokerpak.Service, details map[string]any) {
	for _, output := range service.Provision.Outputs {
		text, isText := details[output.Name].(string)
		if _, own := service.Provision.Bosh.Outputs[output.Name]; !own || !isText {
			continue
		}
		if item, err := expr.Cast(text, output.Type); err == nil {
			details[output.Name] = item
		}
	}
}

// TemplateOutputs are the outputs of the provision template as they were deployed. The values of sensitive ones come with the secrets that the broker
// resolved.
func (v *View) TemplateOutputs() (map[string]any, error) {
	outputs := v.openOutputs()
	for _, name := range v.template().Sensitive {
		if literal := v.Record.Secrets[name].Value; literal != nil {
			outputs[name] = literal
			continue
		}
		path := "/" + record.OutputsKey + "/" + name
		if _, err := v.Find(path); err != nil {
			continue // it is null
		}
		item, err := v.Get(path)
		if err != nil {
			return nil, fmt.Errorf("reading the output %q of the provision template: %w", name, err)
		}
		outputs[name] = item
	}
	return outputs, nil
}

// openOutputs are the outputs of the provision template that are not sensitive, or all that an errand made.
func (v *View) openOutputs() map[string]any { return value.Merge(v.template().Outputs, v.Applied) }

// template is what the record has of the provision template; empty where it has nothing.
func (v *View) template() *record.Template {
	if v.Record == nil || v.Record.Template == nil {
		return &record.Template{}
	}
	return v.Record.Template
}

// made tells which pak made the manifest: an instance that was not upgraded yet lacks what a later version of the pak records.
func (v *View) made() string {
	if v.Record == nil {
		return ", whose manifest has no record of this adapter"
	}
	return fmt.Sprintf(", whose manifest was made by version %s of pak %s", v.Record.PakVersion, v.Record.Pak)
}

// DashboardURL is the instance's dashboard; "" when the service has none.
func (v *View) DashboardURL(service *brokerpak.Service, environment vars.Environment, constants map[string]any) (string, error) {
	bosh := service.Provision.Bosh
	if bosh == nil || bosh.DashboardURL == nil {
		return "", nil
	}
	if v.Record != nil && v.Record.DashboardURL != "" && !Deferred(bosh.DashboardURL) {
		return v.Record.DashboardURL, nil
	}
	if v.Record != nil && v.Record.Errand != nil && brokerpak.ReadsDetails(bosh.DashboardURL) {
		return "", nil // the broker asks before the errand has run
	}
	scope, unresolved, err := v.scope(service, environment)
	if err != nil {
		return "", err
	}
	text, err := scope.With(constants, nil).Text("dashboard_url", bosh.DashboardURL)
	if err != nil {
		return "", fmt.Errorf("evaluating the dashboard URL of the instance%s: %w", v.made(), errors.Join(err, unresolved))
	}
	return text, nil
}

// scope sees the recorded variables and what BOSH runs. Where there is no record, the variables are computed; unresolved then says
// what could not be, which matters only to an expression that uses it.
func (v *View) scope(service *brokerpak.Service, environment vars.Environment) (scope *vars.Scope, unresolved, err error) {
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

// requestConstants are the published names of the request that made the instance, and its UAA client.
func requestConstants(serviceID, planID, instanceID string, client map[string]any) map[string]any {
	constants := map[string]any{
		"request.service_id": serviceID, "request.plan_id": planID, "request.instance_id": instanceID, "request.context": map[string]any{},
		"uaa_client": value.Merge(client), brokerpak.InstanceDetails: map[string]any{},
	}
	for field, item := range client {
		constants[brokerpak.UAAClient+field] = item
	}
	return constants
}
