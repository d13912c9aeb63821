package manifestgen

import (
	"fmt"
	"maps"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/record"
)

// Values of ephemeral inputs are not part of the manifest and its record. An inline template gets those that this
// request can evaluate; if an errand applies the template, they are secrets of the manifest like sensitive inputs.

// isEphemeral reports whether the value of an input of the provision action must not be stored: because the provision
// template declares the variable of this name ephemeral, or because such a variable is computed from the input,
// directly or through other inputs, and the input is not itself a variable of the template. It is false for names that
// are not inputs or variables.
func (in *inputs) isEphemeral(name string) bool { return slices.Contains(in.ephemeral, name) }

// checkEphemeral returns the first reason why a later request could not generate the same manifest without the stored
// values of ephemeral inputs, as an error with a position in the definition, or nil. The reasons are:
//
//   - An ephemeral variable of the provision template is computed from a user input that is not itself a variable of
//     the template.
//   - The expression of an ephemeral computed input reads the UAA client, whose secret the broker sends only once.
//   - The manifest, or an expression other than that of an ephemeral input, reads an ephemeral input that is a user
//     input or whose expression generates the value (see checkReaders).
//
// The errors concern the definition, not the parameters of this request, and are not *fault.UserErrors.
func checkEphemeral(in *inputs) error {
	action := &in.Service.Provision
	for _, input := range action.UserInputs {
		switch {
		case !in.isEphemeral(input.Name):
		case !in.module.Variables[input.Name].Ephemeral:
			return fmt.Errorf("%s: an ephemeral variable is computed from parameter %q, which is not stored, so later "+
				"requests cannot compute it: make the parameter itself the variable", input.Pos, input.Name)
		default:
			if err := checkReaders(in, input.Name); err != nil {
				return err
			}
		}
	}
	for _, input := range action.ComputedInputs {
		switch template := input.DefaultExpr; {
		case !in.isEphemeral(input.Name) || template == nil:
		case brokerpak.ReadsClient(template):
			return fmt.Errorf("%s: the ephemeral input %q reads the UAA client, which the manifest would have to store",
				template.Pos(), input.Name)
		case brokerpak.Generates(template):
			if err := checkReaders(in, input.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkReaders returns an error if the value of the ephemeral input name is read by an expression of the provision
// action other than those of ephemeral inputs, for example that of a check, an output or an input that is not
// ephemeral, or by a document of provision.bosh that contains ((name)). The error contains the position of the first
// such use. checkReaders returns nil if there is none. It does not check that the input is ephemeral, and it does not
// inspect the bind action.
func checkReaders(in *inputs, name string) error {
	at, isRead := in.Service.Provision.WithoutInputs(in.ephemeral).FindReader(name, true)
	if positions := in.bosh.PositionsOf(name); !isRead && len(positions) > 0 {
		at, isRead = positions[0], true
	}
	if !isRead {
		return nil
	}
	return fmt.Errorf("%s: the value of input %q is not stored, because it is an ephemeral variable of the provision "+
		"template, so only ephemeral inputs may read it", at, name)
}

// withoutEphemeral removes, in place, the values of ephemeral inputs from received, the data of the request that the
// record keeps. It deletes the ephemeral inputs of the provision action from the map received.Parameters, which must
// not be shared. If the bind action has ephemeral inputs, it also replaces received.PlanProperties by a new map with
// only those properties of the plan that are other plan inputs of the bind action or that its other expressions read.
func (in *inputs) withoutEphemeral(received *record.Received) {
	maps.DeleteFunc(received.Parameters, func(name string, _ any) bool { return in.isEphemeral(name) })
	bind := &in.Service.Bind
	if ephemeral := bind.EphemeralInputs(); len(ephemeral) > 0 {
		stored := bind.WithoutInputs(ephemeral)
		received.PlanProperties = usedEntries(in.Plan.Properties, stored, "request.plan_properties",
			brokerpak.Names(stored.PlanInputs))
	}
}
