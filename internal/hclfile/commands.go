package hclfile

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// commandArguments are the arguments of resources, data sources and provisioners that contain a command line.
var commandArguments = []string{"command", "interpreter", "program"} //nolint:gochecknoglobals // a constant table

// commandBlock is a block of the provider scottwinkler/shell whose arguments are command lines.
const commandBlock = "lifecycle_commands"

// interpolation matches an interpolated expression that contains no braces.
var interpolation = regexp.MustCompile(`\$\{[^{}]*\}`)

// Commands returns the command lines in the resources and data sources of a template, and in the blocks within them,
// such as provisioners. files maps the names of the template's files to their texts, which are all read as native
// syntax. The command lines are sorted and without repetitions; the result is nil if there are none. Files with syntax
// errors are read as far as possible, without an error.
//
// A command line consists of the source texts of the arguments "command", "interpreter" and "program" of one block, in
// this order, followed by the sorted names of the variables in the argument "environment" of that block, all separated
// by blanks. In a block lifecycle_commands, each argument is a command line of its own, without an environment. White
// space is collapsed, and ${…} replaces each interpolation that contains no braces. For example, the command line of
// command = "deploy ${var.size}" is the text "deploy ${…}" with its quotation marks. Command lines are therefore equal
// if they run the same program with the same form of arguments.
func Commands(files map[string]string) []string {
	var commands []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, block := range topBlocks(name, files[name]) {
			if block.Type == "resource" || block.Type == "data" {
				commands = append(commands, commandsIn(block, files[name])...)
			}
		}
	}
	slices.Sort(commands)
	return slices.Compact(commands)
}

// commandsIn returns the command lines of a block and of the blocks within it, unsorted and with repetitions, or nil
// if there are none. In a block lifecycle_commands, each argument is a command line of its own. Any other block has
// one command line if it has at least one of the arguments command, interpreter and program, and otherwise none; the
// command line joins these arguments, in this order, and then the names in the argument environment. See Commands for
// the form of a command line. The block must be a resource, a data source or a block within one; commandsIn does not
// check that. text is the text of the whole file that contains the block.
func commandsIn(block *hclsyntax.Block, text string) []string {
	var commands, parts []string
	for _, name := range slices.Sorted(maps.Keys(block.Body.Attributes)) {
		line := commandText(block.Body.Attributes[name].Expr, text)
		switch {
		case block.Type == commandBlock:
			commands = append(commands, line)
		case slices.Contains(commandArguments, name):
			parts = append(parts, line)
		}
	}
	if len(parts) > 0 {
		if environment := block.Body.Attributes["environment"]; environment != nil {
			parts = append(parts, environmentNames(environment.Expr)...)
		}
		commands = append(commands, strings.Join(parts, " "))
	}
	for _, inner := range block.Body.Blocks {
		commands = append(commands, commandsIn(inner, text)...)
	}
	return commands
}

// commandText returns the source of an expression in one line, with white space collapsed. "${…}" replaces each
// interpolation "${EXPRESSION}" whose EXPRESSION contains no braces; others keep their text, except for the
// interpolations within them. text is the whole text of the file from which the expression was parsed.
func commandText(expression hcl.Expression, text string) string {
	source := string(expression.Range().SliceBytes([]byte(text)))
	return strings.Join(strings.Fields(interpolation.ReplaceAllString(source, "${…}")), " ")
}

// environmentNames returns the sorted names of the environment variables in the argument "environment" of a block, such
// as ["HOME" "PATH"] for { HOME = "/tmp", "PATH" = var.path }. Keys that are neither a bare name nor a constant string
// are left out. It returns nil if the argument is not written as an object, such as a call of merge, or if no name is
// left.
func environmentNames(expression hcl.Expression) []string {
	pairs, diags := hcl.ExprMap(expression)
	if diags.HasErrors() {
		return nil
	}
	var names []string
	for _, pair := range pairs {
		if name := hcl.ExprAsKeyword(pair.Key); name != "" {
			names = append(names, name)
		} else if name := literal(pair.Key); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
