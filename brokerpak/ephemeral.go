package brokerpak

import (
	"maps"
	"slices"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
)

// EphemeralInputs returns the sorted names of the inputs of the action whose values must never be stored: the variables
// that the template declares ephemeral, and the inputs from which the expressions of such inputs are computed. An input
// of the latter kind that is itself a variable of the template, and not ephemeral, is not among them, because the
// author has declared that its value may be stored. The result is nil if the template has no ephemeral variable.
func (a *Action) EphemeralInputs() []string {
	if !hclfile.MayBeEphemeral(a.Templates) {
		return nil
	}
	module, _ := hclfile.Inspect(a.Templates) // pak validate reports faults of the files
	names := map[string]bool{}
	for pending := module.EphemeralVariables(); len(pending) > 0; pending = pending[1:] {
		if names[pending[0]] {
			continue
		}
		names[pending[0]] = true
		for _, source := range a.InputsRead(pending[0]) {
			_, declared := module.Variables[source]
			_, used := module.Undeclared[source]
			if !declared && !used {
				pending = append(pending, source)
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// InputsRead returns the sorted names of the inputs of the action that the expressions of an input read directly: its
// default and its computed value. The result is nil if there are none.
func (a *Action) InputsRead(input string) []string {
	read := map[string]bool{}
	for _, template := range []*expr.Template{a.ExpressionOf(input, true), a.ExpressionOf(input, false)} {
		if template == nil {
			continue
		}
		for _, reference := range template.References() {
			for name := range a.inputs() {
				if readsVariable(reference, name) {
					read[name] = true
				}
			}
		}
	}
	return value.Keys(read)
}

// WithoutInputs returns a copy of the action without the plan inputs, user inputs and computed inputs of these names.
func (a *Action) WithoutInputs(names []string) *Action {
	others := *a
	for _, list := range []*[]Variable{&others.PlanInputs, &others.UserInputs, &others.ComputedInputs} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(v Variable) bool { return slices.Contains(names, v.Name) })
	}
	return &others
}

// Generates reports whether an expression calls a function that generates a value; see Generators.
func Generates(template *expr.Template) bool {
	return slices.ContainsFunc(template.Calls(), func(call expr.Call) bool {
		return slices.Contains(Generators(), call.Name)
	})
}

// ReadsClient reports whether an expression reads the UAA client or a field of it.
func ReadsClient(template *expr.Template) bool {
	return slices.ContainsFunc(template.References(), func(reference expr.Reference) bool {
		return readsVariable(reference, strings.TrimSuffix(UAAClient, "."))
	})
}
