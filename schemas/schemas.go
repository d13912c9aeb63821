// Package schemas validates requests and manifests. It checks parameters against the inputs of a service definition,
// generates the JSON schemas of a plan for the on-demand broker, and checks BOSH manifests. It is the only importer of
// gojsonschema, the library that the broker itself validates with. No schema is compiled before a check needs it.
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

// CheckParameters checks the names of the parameters that a user sent, before anything is resolved; CheckValues checks
// the values. Each must be an input of the action, or be covered by its additional input. It must not be owned by the
// plan; see brokerpak.Action.PlanOwned. In an update, it must also be changeable and must not be an import input. plan
// contains the properties of the plan; it is nil for a binding, which may set what a plan sets. If parameters are
// rejected, CheckParameters returns a *fault.UserError that names up to nine of them.
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

// supported returns the sorted names of the inputs that a request may set, without duplicates. plan contains the
// properties of the plan; inputs that the plan owns are left out. For an update, inputs that cannot be changed and
// import inputs are left out as well.
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

// suggestion returns the name in known that is most similar to a name, as a remark in parentheses, or "" if none is.
func suggestion(name string, known []string) string {
	if text := strings.TrimPrefix(string(diag.Suggest(name, known)), "; "); text != "" {
		return " (" + text + ")"
	}
	return ""
}

// maxFaults is the number of faults that a message lists. It only counts the others.
const maxFaults = 9

// limit returns a list with the first maxFaults of the faults, or all if there are not more, followed by a text with
// the number of the others if there are more.
func limit(faults []string) []string {
	if len(faults) <= maxFaults {
		return faults
	}
	rest := strconv.Itoa(len(faults) - maxFaults)
	return append(slices.Clone(faults[:maxFaults]), "and "+rest+" more")
}

// userError returns a *fault.UserError of one line with all faults, each of which names a parameter. It returns nil if
// there are none.
func userError(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return &fault.UserError{Message: strings.Join(faults, "; ")}
}

// maxQuoted is the number of bytes that a message repeats of a name that a user chose.
const maxQuoted = 64

// quote returns a name in quotes. The name may contain any characters of a JSON key, and is cut after maxQuoted bytes.
func quote(name string) string {
	if len(name) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(name[:maxQuoted], "")) + "…"
	}
	return strconv.Quote(name)
}
