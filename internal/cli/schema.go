package cli

import (
	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
)

const schemaHelp = `Print the JSON Schema (draft-07) of a pak's manifest.yml or of a service definition. Editors complete and check the files with
it; for the YAML language server, put this line on top of a definition:

  # yaml-language-server: $schema=definition.schema.json

EXIT STATUS
  0 the schema was written, 2 wrong usage, 3 anything else`

// newSchema is `pak schema manifest|definition`.
func newSchema(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:       "schema manifest|definition",
		Short:     "Print the JSON Schema of a pak's files, for editors",
		Long:      schemaHelp,
		Example:   "  service-adapter pak schema definition > definition.schema.json",
		Args:      cobra.MatchAll(exactly("manifest or definition"), cobra.OnlyValidArgs),
		ValidArgs: []string{"manifest", "definition"},
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] == "definition" {
				return writeJSON(streams, brokerpak.DefinitionSchema())
			}
			return writeJSON(streams, brokerpak.ManifestSchema())
		},
	}
}
