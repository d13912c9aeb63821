// Package schemas knows what a request and a manifest may look like: it checks parameters against the inputs of a service
// definition, makes the JSON schemas of a plan for the on-demand broker, and checks BOSH manifests. It is the only importer
// of gojsonschema, the library that the broker itself validates with; nothing is compiled before a check needs it.
package schemas

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
)

// Request is one request of a cf user with what decides which parameters it may hold.
type Request struct {
	// Action is the provision or the bind section of the service.
	Action *brokerpak.Action
	// Plan holds the plan's properties, whose names a user may not set; nil for a binding.
	Plan map[string]any
	// Parameters are the parameters as the user sent them.
	Parameters map[string]any
	// Update is true for an update of an instance: inputs with prohibit_update are refused, and so are import inputs.
	Update bool
}

// CheckParameters checks the names of the parameters, before anything is resolved: each must be a declared input, or belong to the
// additional one, that the plan does not set and, in an update, that may change. A refused request is a *fault.UserError.
func CheckParameters(r Request) error {
	var faults []string
	unknown := false
	supported := r.supported()
	for _, name := range slices.Sorted(maps.Keys(r.Parameters)) {
		subject, input := "parameter "+quote(name), r.Action.InputOf(name)
		switch {
		case r.Action.PlanOwned(r.Plan, name), r.Action.PlanOwned(r.Plan, input):
			faults = append(faults, subject+" is set by the plan and cannot be changed")
		case slices.Contains(supported, input):
		case r.Update && slices.Contains(brokerpak.Names(r.Action.UserInputs), input):
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

// supported returns the names that the request may use.
func (r Request) supported() []string {
	var names []string
	for _, input := range r.Action.UserInputs {
		if !r.Action.PlanOwned(r.Plan, input.Name) && (!r.Update || !input.ProhibitUpdate) {
			names = append(names, input.Name)
		}
	}
	if !r.Update {
		for _, input := range r.Action.ImportInputs {
			names = append(names, input.Name)
		}
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
