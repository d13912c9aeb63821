package brokerpak

import (
	"slices"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
)

// generateTemplate adds the file hclfile.CommandFile, which it generates, to Templates of a bind action with a command,
// and adds to its ComputedInputs the inputs that contain the values of the outputs. mapping contains the nodes of the
// section. generateTemplate reports errors at the same time: a command that is not an executable of the pak (see
// checkCommand), and those of commandTemplate; the file is generated all the same. It generates nothing, and reports
// the reason, if another file of the template declares resources, data sources, modules or ephemeral variables, or has
// the name of the generated file. Without a command, it only reports the errors of reportValues.
func (d *definition) generateTemplate(mapping mappingNode, action *Action) {
	if action.Command == "" {
		d.reportValues(mapping, action)
		return
	}
	written, _ := hclfile.Inspect(action.Templates) // pak validate reports faults of the files
	if all := slices.Concat(written.Resources, written.Data, written.Modules); len(all) > 0 {
		d.failf(mapping.posOf("command"), "conflict", "a template beside command may only have outputs, with the "+
			"locals and variables that they need, and it has %s; the adapter generates the resources", diag.Names(all))
		return
	}
	if ephemeral := written.EphemeralVariables(); len(ephemeral) > 0 {
		d.failf(mapping.posOf("command"), "conflict", "the template beside command must not declare ephemeral "+
			"variables, because the command reads its inputs from files, and it declares %s", diag.Names(ephemeral))
		return
	}
	if _, taken := action.Templates[hclfile.CommandFile]; taken {
		d.failf(mapping.posOf("command"), "conflict", "the adapter generates the file %s of the template of a command",
			hclfile.CommandFile)
		return
	}
	d.checkCommand(mapping.posOf("command"), action.Command)
	template := d.commandTemplate(action, written)
	action.Templates[hclfile.CommandFile] = template.Text()
}

// reportValues reports the outputs of a bind action without a command that have a value, because their values are in
// the template. It also reports a command that is the empty text.
func (d *definition) reportValues(mapping mappingNode, action *Action) {
	if mapping.has("command") {
		d.failf(mapping.posOf("command"), "command", "command must not be empty")
	}
	for _, output := range action.Outputs {
		if output.Value != nil {
			d.failf(output.Pos, "conflict",
				"output %q may have a value only if bind has a command; otherwise the template has its value",
				output.Name)
		}
	}
}

// checkCommand reports a command that is not an executable of the pak, or that a shell would not run as it is. pos is
// the position of the command.
func (d *definition) checkCommand(pos diag.Pos, command string) {
	var executables []string
	for _, binary := range d.pak.Manifest.Binaries {
		if binary.Kind() == OtherBinary {
			executables = append(executables, binary.Name)
		}
	}
	switch {
	case !slices.Contains(executables, command):
		d.failf(pos, "command", "command %q must be the name of an executable in terraform_binaries%s; it has %s",
			command, diag.Suggest(command, executables), diag.Names(executables))
	case !hclfile.IsCommandName(command):
		d.failf(pos, "command", "command %q must consist of letters, digits, \".\", \"_\", \"+\" and \"-\", "+
			"and begin with a letter, a digit or \"_\"", command)
	}
}

// commandTemplate returns the description of the generated file for an action with a command: its inputs, sorted by
// name, and its outputs, in the order of the definition. It appends to ComputedInputs of the action an input with the
// value of each output that is not one of the other files. written describes those files; variables that they declare
// are marked as Declared. Outputs that have neither a value nor an output in these files, or both, and names that
// cannot be variables of the template, are reported as errors. Such names are left out.
func (d *definition) commandTemplate(action *Action, written *hclfile.Module) hclfile.CommandTemplate {
	template, names := hclfile.CommandTemplate{Command: action.Command}, map[string]bool{}
	for _, input := range slices.Concat(action.PlanInputs, action.UserInputs, action.ComputedInputs) {
		if d.checkVariable("input", input) {
			names[input.Name] = true
		}
	}
	for _, output := range action.Outputs {
		inFile := slices.Contains(written.Outputs, output.Name)
		switch {
		case inFile && output.Value != nil:
			d.failf(output.Pos, "conflict", "output %q may have a value or be an output of the template, not both",
				output.Name)
		case !inFile && output.Value == nil:
			d.failf(output.Pos, "required", "output %q of a bind with a command needs a value", output.Name)
		}
		if inFile || !d.checkVariable("output", output) {
			continue
		}
		name := hclfile.OutputVariable + output.Name
		names[name] = true
		action.ComputedInputs = append(action.ComputedInputs, Variable{
			Name: name, Type: output.Type, Pos: output.Pos,
			DefaultValue: DefaultValue{Default: output.Value, DefaultExpr: output.ValueExpr, Overwrite: true},
		})
		template.Outputs = append(template.Outputs, hclfile.CommandOutput{Name: output.Name, Nullable: output.Nullable})
	}
	secret := action.secretInputs()
	for _, name := range value.Keys(names) {
		_, declared := written.Variables[name]
		template.Inputs = append(template.Inputs,
			hclfile.CommandInput{Name: name, Sensitive: secret[name], Declared: declared})
	}
	return template
}

// checkVariable reports an input or an output that cannot be declared in the template of a command as an error, and
// returns false for it. kind is "input" or "output".
func (d *definition) checkVariable(kind string, variable Variable) bool {
	valid := hclfile.IsVariableName(variable.Name) && !strings.HasPrefix(variable.Name, hclfile.OutputVariable)
	if !valid {
		d.failf(variable.Pos, "command", "%s %q of a bind with a command must be an identifier of letters, digits, "+
			"\"_\" and \"-\" that neither OpenTofu nor the adapter reserves", kind, variable.Name)
	}
	return valid
}

// secretInputs returns a map with the names of the action's inputs, whose values are true for secrets: inputs with a
// name that denotes a secret (see redact.Named), those whose expressions generate a random text, and those whose
// expressions read a secret input that precedes them in the order of plan, user and computed inputs.
func (a *Action) secretInputs() map[string]bool {
	secret := map[string]bool{}
	for _, input := range slices.Concat(a.PlanInputs, a.UserInputs, a.ComputedInputs) {
		secret[input.Name] = secret[input.Name] || redact.Named(input.Name, "text") ||
			input.DefaultExpr != nil && derivesSecret(input.DefaultExpr, secret)
	}
	return secret
}

// derivesSecret reports whether an expression calls rand.base64, or reads an input whose value in the map secret is
// true. The template must not be nil.
func derivesSecret(template *expr.Template, secret map[string]bool) bool {
	generates := func(call expr.Call) bool { return call.Name == "rand.base64" }
	readsSecret := func(reference expr.Reference) bool { return secret[reference.Name] }
	return slices.ContainsFunc(template.Calls(), generates) ||
		slices.ContainsFunc(template.References(), readsSecret)
}
