package instance

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/cppforlife/go-patch/patch"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// Carried contains the values that CarryOver read from the manifest of another adapter, by the name of the input,
// secret, reference or UAA client field that they set.
type Carried map[string]any

// CarryOver reads the values that the section carry_over selects from a manifest, whose maps must have keys of any
// type. Of several paths for a name, the first with a value other than null is used. A name without a value is
// omitted, because older versions of the other adapter may not have stored it. The result is never nil unless there is
// an error, which means that a path is invalid and names it.
func CarryOver(bosh *brokerpak.Bosh, manifest any) (Carried, error) {
	carried := Carried{}
	for _, name := range value.Keys(bosh.CarryOver) {
		for _, path := range bosh.CarryOver[name] {
			pointer, err := patch.NewPointerFromString(path)
			if err != nil {
				return nil, fmt.Errorf("carry_over of %q: path %q: %w", name, path, err)
			}
			item, err := patch.FindOp{Path: pointer}.Apply(manifest)
			if err == nil && item != nil {
				carried[name] = value.Normalise(item)
				break
			}
		}
	}
	return carried, nil
}

// Parameters returns the values that are used like parameters of earlier requests, by the name of the input. Secrets,
// references and fields of the UAA client are not among them. If the value that was read for a reference of the
// definition is a single reference to a BOSH variable (see IsReference), the input of that reference gets its path,
// without the parentheses; any other value of a reference is ignored. The map is never nil.
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

// UAAClient returns the values of the UAA client's fields, by name without the prefix "uaa_client.". The map is never
// nil.
func (c Carried) UAAClient() map[string]any {
	fields := map[string]any{}
	for name, item := range c {
		if field, ok := strings.CutPrefix(name, brokerpak.UAAClient); ok {
			fields[field] = item
		}
	}
	return fields
}

// wholeReference matches a text that consists of a single reference.
var wholeReference = regexp.MustCompile(`^\(\([^()]+\)\)$`)

// IsReference reports whether a text consists of a single reference to a BOSH variable, including its parentheses, and
// nothing else.
func IsReference(text string) bool { return wholeReference.MatchString(text) }

// A ForeignInstance describes the service, plan and defaults of an instance that another adapter created, as determined
// from the request and the paks.
type ForeignInstance struct {
	ServiceID string
	Plan      brokerpak.Plan
	// Defaults are the operator's defaults for the provision action, in ascending precedence. Nil means that there are
	// none.
	Defaults []map[string]any
}

// unrecordedScope returns a scope with the environment for an instance that another adapter created. The service must
// have a provision.bosh section. The variables are computed as in a provision request: the values of carry_over are the
// parameters, and plan and releases are read from the manifest. See scope for the result unresolved. It returns an
// error if the manifest is not valid YAML or if a path of carry_over is invalid.
func (v *View) unrecordedScope(
	service *brokerpak.Service, environment vars.Environment,
) (scope *vars.Scope, unresolved, err error) {
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
	plan, parameters := v.ForeignInstance.Plan, carried.Parameters(bosh)
	constants, functions := v.Constants(), v.Functions()
	maps.Copy(constants, requestConstants(v.ForeignInstance.ServiceID, plan.ID, v.InstanceID(), carried.UAAClient()))
	maps.Copy(functions, ProvisionFunctions(DeployedPlan(root), plan.Properties, DeployedReleases(root)))
	scope = vars.NewScope(vars.Options{Constants: constants, Functions: functions, Environment: environment})
	unresolved = vars.Provision{
		Service: service, Plan: plan, Defaults: v.ForeignInstance.Defaults, Parameters: parameters,
		Deployed:  value.Keys(parameters),
		Unchecked: true,
	}.Resolve(scope)
	return scope, unresolved, nil
}
