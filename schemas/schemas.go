// Package schemas knows what a request and a manifest may look like: it checks parameters against the inputs of a service
// definition, makes the JSON schemas of a plan for the on-demand broker, and checks BOSH manifests. It is the only importer
// of gojsonschema, the library that the broker itself validates with; nothing is compiled before a check needs it.
package schemas

import (
	"slices"
	"strconv"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// CheckParameters checks the names of the parameters as a user sent them, before anything is resolved: each must be an input of the
// action, or belong to the additional one, that no property of the plan sets and, in an update, that may change and is no import input.
// A binding may set what a plan sets; its plan is nil. A refused request is a *fault.UserError.
func CheckParameters(action *brokerpak.Action, plan, parameters map[string]any, update bool) error {
	var faults []string
	unknown := false
	supported := supported(action, plan, update)
	for _, name := range value.Keys(parameters) {
		subject, input := "parameter "+quote(name), action.InputOf(name)
		switch {
		case action.PlanOwned(plan, name), action.PlanOwned(plan, input):
			faults = append(faults, subject+" is set by the plan and cannot be changed")
		case slices.Contains(supported, input):
		case update && slices.Contains(brokerpak.Names(action.UserInputs), input):
			faults = append(faults, subject+" cannot be changed after creation")
		default:
			unknown = true
			faults = append(faults, subject+" is not supported"+suggestion(name, supported))
		}
	}
	switch {
	case unknown && len(supported) == 0:
		faults = append(limit(faults), "no parameters are supported")
	case unknown:
		faults = append(limit(faults), "supported parameters: "+diag.Names(supported))
	}
	return userError(faults)
}

// supported returns the names that a request may use.
func supported(action *brokerpak.Action, plan map[string]any, update bool) []string {
	var names []string
	for _, input := range action.UserInputs {
		if !action.PlanOwned(plan, input.Name) && (!update || !input.ProhibitUpdate) {
			names = append(names, input.Name)
		}
	}
	if !update {
		names = append(names, brokerpak.Names(action.ImportInputs)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func suggestion(name string, known []string) string {
	if text := strings.TrimPrefix(string(diag.Suggest(name, known)), "; "); text != "" {
		return " (" + text + ")"
	}
	return ""
}

// maxFaults is how many faults a message lists before it only counts the rest.
const maxFaults = 9

func limit(faults []string) []string {
	if len(faults) <= maxFaults {
		return faults
	}
	rest := strconv.Itoa(len(faults) - maxFaults)
	return append(slices.Clone(faults[:maxFaults]), "and "+rest+" more")
}

// userError makes one line of sentences that begin with the name of a parameter each; nil when there is none.
func userError(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return &fault.UserError{Message: strings.Join(faults, "; ")}
}

// maxQuoted is how much of a name that a user chose is repeated, in bytes.
const maxQuoted = 64

// quote shows a name, which may be anything a JSON key may be.
func quote(name string) string {
	if len(name) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(name[:maxQuoted], "")) + "…"
	}
	return strconv.Quote(name)
}
