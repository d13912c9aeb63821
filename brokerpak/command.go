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

// generateTemplate generates the OpenTofu file of a bind action with a command, which is an executable of the pak that
// creates and deletes bindings. It stores the text in Templates of the action under the name _command.tf
// (hclfile.CommandFile); TemplateSources does not get an entry. For each output that the other files do not declare,
// generateTemplate appends an input with the output's value to ComputedInputs. mapping contains the nodes of the bind
// section.
//
// generateTemplate adds errors to the diagnostics of d. It generates nothing if another file of the template declares
// resources, data sources or modules, if one declares ephemeral variables, or if one is named _command.tf; it then
// reports only the first of these faults. Otherwise it generates the file even if it reports errors: a command that is
// not an executable of the pak (see checkCommand), invalid names, and outputs without a value or with two (see
// commandTemplate). Without a command, generateTemplate only reports outputs that have a value and a command that is
// the empty text; see reportValues.
func (d *definition) generateTemplate(mapping mappingNode, action *Action) {
	if action.Command == "" {
		d.reportValues(mapping, action)
		return
	}
	written, _ := hclfile.Inspect(action.Templates) // pak validate reports faults of the files
	if all := slices.Concat(written.Resources, written.Data, written.Modules); len(all) > 0 {
		d.failf(mapping.posOf("command"), "conflict", "the template of a bind with a command may only have outputs, "+
			"with the locals and variables that they need, and it has %s; the adapter generates the resources",
			diag.Names(all))
		return
	}
	if ephemeral := written.EphemeralVariables(); len(ephemeral) > 0 {
		d.failf(mapping.posOf("command"), "conflict", "the template of a bind with a command must not declare "+
			"ephemeral variables, because the command reads its inputs from files, and it declares %s",
			diag.Names(ephemeral))
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

// reportValues checks a bind action without a command. It adds an error to the diagnostics of d for each output that
// has a value other than null (the key value), because only outputs of a command may have one; otherwise the template
// contains the value. It also adds an error if the key command is the empty text. mapping contains the nodes of the
// bind section.
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

// checkCommand adds an error at pos to the diagnostics of d unless the command is the name of an executable of the pak,
// which is an entry of terraform_binaries that is neither OpenTofu nor a provider. It also adds an error for such a
// name that a shell could interpret: a name must consist of ASCII letters, digits and the characters ".", "_", "+" and
// "-", and must begin with a letter, a digit or "_".
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

// commandTemplate returns the description of the generated OpenTofu file for a bind action with a command. written
// describes the other files of the template, and must not be nil. The file has a variable for each plan, user and
// computed input, sorted by name, and an output, in the order of the definition, for each output that the other files
// do not declare. For each of these outputs, commandTemplate appends a computed input with the output's value to
// ComputedInputs of the action; its name is "_output_" and the name of the output, and it also becomes a variable.
// Variables that the other files declare are marked as Declared, and secrets (see secretInputs) as Sensitive.
//
// An output that has neither a value nor an output in the other files is reported as an error in the diagnostics of d,
// but is in the result all the same, and its computed input is null. An output that has both is reported as well. Names
// that cannot be variables of the template (see checkVariable) are reported and are left out of the result; no computed
// input is appended for such an output.
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

// checkVariable reports whether an input or output can be declared in the generated template of a command. Its name
// must be an identifier of ASCII letters, digits, "_" and "-" that does not begin with a digit or "-". It must not be a
// name that OpenTofu reserves, such as "count", or begin with a prefix of the adapter, such as "_output_". For any
// other name, checkVariable returns false and adds an error to the diagnostics of d. kind is the word for the variable
// in the error: "input" or "output".
func (d *definition) checkVariable(kind string, variable Variable) bool {
	valid := hclfile.IsVariableName(variable.Name) && !strings.HasPrefix(variable.Name, hclfile.OutputVariable)
	if !valid {
		d.failf(variable.Pos, "command", "%s %q of a bind with a command must be an identifier of letters, digits, "+
			"\"_\" and \"-\" that neither OpenTofu nor the adapter reserves", kind, variable.Name)
	}
	return valid
}

// secretInputs returns a map with the names of all plan, user and computed inputs of the action. The value is true for
// an input that counts as a secret: its name denotes a secret, such as "password", its default or computed value is an
// expression that calls rand.base64, or that expression reads a secret input that precedes it in the order of plan,
// user and computed inputs. The value is false for all others. The map is empty if the action has no inputs.
func (a *Action) secretInputs() map[string]bool {
	secret := map[string]bool{}
	for _, input := range slices.Concat(a.PlanInputs, a.UserInputs, a.ComputedInputs) {
		secret[input.Name] = secret[input.Name] || redact.Named(input.Name, "text") ||
			input.DefaultExpr != nil && derivesSecret(input.DefaultExpr, secret)
	}
	return secret
}

// derivesSecret reports whether an expression may contain a secret: it calls rand.base64, which generates a random
// text, or reads a variable whose name has the value true in the map secret, a part of one, or a map that contains one.
// The map secret contains the names of inputs. The template must not be nil.
func derivesSecret(template *expr.Template, secret map[string]bool) bool {
	generates := func(call expr.Call) bool { return call.Name == "rand.base64" }
	readsSecret := func(reference expr.Reference) bool {
		for name, isSecret := range secret {
			if isSecret && readsVariable(reference, name) {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(template.Calls(), generates) ||
		slices.ContainsFunc(template.References(), readsSecret)
}
