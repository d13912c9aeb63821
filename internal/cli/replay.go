package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
)

// newReplay is `replay FILE`.
func newReplay(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "replay FILE",
		Short: "Play a recorded request again, without side effects",
		Long: `Play a request again that the adapter recorded (record_requests in its configuration), without side effects: manifests, dashboards
and schemas are made again, for a binding the variables of its template are printed. Secrets were replaced by [redacted] when the
request was recorded. It uses the adapter's configuration.` + exits("0 the command succeeded", "1 it failed as the log tells"),
		Example: "  service-adapter replay /var/vcap/data/service-adapter/requests/20261121T101500.000000000Z-generate-manifest-42.json",
		RunE: func(command *cobra.Command, args []string) error {
			code, err := adapter.Replay(command.Context(), streams.invocation(), args[0])
			if err == nil && code != 0 {
				say(streams, fmt.Sprintf("the command ended with exit code %d", code))
			}
			return cmp.Or(err, findings(code != 0))
		},
	}
}
