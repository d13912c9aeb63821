package hclfile

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
)

// CommandFile is the file name of a template that CommandTemplate.Text returned. A record stores the template under
// this name. Whoever runs a template that has a file of this name must provide CommandInputs and CommandInputsDir in
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

// A CommandTemplate describes a file of a template whose only effect is to run a command: it runs "COMMAND create" when
// the template is applied and "COMMAND delete" when it is destroyed. Other files may have outputs.
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

// A CommandInput is a variable of a CommandTemplate.
type CommandInput struct {
	Name string
	// Sensitive means that the value is a secret.
	Sensitive bool
	// Declared means that another file of the template declares the variable.
	Declared bool
}

// A CommandOutput is an output of a CommandTemplate. With Nullable, the output does not exist if its value is the empty
// text.
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

// IsVariableName reports whether a name can be the name of a variable or an output of a CommandTemplate: an identifier
// of ASCII letters, digits, underscores and hyphens that begins with a letter or an underscore, and that neither
// OpenTofu reserves, such as "count", nor this program; see isReserved.
func IsVariableName(name string) bool {
	reserved := []string{
		"source", "version", "providers", "count", "for_each", "lifecycle", "depends_on", "locals",
	}
	return variableName.MatchString(name) && !isReserved(name) && !slices.Contains(reserved, name)
}

// Text returns the template in native syntax, for a file named CommandFile. Equal CommandTemplates have equal texts.
// Text does not check the names in t.
//
// A resource is created first that creates nothing, and whose destruction runs "delete". A second resource depends on
// it and runs "create". OpenTofu therefore runs "delete" even if the creation failed, because it drops a resource whose
// creation failed without running its destroy-time commands. The second resource is replaced when an input changes; the
// first one stays, so "create" runs again and "delete" does not.
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

// writeProvisioner appends the provisioner that runs the command with an action, "create" or "delete", to text. The
// command reads the file CommandInputs from its standard input, and gets the path of CommandInputsDir in the variable
// BIND_INPUTS. when is the line that selects the time at which OpenTofu runs it, or "" for the creation of the
// resource.
func (t CommandTemplate) writeProvisioner(text *strings.Builder, action, when string) {
	fmt.Fprintf(text, "  provisioner \"local-exec\" {\n%s    command     = %s\n"+
		"    environment = { BIND_INPUTS = abspath(%s) }\n  }\n",
		when, quoted(t.Command+" "+action+" <"+CommandInputs), quoted(CommandInputsDir))
}
