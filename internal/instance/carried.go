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

// Carried contains the values that CarryOver read from the manifest of another adapter, by the name that the section
// carry_over of the service definition assigns to them: the name of an input, a secret or a reference, or "uaa_client."
// and the name of a field of the UAA client. No value is nil. A nil Carried contains none.
type Carried map[string]any

// CarryOver returns the values that the section carry_over of bosh selects from the manifest of another adapter. bosh
// must not be nil. manifest is the parsed manifest in the form that go-patch expects, with maps of the type
// map[any]any. The section contains go-patch paths, such as /instance_groups/name=db/properties/password; if a name has
// several, the first with a value other than null is used, and later ones are not read. A path that does not exist in
// the manifest, or is ambiguous there, has no value; but an optional element that does not exist, such as name=db?, is
// taken for a new one that has only this name, as by go-patch. A name without a value is omitted, because older
// versions of the other adapter may not have stored it. The values have the types that value.Normalise returns. The
// result is never nil unless a path that is read has an invalid syntax; the error then names the path.
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

// Parameters returns a new map with the values that are used like parameters of earlier requests, by the name of the
// input. bosh is the section of the service definition that declares secrets and references; it must not be nil. The
// values of secrets and references and the fields of the UAA client are not among the parameters. An exception are the
// inputs of references: if the value that was read for a reference is a single reference to a BOSH variable, such as
// "((/path/name))", the input of that reference gets the path without the parentheses, even if a value was read for the
// input itself. Any other value of a reference is ignored. The map is never nil.
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

// UAAClient returns a new map with the fields of the UAA client that were read, by name without the prefix
// "uaa_client.", such as "client_id". The map is never nil.
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

// IsReference reports whether a text consists of a single reference to a BOSH variable, including its parentheses, such
// as "((name))" or "((/path/name))". It returns false if there is other text before or after the reference, and for the
// empty text.
func IsReference(text string) bool { return wholeReference.MatchString(text) }

// A ForeignInstance describes an instance that another adapter created, whose manifest therefore has no record: the
// id of its service and its plan, with the plan's id and properties, as determined from the request and the paks, and
// the operator's defaults. The zero value has no ids, plan properties and defaults.
type ForeignInstance struct {
	ServiceID string
	Plan      brokerpak.Plan
	// Defaults are the operator's defaults for the provision action, in ascending precedence. Nil means that there are
	// none.
	Defaults []map[string]any
}

// unrecordedScope returns a scope for expressions of an instance that another adapter created, so that the manifest has
// no record. The service must have a provision.bosh section. The environment provides environment variables and
// configuration values for the expressions.
//
// The scope has the constants and functions of v, and those of a provision request. Its variables are computed as in
// a provision request with v.ForeignInstance, but their values are not validated. A zero ForeignInstance is valid and
// supplies no ids, plan properties and defaults. The parameters are those of Carried.Parameters for the values that
// carry_over reads from the manifest. The constants of the UAA client are also read by carry_over. The functions
// about the plan and the releases read the manifest, except plan.has_property, which reads v.ForeignInstance.Plan.
//
// unresolved contains the errors of variables that could not be computed, or is nil; the scope can be used
// nevertheless. If a parameter cannot be represented, unresolved is that error, and the scope has no variables. err is
// set, and the scope nil, if the manifest is not valid YAML or a path of carry_over has an invalid syntax.
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
