package brokerpak

import (
	"slices"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// checkBosh holds the rules about provision.bosh that concern the whole definition.
func checkBosh(service *Service, diags *diag.List) {
	bosh := service.Provision.Bosh
	if bosh == nil {
		return
	}
	checkInputNames(&service.Provision, diags)
	checkPrevious(service, diags)
	checkCarryOver(&service.Provision, diags)
	checkReferences(&service.Provision, diags)
	checkPlanDefaults(&service.Provision, diags)
	checkSecrets(&service.Provision, diags)
}

// checkInputNames refuses names with a dot: ((a.b)) in a BOSH manifest is the key b of a variable a.
func checkInputNames(action *Action, diags *diag.List) {
	for name, pos := range action.inputs() {
		if strings.Contains(name, ".") {
			diags.Errorf(pos, "input-name", "the name of input %q must not hold a dot: in a BOSH manifest ((%s)) is a part of ((%s))",
				name, name, name[:strings.Index(name, ".")])
		}
	}
}

// checkPrevious keeps the variables and functions that tell about the deployment as it is to the rules and the update block. A value
// that they decide differs between the broker's check for pending changes and the deployment itself, so that the instance would have
// pending changes for ever.
func checkPrevious(service *Service, diags *diag.List) {
	isRule := func(expression Expression) bool { return expression.Rule }
	for _, template := range slices.Concat(slices.DeleteFunc(service.Provision.Expressions(), isRule), service.Bind.Expressions()) {
		for _, used := range Previous(template.Template) {
			diags.Errorf(used.Pos, "previous", "%q may only be used in provision.bosh.checks and provision.bosh.update: "+
				"here its value would differ in the broker's check for pending changes", used.Name)
		}
	}
}

// Previous are the variables and functions in an expression that tell about the deployment as it is.
func Previous(template *expr.Template) []expr.Reference {
	calls := value.Each(template.Calls(), func(call expr.Call) expr.Reference { return expr.Reference{Name: call.Name, Pos: call.Pos} })
	used := slices.Concat(template.References(), calls)
	return slices.DeleteFunc(used, func(name expr.Reference) bool {
		return !strings.HasPrefix(name.Name, "previous.") && !strings.HasPrefix(name.Name, "previous_plan.")
	})
}

// UAAClient opens the names of the UAA client's fields, in expressions and in carry_over.
const UAAClient = "uaa_client."

// checkCarryOver: each entry fills an input, a secret, a reference or a field of the UAA client from a place in a manifest.
func checkCarryOver(action *Action, diags *diag.List) {
	references := value.Each(action.Bosh.References, func(r Reference) string { return r.Name })
	known := slices.Concat(action.InputNames(), action.Bosh.secretNames(), references)
	for _, name := range value.Keys(action.Bosh.CarryOver) {
		pos := action.Bosh.carryOverAt[name]
		if !slices.Contains(known, name) && !strings.HasPrefix(name, UAAClient) {
			diags.Errorf(pos, "carry-over", "carry_over.%s is neither an input nor a secret%s", name, diag.Suggest(name, known))
		}
		for _, path := range action.Bosh.CarryOver[name] {
			if !strings.HasPrefix(path, "/") {
				diags.Errorf(pos, "carry-over", "the path of carry_over.%s must start with \"/\"", name)
			}
		}
	}
}

// checkReferences: ((name)) is the reference, which would hide an input or secret of that name.
func checkReferences(action *Action, diags *diag.List) {
	taken := slices.Concat(action.InputNames(), action.Bosh.secretNames())
	for _, reference := range action.Bosh.References {
		switch {
		case !secretName.MatchString(reference.Name):
			diags.Errorf(reference.Pos, "reference-name", "reference name %q may only hold letters, digits, underscores and hyphens", reference.Name)
		case slices.Contains(taken, reference.Name):
			diags.Errorf(reference.Pos, "reference-name", "there is an input, secret or reference %q as well", reference.Name)
		}
		taken = append(taken, reference.Name)
	}
}

// checkPlanDefaults: only what a user may set can have a default in a plan.
func checkPlanDefaults(action *Action, diags *diag.List) {
	known := Names(action.UserInputs)
	for _, name := range action.Bosh.PlanDefaults {
		if !slices.Contains(known, name) {
			diags.Errorf(action.Bosh.Pos, "plan-default", "plan_defaults names %q, which is no user input%s", name, diag.Suggest(name, known))
		}
	}
}

// PlanOwned tells whether a plan's property decides an input, so that a user cannot set it.
func (a *Action) PlanOwned(properties map[string]any, name string) bool {
	_, set := properties[name]
	return set && (a.Bosh == nil || !slices.Contains(a.Bosh.PlanDefaults, name))
}

// reads tells whether a reference sees the value of a variable, or a part of it. Names with dots may be keys of a map.
func reads(reference expr.Reference, variable string) bool {
	if reference.Name == variable || strings.HasPrefix(reference.Name, variable+".") {
		return true
	}
	key, below := strings.CutPrefix(variable, reference.Name+".")
	return below && (!reference.Indexed || reference.Key == "" || reference.Key == key)
}
