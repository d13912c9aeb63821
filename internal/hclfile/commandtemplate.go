package hclfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
)

// CommandFile is the file name of a template that CommandTemplate.Text returned. A record stores the template under
// this name. A caller that runs a template with a file of this name must provide CommandInputs and CommandInputsDir in
// the working directory, because the commands in the template read them.
const CommandFile = "_command.tf"

// The files that the commands of a CommandTemplate read, relative to the working directory of OpenTofu.
const (
	// CommandInputs is the name of the file with the inputs of the command as one JSON object.
	CommandInputs = "bind-inputs.json"
	// CommandInputsDir is the name of the directory with a file for each input.
	CommandInputsDir = "bind-inputs"
)

// OutputVariable is the prefix of the variables that contain the values of the outputs of a CommandTemplate. These
// variables are not inputs of the command.
const OutputVariable = "_output_"

// A CommandTemplate describes a generated template file, named CommandFile, whose only effect is to run a command:
// OpenTofu runs "COMMAND create" when the template is applied for the first time or with changed inputs, and "COMMAND
// delete" only when it is destroyed, not before a repeated "create". A CommandTemplate consists of the name of the
// executable, the variables that the command reads as its inputs, and the outputs. The zero value is not valid, because
// it has no command. Other files of the template may declare variables and outputs as well.
type CommandTemplate struct {
	// Command is the name of an executable. It must satisfy IsCommandName.
	Command string
	// Inputs are the variables of the template. The command runs "create" again if the value of one of them changes,
	// except those of outputs, whose names begin with OutputVariable. Each name must satisfy IsVariableName. The order
	// of the inputs determines that of the variables in the text.
	Inputs []CommandInput
	// Outputs are the outputs of the template. Inputs must contain the variable OutputVariable + NAME of each.
	Outputs []CommandOutput
}

// A CommandInput is a variable of a CommandTemplate: its name, whether its value is a secret, and whether another file
// of the template declares the variable, so that the generated file must not; Sensitive has no effect then. Variables
// whose names begin with OutputVariable contain the value of an output; all others are inputs of the command. The zero
// value is not valid, because it has no name.
type CommandInput struct {
	Name string
	// Sensitive means that the value is a secret.
	Sensitive bool
	// Declared means that another file of the template declares the variable.
	Declared bool
}

// A CommandOutput is an output of a CommandTemplate: its name, and whether it is Nullable. Its value is that of the
// variable OutputVariable + NAME. If a Nullable output would be the empty text, it is null instead, so that OpenTofu
// does not store it. The zero value is not valid, because it has no name.
type CommandOutput struct {
	Name     string
	Nullable bool
}

var (
	// commandName matches the names of executables that need no quotes in a shell.
	commandName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`)
	// variableName matches the identifiers of HCL, without those that consist of other letters than ASCII.
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
)

// IsCommandName reports whether a name can be the Command of a CommandTemplate: it consists of ASCII letters, digits
// and the characters _ . + -, and does not begin with one of the last three.
func IsCommandName(name string) bool { return commandName.MatchString(name) }

// IsVariableName reports whether a name can be the name of a variable or an output of a CommandTemplate. Such a name
// consists of ASCII letters, digits, underscores and hyphens and begins with a letter or an underscore. It is neither
// reserved by OpenTofu for variables, such as "count", nor begins with "_binding" or "_complete", which are reserved
// for the adapter.
func IsVariableName(name string) bool {
	reserved := []string{
		"source", "version", "providers", "count", "for_each", "lifecycle", "depends_on", "locals",
	}
	return variableName.MatchString(name) && !isReserved(name) && !slices.Contains(reserved, name)
}

// Text returns the template in native syntax, for a file named CommandFile. Equal CommandTemplates have equal texts.
// Text does not check the names in t: with an invalid name the text is not a valid template.
//
// The text declares the variables in t.Inputs, except those whose Declared is set, because another file declares
// them. Of the variables that the text declares, only those whose Sensitive is set are sensitive. t.Inputs must
// contain the variable OutputVariable + NAME of each output. The text also declares the outputs, which are always
// sensitive. The value of an output is that of its variable; if the output is Nullable, the empty text becomes null.
//
// The text contains two resources of the type terraform_data. The first one is created first and destroyed last. It
// creates nothing, and its destruction runs "COMMAND delete". The second resource depends on it and runs "COMMAND
// create". OpenTofu therefore runs "delete" even if the creation failed, because it drops a resource whose creation
// failed without running its destroy-time commands. The second resource is replaced when an input of the command
// changes, but not when the value of an output does. The first one stays, so "create" runs again and "delete" does not.
//
// Both commands read the file CommandInputs as their standard input, and the environment variable BIND_INPUTS contains
// the absolute path of CommandInputsDir. The caller that runs OpenTofu must provide both in its working directory.
func (t CommandTemplate) Text() string {
	var text strings.Builder
	text.WriteString("# The adapter generated this file from the key `command` of the service definition.\n\n")
	inputs := make([]string, 0, len(t.Inputs))
	for _, input := range t.Inputs {
		switch {
		case input.Declared:
		case input.Sensitive:
			fmt.Fprintf(&text, "variable %s {\n  sensitive = true\n}\n\n", quoted(input.Name))
		default:
			fmt.Fprintf(&text, "variable %s {}\n\n", quoted(input.Name))
		}
		if !strings.HasPrefix(input.Name, OutputVariable) {
			inputs = append(inputs, input.Name)
		}
	}
	text.WriteString("# This resource creates nothing. It is created first and destroyed last, so that the command\n" +
		"# deletes the binding even if the creation failed.\n" +
		"resource \"terraform_data\" \"delete\" {\n")
	t.writeProvisioner(&text, "delete", "    when        = destroy\n")
	text.WriteString("}\n\n# OpenTofu replaces this resource when an input changes.\n" +
		"resource \"terraform_data\" \"create\" {\n  depends_on = [terraform_data.delete]\n" +
		"  triggers_replace = sha256(jsonencode({\n")
	for _, name := range inputs {
		fmt.Fprintf(&text, "    %s = var.%s\n", quoted(name), name)
	}
	text.WriteString("  }))\n\n")
	t.writeProvisioner(&text, "create", "")
	text.WriteString("}\n")
	for _, output := range t.Outputs {
		variable := "var." + OutputVariable + output.Name
		expression := variable
		if output.Nullable {
			expression = fmt.Sprintf(`%s == "" ? null : %s`, variable, variable)
		}
		fmt.Fprintf(&text, "\noutput %s {\n  value     = %s\n  sensitive = true\n}\n", quoted(output.Name), expression)
	}
	return string(hclwrite.Format([]byte(text.String())))
}

// writeProvisioner appends a local-exec provisioner to text, which runs the shell command "COMMAND ACTION" with the
// file CommandInputs as its standard input, and the absolute path of CommandInputsDir in the environment variable
// BIND_INPUTS. action is "create" or "delete". when is the complete line, with indentation and newline, that sets the
// argument `when` of the provisioner; for "", OpenTofu runs the provisioner when it creates the resource.
func (t CommandTemplate) writeProvisioner(text *strings.Builder, action, when string) {
	fmt.Fprintf(text, "  provisioner \"local-exec\" {\n%s    command     = %s\n"+
		"    environment = { BIND_INPUTS = abspath(%s) }\n  }\n",
		when, quoted(t.Command+" "+action+" <"+CommandInputs), quoted(CommandInputsDir))
}
