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

// errandInputs describes the inputs that the errand evaluates, because their expressions read the operator's
// configuration or environment. The configuration and environment on the errand's VM apply. The zero value describes
// none.
type errandInputs struct {
	// names are the names of these inputs.
	names []string
	// dependencies is the set of names that the expressions of these inputs refer to; constants holds the values of the
	// published constants among them.
	dependencies map[string]bool
	constants    map[string]any
}

// isNeeded reports whether the errand needs the value of an input from the manifest: for the provision template, or to
// evaluate other inputs. It is false for an input that the errand evaluates itself.
func (e errandInputs) isNeeded(in *inputs, name string) bool {
	return !slices.Contains(e.names, name) && (e.dependencies[name] || in.passedToTemplate(name))
}

// findErrandInputs returns the inputs whose expressions read the configuration or the environment, sorted by name, with
// the names and constants that these expressions read. It returns an error if one of them also generates a value, if
// the manifest needs the value of one that cannot be evaluated here, or if addDependencies returns one.
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

// addDependencies adds to e the names that the expression of an input of the errand reads, with all their dotted
// prefixes, and the constants among them. It returns an error if the errand cannot evaluate the expression: because it
// calls a function about the plan or the releases, which only the broker's request describes, or because it reads a
// constant that may hold secrets.
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
						"because it may hold secrets: use two inputs", reference.Pos, name)
				}
				e.constants[name] = item
			}
			e.dependencies[name] = true
		}
	}
	return nil
}
