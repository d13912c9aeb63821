package brokerpak

import (
	"slices"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// checkBosh adds errors to diags for violations of the rules for a service with the section provision.bosh that concern
// several parts of the definition: names of inputs, expressions that read the previous deployment, carry_over,
// references, plan_defaults and secrets. It does nothing for a service without this section.
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

// checkInputNames adds an error to diags for each declared input of the action whose name contains a dot, at the
// position of the input. BOSH interprets ((a.b)) in a manifest as the key b of a variable a.
func checkInputNames(action *Action, diags *diag.List) {
	for name, pos := range action.inputs() {
		if strings.Contains(name, ".") {
			diags.Errorf(pos, "input-name",
				"the name of input %q must not contain a dot: in a BOSH manifest ((%s)) is a part of ((%s))",
				name, name, name[:strings.Index(name, ".")])
		}
	}
}

// checkPrevious adds errors to diags for expressions of the provision and bind sections that read the deployment as it
// was before the request (see Previous), except in the checks and the update block of provision.bosh. The value of such
// an expression would differ between the deployment and the broker's later check for pending changes, so that the
// instance would always have pending changes. A bind section must not contain such expressions at all.
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

// Previous returns the variables and functions in an expression that read the deployment as it was before the
// request: those whose names begin with "previous." or "previous_plan.". No other name reads that deployment, not
// even "previous" itself. A function is returned as a Reference with its name and position. Variables come first,
// each kind in the order of the text and with repetitions. The result is empty if there are none. The template must
// not be nil.
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

// checkCarryOver adds errors to diags for entries of carry_over, which map names to paths in a manifest of another
// adapter. It reports a name that is not that of a declared input, a secret or a reference and does not begin with
// UAAClient ("uaa_client."), and a path that does not begin with "/". The action must have a bosh section.
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

// checkReferences adds errors to diags for entries of provision.bosh.references with an invalid name, or with the name
// of an input, a secret or an earlier reference: ((name)) in the manifest is replaced by the reference, which would
// hide the other. A valid name consists of letters, digits, underscores and hyphens, and neither begins nor ends with a
// hyphen. The action must have a bosh section.
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

// checkPlanDefaults adds an error to diags for each name in provision.bosh.plan_defaults that is not the name of a user
// input of the action. The position of the error is that of the bosh section. The action must have a bosh section.
func checkPlanDefaults(action *Action, diags *diag.List) {
	inputs := Names(action.UserInputs)
	for _, name := range action.Bosh.PlanDefaults {
		if !slices.Contains(inputs, name) {
			diags.Errorf(action.Bosh.Pos, "plan-default", "plan_defaults names %q, which is not a user input%s", name,
				diag.Suggest(name, inputs))
		}
	}
}

// PlanOwned reports whether a user cannot set the input with this name, because the plan sets it. That is so if
// properties, the properties of the plan by name, contain the name, even with the value nil, and
// provision.bosh.plan_defaults of the action does not list it. properties may be nil. PlanOwned does not check whether
// such an input exists.
func (a *Action) PlanOwned(properties map[string]any, name string) bool {
	_, set := properties[name]
	return set && (a.Bosh == nil || !slices.Contains(a.Bosh.PlanDefaults, name))
}

// readsVariable reports whether a reference in an expression reads a variable, a part of it, or a map that contains it.
// variable is the full name of the variable, such as "a.b" for the key b of the map a. It is read by the references
// a.b, a.b.c, a["b"], a, which reads the whole map, and a[...] with a computed key, which may read it. The reference
// a["c"] does not read it.
func readsVariable(reference expr.Reference, variable string) bool {
	if reference.Name == variable || strings.HasPrefix(reference.Name, variable+".") {
		return true
	}
	key, below := strings.CutPrefix(variable, reference.Name+".")
	return below && (!reference.Indexed || reference.Key == "" || reference.Key == key)
}
