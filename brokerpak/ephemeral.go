package brokerpak

import (
	"maps"
	"slices"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
)

// EphemeralInputs returns the sorted names of the values that must never be stored. These are the variables that the
// action's OpenTofu files declare ephemeral, even if the action has no input of that name, and the inputs that the
// expressions of ephemeral inputs read, directly or through other inputs in the result. An input that the OpenTofu
// files declare as a variable without ephemeral, or use without a declaration, may be stored. It is not in the result,
// and neither are inputs that are read only by its expression. The result is nil if the files declare no ephemeral
// variable. Files with syntax errors are read as far as possible.
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

// InputsRead returns the sorted names of the inputs that an input of the action reads directly: the inputs to which its
// default, if it is a user input, and its value, if it is a computed input, refer in an expression. Inputs that these
// inputs read in turn are not included. The result is nil if there are none or if the action has no such input.
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
// Import inputs stay, and names that the action does not have are ignored. The action itself does not change; the copy
// shares everything else with it, such as Templates and Bosh.
func (a *Action) WithoutInputs(names []string) *Action {
	others := *a
	for _, list := range []*[]Variable{&others.PlanInputs, &others.UserInputs, &others.ComputedInputs} {
		*list = slices.DeleteFunc(slices.Clone(*list), func(v Variable) bool { return slices.Contains(names, v.Name) })
	}
	return &others
}

// ReadsClient reports whether an expression reads uaa_client, the UAA client of an instance, or one of its fields, such
// as uaa_client.client_secret. The template must not be nil.
func ReadsClient(template *expr.Template) bool {
	return slices.ContainsFunc(template.References(), func(reference expr.Reference) bool {
		return readsVariable(reference, strings.TrimSuffix(UAAClient, "."))
	})
}
