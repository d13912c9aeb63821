package instance

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/cppforlife/go-patch/patch"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/value"
)

// Carried are the values that carry_over finds in the manifest of another adapter, by the name of what they fill.
type Carried map[string]any

// CarryOver reads values of a manifest, whose maps have keys of any type, by their paths, the first that leads somewhere. Where none does
// there is nothing: older versions of an adapter may not have had the value.
func CarryOver(bosh *brokerpak.Bosh, manifest any) (Carried, error) {
	carried := Carried{}
	for _, name := range value.Keys(bosh.CarryOver) {
		for _, path := range bosh.CarryOver[name] {
			pointer, err := patch.NewPointerFromString(path)
			if err != nil {
				return nil, fmt.Errorf("carry_over of %q: path %q: %w", name, path, err)
			}
			found, err := patch.FindOp{Path: pointer}.Apply(manifest)
			if err == nil && found != nil {
				carried[name] = value.Normalise(found)
				break
			}
		}
	}
	return carried, nil
}

// Parameters are those that count as parameters of earlier requests. An input that names a credential gets the path of the
// reference that stands in the manifest.
func (c Carried) Parameters(bosh *brokerpak.Bosh) map[string]any {
	parameters := map[string]any{}
	for name, item := range c {
		if !bosh.HasSecret(name) && !bosh.HasReference(name) && !strings.HasPrefix(name, brokerpak.UAAClient) {
			parameters[name] = item
		}
	}
	for _, reference := range bosh.References {
		text, _ := c[reference.Name].(string)
		if reference.Input != "" && IsReference(text) {
			parameters[reference.Input] = strings.Trim(text, "()")
		}
	}
	return parameters
}

// UAAClient are the fields of the UAA client.
func (c Carried) UAAClient() map[string]any {
	fields := map[string]any{}
	for name, item := range c {
		if field, ok := strings.CutPrefix(name, brokerpak.UAAClient); ok {
			fields[field] = item
		}
	}
	return fields
}

var wholeReference = regexp.MustCompile(`^\(\([^()]+\)\)$`)

// IsReference tells whether a text is a reference to a BOSH variable and nothing else.
func IsReference(text string) bool { return wholeReference.MatchString(text) }

// Unrecorded says for which plan another adapter made an instance, as far as the request and the paks tell.
type Unrecorded struct {
	ServiceID string
	Plan      brokerpak.Plan
	// Defaults are the operator's for the provision action, general ones first.
	Defaults []map[string]any
}

// unrecordedScope computes the variables of an instance that another adapter made: what carry_over finds in its manifest counts as
// parameters, and the manifest tells what the plan and the releases were.
func (v *View) unrecordedScope(service *brokerpak.Service, environment vars.Environment) (scope *vars.Scope, unresolved, err error) {
	bosh := service.Provision.Bosh
	tree, err := v.yamlTree()
	if err != nil {
		return nil, nil, err
	}
	root, _ := value.Normalise(tree).(map[string]any)
	carried, err := CarryOver(bosh, tree)
	if err != nil {
		return nil, nil, err
	}
	plan, parameters := v.Unrecorded.Plan, carried.Parameters(bosh)
	constants, functions := v.Constants(), v.Functions()
	maps.Copy(constants, requestConstants(v.Unrecorded.ServiceID, plan.ID, v.InstanceID(), carried.UAAClient()))
	maps.Copy(functions, ProvisionFunctions(DeployedPlan(root), plan.Properties, DeployedReleases(root)))
	scope = vars.NewScope(vars.Options{Constants: constants, Functions: functions, Environment: environment})
	unresolved = vars.Provision{
		Service: service, Plan: plan, Defaults: v.Unrecorded.Defaults, Parameters: parameters, Deployed: value.Keys(parameters),
		Unchecked: true,
	}.Resolve(scope)
	return scope, unresolved, nil
}
