package cli

import (
	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/paktest"
)

const schemaHelp = `Print the JSON Schema (draft-07) of a pak's manifest.yml, of a service definition, or of a test case. Editors complete and check
the files with it; the YAML language server finds it by a line on top of a file, which "pak init" writes:

  # yaml-language-server: $schema=.schemas/definition.json`

// newSchema is `pak schema manifest|definition|case`.
func newSchema(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:       "schema manifest|definition|case",
		Short:     "Print the JSON Schema of a pak's files, for editors",
		Long:      schemaHelp + exits("0 the schema was written"),
		Example:   "  service-adapter pak schema definition > redis/.schemas/definition.json",
		Args:      cobra.MatchAll(exactly("manifest, definition or case"), cobra.OnlyValidArgs),
		ValidArgs: []string{"manifest", "definition", "case"},
		RunE: func(_ *cobra.Command, args []string) error {
			return writeJSON(streams.Out, schemas()[args[0]]())
		},
	}
}

// schemas are those of the kinds of files.
func schemas() map[string]func() map[string]any {
	return map[string]func() map[string]any{"manifest": brokerpak.ManifestSchema, "definition": brokerpak.DefinitionSchema, "case": paktest.Schema}
}
