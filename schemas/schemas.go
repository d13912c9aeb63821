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

// CheckParameters checks the names of the parameters that a user sent; CheckValues checks the values later. Each
// parameter must be a user input or import input of the action, or be covered by its additional input. Neither the
// parameter nor the additional input that covers it may be owned by the plan; see brokerpak.Action.PlanOwned. In an
// update (update is true), it must also be changeable and must not be an import input. The argument plan contains the
// properties of the plan; it is nil for a binding, which may set inputs that the plan sets.
//
// CheckParameters returns nil if all parameters are accepted. Otherwise it returns a *fault.UserError that names each
// rejected parameter, sorted, with the reason. If one of them is neither owned by the plan nor a user input, nor
// covered by an additional input, the error names only the first nine, counts the others and also lists the supported
// parameters.
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

// supported returns the sorted names of the user inputs and import inputs of the action that a request may set, without
// duplicates. plan contains the properties of the plan and may be nil; user inputs that the plan owns are left out. For
// an update, user inputs that cannot be changed and all import inputs are left out as well. The result is nil if there
// are none.
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

// suggestion returns a remark with that one of the supported names that is most similar to a misspelled name, such as
// ` (did you mean "size"?)` with a leading space. It returns "" if none is similar.
func suggestion(name string, supported []string) string {
	if text := strings.TrimPrefix(string(diag.Suggest(name, supported)), "; "); text != "" {
		return " (" + text + ")"
	}
	return ""
}

// maxFaults is the number of faults that a message lists. It only counts the others.
const maxFaults = 9

// limit returns the list itself if it has at most nine elements (maxFaults). Otherwise it returns a new list with the
// first nine and a last element with the number of the others, such as "and 3 more".
func limit(faults []string) []string {
	if len(faults) <= maxFaults {
		return faults
	}
	rest := strconv.Itoa(len(faults) - maxFaults)
	return append(slices.Clone(faults[:maxFaults]), "and "+rest+" more")
}

// userError returns a *fault.UserError whose message consists of all faults, separated by semicolons. Each fault is a
// sentence about a parameter that the end user may read. userError returns nil if there are no faults.
func userError(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return &fault.UserError{Message: strings.Join(faults, "; ")}
}

// maxQuoted is the number of bytes that a message repeats of a name that a user chose.
const maxQuoted = 64

// quote returns a name in double quotes for a message, as a Go string literal with escapes. The name may contain any
// characters of a JSON key. Of a name of more than 64 bytes (maxQuoted), only the first 64 are quoted, without an
// incomplete character at their end, and "…" follows the closing quote.
func quote(name string) string {
	if len(name) > maxQuoted {
		return strconv.Quote(strings.ToValidUTF8(name[:maxQuoted], "")) + "…"
	}
	return strconv.Quote(name)
}
