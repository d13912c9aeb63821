package adapter

import (
	"embed"
	"fmt"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/adapter/input"
)

// requests contains an example of the request of each command of the protocol, NAME.json.
//
//go:embed requests
var requests embed.FS

// helpText is the help of a command of the protocol. Its parameters are the name of the command, what it does, what it
// writes to standard output, the exit codes other than 0 and 1, and the example of a request.
const helpText = `The on-demand broker calls %[1]s to %[2]s.

The command reads the broker's request, which is a JSON object, from standard input, and writes %[3]s to
standard output. Messages for the operator are written to standard error. The broker sends each field of the request as
a string that contains JSON; the command also accepts the JSON itself, as in the example below. docs/protocol.md
describes every field.

The paks and all other settings are read from the adapter's configuration: run the command on the broker's VM, or set
SERVICE_ADAPTER_CONFIG.

USAGE
  service-adapter %[1]s < request.json

EXAMPLE OF request.json
%[5]s
EXIT STATUS
  0 the command succeeded
%[4]s  1 any other error; standard output has the message for the user, if there is one
`

// A description contains the parts of a command's help that are particular to the command: its purpose, as a verb
// phrase that follows "to", a noun phrase for the output that it writes to standard output, and the lines for its exit
// codes other than 0 and 1, which are "" if it has none.
type description struct {
	purpose, product string
	// exits are the lines of the exit codes other than 0 and 1.
	exits string
}

// descriptions returns a new map with the description of every command of the protocol, by the name of the command,
// such as "create-binding".
func descriptions() map[string]description {
	const unsupported = "  10 the service does not support the command\n"
	return map[string]description{
		input.GenerateManifest: {
			"generate the manifest of a service instance", "the manifest with its secrets and configs", "",
		},
		input.CreateBinding: {
			"create a binding", "the credentials of the binding", unsupported +
				"  42 the service requires an app, and the request has none\n  49 the binding exists\n",
		},
		input.DeleteBinding: {
			"delete a binding", "nothing", unsupported + "  41 the binding does not exist\n",
		},
		input.DashboardURL: {
			"get the dashboard of a service instance", "its URL", unsupported,
		},
		input.GeneratePlanSchemas: {
			"get the JSON Schemas of a plan's parameters", "the schemas", "",
		},
	}
}

// wantsHelp reports whether the only argument after the names of the program and the command is --help. args are all
// arguments, as in Invocation.Args. wantsHelp returns false for -h, which is an error in adapters that are built with
// the SDK of the on-demand broker, and therefore in this one.
func wantsHelp(args []string) bool { return len(args) == 3 && args[2] == "--help" }

// printHelp writes the help of a command of the protocol, with an example of its request, to Stdout of the invocation
// and returns the exit code 0. If the help cannot be written, or if command is not one of Commands, printHelp writes
// the reason to Stderr and returns 1.
func printHelp(invocation Invocation, command string) int {
	example, err := requests.ReadFile("requests/" + command + ".json")
	if err == nil {
		d := descriptions()[command]
		_, err = fmt.Fprintf(invocation.Stdout, helpText,
			command, d.purpose, d.product, d.exits, indent(string(example)))
	}
	if err != nil {
		// A failed write to standard error cannot be reported.
		_, _ = fmt.Fprintf(invocation.Stderr, "service-adapter: writing the help: %s\n", err)
		return serviceadapter.ErrorExitCode
	}
	return 0
}

// indent returns a text with two spaces before each line, including empty lines, and with a line break at its end,
// which is added if the text does not end with one.
func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}
