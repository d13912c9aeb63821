package brokerpak

import (
	"slices"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// checkBosh adds errors to diags for violations of the rules for provision.bosh that concern several parts of the
// definition: the names of inputs, expressions that read the previous deployment, carry_over, references, plan_defaults
// and secrets. It does nothing for a service without this section.
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

// checkInputNames adds errors to diags for input names that contain a dot, because BOSH interprets ((a.b)) in a
// manifest as the key b of a variable a.
func checkInputNames(action *Action, diags *diag.List) {
	for name, pos := range action.inputs() {
		if strings.Contains(name, ".") {
			diags.Errorf(pos, "input-name",
				"the name of input %q must not contain a dot: in a BOSH manifest ((%s)) is a part of ((%s))",
				name, name, name[:strings.Index(name, ".")])
		}
	}
}

// checkPrevious adds errors to diags for expressions of the provision and bind actions that read the current
// deployment, except in the checks and the update block of provision.bosh. The value of such an expression would differ
// between the deployment and the broker's later check for pending changes, so that the instance would always have
// pending changes.
func checkPrevious(service *Service, diags *diag.List) {
	isRule := func(expression Expression) bool { return expression.Rule }
	expressions := slices.Concat(slices.DeleteFunc(service.Provision.Expressions(), isRule), service.Bind.Expressions())
	for _, expression := range expressions {
		for _, name := range Previous(expression.Template) {
			diags.Errorf(name.Pos, "previous",
				"%q may only be used in provision.bosh.checks and provision.bosh.update: "+
					"here its value would differ in the broker's check for pending changes", name.Name)
		}
	}
}

// Previous returns the variables and functions of an expression that read the current deployment: those whose names
// begin with "previous." or "previous_plan.". Variables come first, each kind in the order of the text and with
// repetitions. The result is empty if there are none. The template must not be nil.
func Previous(template *expr.Template) []expr.Reference {
	calls := value.Convert(template.Calls(), func(call expr.Call) expr.Reference {
		return expr.Reference{Name: call.Name, Pos: call.Pos}
	})
	names := slices.Concat(template.References(), calls)
	return slices.DeleteFunc(names, func(name expr.Reference) bool {
		return !strings.HasPrefix(name.Name, "previous.") && !strings.HasPrefix(name.Name, "previous_plan.")
	})
}

// UAAClient is the prefix of the names of the UAA client's fields, in expressions and in carry_over.
const UAAClient = "uaa_client."

// checkCarryOver adds errors to diags for entries of carry_over that are not named after an input, secret, reference or
// field of the UAA client, and for paths that are not absolute. Every name that begins with UAAClient counts as such a
// field. The action must have a bosh section.
func checkCarryOver(action *Action, diags *diag.List) {
	references := value.Convert(action.Bosh.References, func(r Reference) string { return r.Name })
	declared := slices.Concat(action.InputNames(), action.Bosh.secretNames(), references)
	for _, name := range value.Keys(action.Bosh.CarryOver) {
		pos := action.Bosh.carryOverPos[name]
		if !slices.Contains(declared, name) && !strings.HasPrefix(name, UAAClient) {
			diags.Errorf(pos, "carry-over", "carry_over.%s is neither an input nor a secret%s", name,
				diag.Suggest(name, declared))
		}
		for _, path := range action.Bosh.CarryOver[name] {
			if !strings.HasPrefix(path, "/") {
				diags.Errorf(pos, "carry-over", "the path of carry_over.%s must start with \"/\"", name)
			}
		}
	}
}

// checkReferences adds errors to diags for references with an invalid name, or with the name of an input, secret or
// other reference: ((name)) in the manifest would be replaced by the reference, which would hide the other. The action
// must have a bosh section.
func checkReferences(action *Action, diags *diag.List) {
	taken := slices.Concat(action.InputNames(), action.Bosh.secretNames())
	for _, reference := range action.Bosh.References {
		switch {
		case !secretName.MatchString(reference.Name):
			diags.Errorf(reference.Pos, "reference-name",
				"reference name %q may only contain letters, digits, underscores and hyphens", reference.Name)
		case slices.Contains(taken, reference.Name):
			diags.Errorf(reference.Pos, "reference-name",
				"reference name %q is also the name of an input, a secret or another reference", reference.Name)
		}
		taken = append(taken, reference.Name)
	}
}

// checkPlanDefaults adds errors to diags for names in plan_defaults that are not user inputs. The action must have a
// bosh section.
func checkPlanDefaults(action *Action, diags *diag.List) {
	inputs := Names(action.UserInputs)
	for _, name := range action.Bosh.PlanDefaults {
		if !slices.Contains(inputs, name) {
			diags.Errorf(action.Bosh.Pos, "plan-default", "plan_defaults names %q, which is not a user input%s", name,
				diag.Suggest(name, inputs))
		}
	}
}

// PlanOwned reports whether a user cannot set the named input because the properties of the plan contain it, even with
// the value nil. An input that is listed under plan_defaults is not owned by the plan.
func (a *Action) PlanOwned(properties map[string]any, name string) bool {
	_, set := properties[name]
	return set && (a.Bosh == nil || !slices.Contains(a.Bosh.PlanDefaults, name))
}

// readsVariable reports whether a reference reads a variable, a part of it, or a map that contains it. The name of the
// variable may contain dots, because it may be a key of a map: a reference a["b"] reads the variable a.b, and a
// reference a or a[...] with a computed key counts as reading it.
func readsVariable(reference expr.Reference, variable string) bool {
	if reference.Name == variable || strings.HasPrefix(reference.Name, variable+".") {
		return true
	}
	key, below := strings.CutPrefix(variable, reference.Name+".")
	return below && (!reference.Indexed || reference.Key == "" || reference.Key == key)
}
