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

// isEphemeral reports whether the value of an input of the provision action must not be stored.
func (in *inputs) isEphemeral(name string) bool { return slices.Contains(in.ephemeral, name) }

// checkEphemeral returns an error if a later request could not generate the same manifest because the value of an
// ephemeral input is not stored: if the input is a parameter or generated and the manifest or any expression but those
// of ephemeral inputs reads it, if an ephemeral variable is computed from a parameter, or if an expression reads the
// UAA client, whose secret the broker sends only once.
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

// checkReaders returns an error, with the first position, if anything but an ephemeral input reads the input name,
// which must be ephemeral: an expression of another input, of a check or of provision.bosh, such as that of an output,
// or a document of provision.bosh that contains ((name)).
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

// withoutEphemeral removes the values of ephemeral inputs from the received data: parameters of the provision action,
// and properties of the plan that only ephemeral inputs of the bind action read.
func (in *inputs) withoutEphemeral(received *record.Received) {
	maps.DeleteFunc(received.Parameters, func(name string, _ any) bool { return in.isEphemeral(name) })
	bind := &in.Service.Bind
	if ephemeral := bind.EphemeralInputs(); len(ephemeral) > 0 {
		stored := bind.WithoutInputs(ephemeral)
		received.PlanProperties = usedEntries(in.Plan.Properties, stored, "request.plan_properties",
			brokerpak.Names(stored.PlanInputs))
	}
}
