package cli

import (
	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/pakdoc"
)

// newInfo is `pak info PAK`.
func newInfo(streams Streams) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "info PAK",
		Short: "Summarise a pak",
		Long: `Summarise a pak: its name, version and platforms, what it bundles, the services it offers, and the files of a zip.` +
			exits("0 the summary was written", "1 the pak is wrong"),
		Example: "  service-adapter pak info redis-0.1.0.brokerpak --json",
		RunE: onPak(streams, func(pak *brokerpak.Pak) error {
			info, err := pakdoc.NewInfo(pak)
			switch {
			case err != nil:
				return err
			case asJSON:
				return writeJSON(streams.Out, info)
			}
			return info.WriteText(streams.Out)
		}),
	}
	jsonFlag(command, &asJSON)
	return command
}
