package brokerpak

import (
	"regexp"
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
	checkSecrets(&service.Provision, diags)
}

// checkInputNames refuses names with a dot: ((a.b)) in a BOSH manifest is the key b of a variable a.
func checkInputNames(action *Action, diags *diag.List) {
	check := func(name string, pos diag.Pos) {
		if strings.Contains(name, ".") {
			diags.Errorf(pos, "input-name", "the name of input %q must not hold a dot: in a BOSH manifest ((%s)) is a part of ((%s))",
				name, name, name[:strings.Index(name, ".")])
		}
	}
	for _, variable := range slices.Concat(action.PlanInputs, action.UserInputs) {
		check(variable.Name, variable.Pos)
	}
	for _, computed := range action.ComputedInputs {
		check(computed.Name, computed.Pos)
	}
	for _, input := range action.ImportInputs {
		check(input.Name, input.Pos)
	}
}

// previousName matches the variables and functions that tell about the deployment as it is.
var previousName = regexp.MustCompile(`^previous(_plan)?\.`)

// checkPrevious keeps those names to the rules and the update block. A value that they decide differs between the broker's
// check for pending changes and the deployment itself, so that the instance would have pending changes for ever.
func checkPrevious(service *Service, diags *diag.List) {
	refuse := func(name string, pos diag.Pos) {
		if previousName.MatchString(name) {
			diags.Errorf(pos, "previous", "%q may only be used in provision.bosh.checks and provision.bosh.update: "+
				"here its value would differ in the broker's check for pending changes", name)
		}
	}
	for _, template := range slices.Concat(service.Provision.valueExpressions(), service.Bind.expressions()) {
		for _, reference := range template.References() {
			refuse(reference.Name, reference.Pos)
		}
		for _, call := range template.Calls() {
			refuse(call.Name, call.Pos)
		}
	}
}

// checkCarryOver: each entry fills an input or a secret from a place in a manifest.
func checkCarryOver(action *Action, diags *diag.List) {
	known := action.InputNames()
	for _, secret := range action.Bosh.Secrets {
		known = append(known, secret.Name)
	}
	for _, name := range value.Keys(action.Bosh.CarryOver) {
		pos := action.Bosh.carryOverAt[name]
		if !slices.Contains(known, name) {
			diags.Errorf(pos, "carry-over", "carry_over.%s is neither an input nor a secret%s", name, diag.Suggest(name, known))
		}
		if !strings.HasPrefix(action.Bosh.CarryOver[name], "/") {
			diags.Errorf(pos, "carry-over", "the path of carry_over.%s must start with \"/\"", name)
		}
	}
}

// reads tells whether a reference sees the value of a variable, or a part of it. Names with dots may be keys of a map.
func reads(reference expr.Reference, variable string) bool {
	if reference.Name == variable || strings.HasPrefix(reference.Name, variable+".") {
		return true
	}
	key, below := strings.CutPrefix(variable, reference.Name+".")
	return below && (!reference.Indexed || reference.Key == "" || reference.Key == key)
}
