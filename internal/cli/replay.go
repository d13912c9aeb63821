package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
)

// newReplay returns the command `replay FILE`, which executes a request again that the adapter recorded in FILE because
// record_requests is set. It uses the current configuration and paks, and prints the output of the request's command to
// standard output; for create-binding and delete-binding, it prints the variables of the bind template instead. Secrets
// in the request are masked, but the output may contain secrets of the current configuration in clear text.
//
// The command neither plans nor applies a template: a request for a manifest fails if it would apply a provision
// template. If the request's command fails, `replay` writes the exit code to standard error and exits with
// exitFindings. It returns another error if the file cannot be read or is not a complete recording.
func newReplay(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "replay FILE",
		Short: "Replay a recorded request, without side effects",
		Long: `Replay a request that the adapter recorded (record_requests in its configuration), without side effects.
Manifests, dashboard URLs and schemas are generated again; for a binding, the variables of its template are printed.
A request for a manifest that would apply a provision template fails, because its masked values would be applied.
When the request was recorded, secrets were replaced by [redacted] and documents that could not be parsed were left
out; a request without such a document cannot be replayed. The command uses the adapter's configuration.` +
			exitStatus("0 the replayed command succeeded", "1 the replayed command failed; the log says why"),
		Example: "  service-adapter replay " +
			"/var/vcap/data/service-adapter/requests/20261121T101500.000000000Z-generate-manifest-42.json",
		RunE: func(command *cobra.Command, args []string) error {
			code, err := adapter.Replay(command.Context(), streams.Invocation, args[0])
			if err == nil && code != 0 {
				say(streams, fmt.Sprintf("the command ended with exit code %d", code))
			}
			return cmp.Or(err, findingsError(code != 0))
		},
	}
}
