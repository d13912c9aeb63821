package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/internal/pakdoc"
)

const infoHelp = `Summarise a pak: its name, version and platforms, what it bundles, the services it offers, and the files of a zip.

EXIT STATUS
  0 the summary was written, 1 the pak is wrong, 2 wrong usage, 3 anything else`

// newInfo is `pak info PAK`.
func newInfo(streams Streams) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:     "info PAK",
		Short:   "Summarise a pak",
		Long:    infoHelp,
		Example: "  service-adapter pak info redis-0.1.0.brokerpak --json",
		Args:    exactly("PAK"),
		RunE: func(_ *cobra.Command, args []string) error {
			pak, err := openPak(streams, args[0])
			if err != nil {
				return err
			}
			defer pak.Close() //nolint:errcheck // opened for reading: closing cannot lose anything
			info, err := pakdoc.NewInfo(pak)
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(streams, info)
			} else {
				err = info.WriteText(streams.Out)
			}
			if err != nil {
				return fmt.Errorf("writing the summary: %w", err)
			}
			return nil
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return command
}
