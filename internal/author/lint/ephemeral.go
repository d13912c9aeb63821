package lint

import (
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/hclfile"
)

// firstEphemeral is the first version of OpenTofu with ephemeral variables. Older ones reject a template that has one.
const firstEphemeral = "1.11.0"

// checkEphemeral adds findings to c.diags about the ephemeral variables of the action's OpenTofu template, whose values
// are never stored. If the OpenTofu that runs the pak's templates is older than 1.11.0 and therefore rejects such
// variables, it adds one error, in addition to the warnings below.
//
// An input is ephemeral if it is such a variable, or if such a variable is computed from it and the template does not
// use it as a variable itself; see brokerpak.Action.EphemeralInputs. checkEphemeral adds a warning for each ephemeral
// user input, and one for each ephemeral user or computed input whose expression generates a new value, such as a
// password, because these values are missing when the resources are changed or destroyed. module contains the parsed
// template. Without ephemeral variables, checkEphemeral does nothing.
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

// ephemeralReason returns the reason why the value of an ephemeral input is not stored, as a clause for a message: "the
// template declares the variable ephemeral" if variables contains the input, and else "an ephemeral variable of the
// template is computed from it". variables are the names of the variables that the template declares ephemeral.
func ephemeralReason(variables []string, input string) string {
	if slices.Contains(variables, input) {
		return "the template declares the variable ephemeral"
	}
	return "an ephemeral variable of the template is computed from it"
}
