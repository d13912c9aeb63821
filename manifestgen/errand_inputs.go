package manifestgen

import (
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/record"
	"service-adapter/internal/vars"
)

// errandInputs describes the inputs that the errand apply-instance evaluates, because their values depend on the
// operator's configuration or environment variables: those on the errand's VM apply, not those of the adapter. It also
// contains the names and constants that the expressions of these inputs read. The zero value describes no inputs.
type errandInputs struct {
	// names are the names of these inputs.
	names []string
	// dependencies is the set of names that the expressions of these inputs refer to; constants holds the values of the
	// published constants among them.
	dependencies map[string]bool
	constants    map[string]any
}

// isNeeded reports whether the errand needs the value of the input of this name from the manifest: to pass it to the
// provision template, or to evaluate other inputs. It is false for an input that the errand evaluates itself. in
// describes the provision template. If the instance keeps an older template than that of the pak, whose variables are
// not available, isNeeded returns true for all other inputs.
func (e errandInputs) isNeeded(in *inputs, name string) bool {
	return !slices.Contains(e.names, name) && (e.dependencies[name] || in.passedToTemplate(name))
}

// findErrandInputs returns the inputs whose values depend, directly or through other inputs, on the configuration or
// the environment, sorted by name, with the names and constants that the expressions of these inputs read. If there
// are no such inputs, the field names of the result is nil, and its maps are empty. findErrandInputs returns an error
// with a position in these cases, and the result is then incomplete:
//   - The value of such an input also depends on a generated value.
//   - A document of provision.bosh contains ((NAME)) with the name of such an input, and the adapter cannot compute
//     the input itself.
//   - The expression of such an input calls a function about the plan or the releases, or reads the UAA client or
//     plan properties; see addDependencies.
func findErrandInputs(r *resolution) (errandInputs, error) {
	result := errandInputs{dependencies: map[string]bool{}, constants: map[string]any{}}
	action := &r.Service.Provision
	for _, name := range action.InputNames() {
		origin := r.scope.Origins[name]
		if !origin.CallsAny(vars.OperatorFunctions()...) {
			continue
		}
		if origin.CallsAny(brokerpak.Generators()...) {
			return result, fmt.Errorf("%s: input %q depends on the configuration and is generated, "+
				"so neither the manifest nor the errand can compute it: use two inputs", origin.Pos, name)
		}
		if at := r.bosh.PositionsOf(name); len(at) > 0 && r.scope.Unresolved[name] != nil {
			return result, fmt.Errorf("%s: ((%s)): %w", at[0], name, r.scope.Unresolved[name])
		}
		result.names = append(result.names, name)
		if err := result.addDependencies(r, action.ExpressionOf(name, origin.Layer == vars.DefaultLayer)); err != nil {
			return result, err
		}
	}
	return result, nil
}

// addDependencies adds to e all names that template refers to, the expression of an input that the errand evaluates.
// A dotted name is added with all its prefixes: "a.b.c" adds "a.b" and "a" as well. For names of published
// constants, such as request.instance_id, it adds their values. The maps of e must not be nil. r contains the
// resolved variables.
//
// addDependencies returns an error with a position if the errand cannot evaluate the expression: because it calls a
// function about the plan or the releases, which only the broker's request describes, or because it reads uaa_client
// or plan.properties, or an entry of them, which may contain secrets. e may then be partly extended.
func (e *errandInputs) addDependencies(r *resolution, template *expr.Template) error {
	for _, call := range template.Calls() {
		if _, needsRequest := functions(r.inputs)[call.Name]; needsRequest {
			return fmt.Errorf("%s: %s() in the expression of an input that depends on the configuration "+
				"cannot be evaluated by the errand %s: use two inputs", call.Pos, call.Name, record.ApplyErrand)
		}
	}
	published := constants(r.identity, r.received, r.GlobalLabels, r.Plan.Properties)
	for _, reference := range template.References() {
		for name := range reference.Names() {
			if item, isConstant := published[name]; isConstant {
				if strings.HasPrefix(name, "uaa_client") || name == planProperties {
					return fmt.Errorf("%s: %s cannot be part of an input that depends on the configuration, "+
						"because it may contain secrets: use two inputs", reference.Pos, name)
				}
				e.constants[name] = item
			}
			e.dependencies[name] = true
		}
	}
	return nil
}
