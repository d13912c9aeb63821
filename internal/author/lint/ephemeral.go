package lint

import (
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/hclfile"
)

// firstEphemeral is the first version of OpenTofu with ephemeral variables. Older ones reject a template that has one.
const firstEphemeral = "1.11.0"

// checkEphemeral adds findings about the ephemeral variables of a template, whose values are never stored: a warning
// for each of their values that cannot be evaluated again when the resources are destroyed, because a user sends or the
// adapter generates it, and an error if the OpenTofu of the pak does not support such variables.
func checkEphemeral(c *serviceCheck, action *brokerpak.Action, module *hclfile.Module) {
	variables := module.EphemeralVariables()
	if len(variables) == 0 {
		return
	}
	version, err := c.pak.Manifest.DefaultVersion()
	if err == nil && opentofu.Older(version, firstEphemeral) {
		c.diags.Errorf(templatePosition(action, module.Variables[variables[0]].Pos), "ephemeral-version",
			"variable %q is ephemeral, which OpenTofu %s of the pak rejects; %s and newer ones support it",
			variables[0], version, firstEphemeral)
	}
	names := action.EphemeralInputs()
	for _, input := range action.UserInputs {
		if slices.Contains(names, input.Name) {
			c.diags.Warnf(input.Pos, "ephemeral-parameter",
				"the value of the user input %q is not stored, because %s, so it is missing when the resources are "+
					"changed or destroyed", input.Name, ephemeralReason(variables, input.Name))
		}
	}
	for _, input := range slices.Concat(action.UserInputs, action.ComputedInputs) {
		if slices.Contains(names, input.Name) && input.DefaultExpr != nil && brokerpak.Generates(input.DefaultExpr) {
			c.diags.Warnf(input.DefaultExpr.Pos(), "ephemeral-generated",
				"the generated value of %q is not stored, because %s, so it is missing when the resources are "+
					"changed or destroyed", input.Name, ephemeralReason(variables, input.Name))
		}
	}
}

// ephemeralReason returns the reason why the value of an ephemeral input is not stored, as a clause. variables are the
// names of the variables that the template declares ephemeral. An input that is not among them counts as one from which
// such a variable is computed.
func ephemeralReason(variables []string, input string) string {
	if slices.Contains(variables, input) {
		return "the template declares the variable ephemeral"
	}
	return "an ephemeral variable of the template is computed from it"
}
