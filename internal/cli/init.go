package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/pakbuild"
	"service-adapter/internal/paktest"
)

// newInit is `pak init DIR`.
func newInit(streams Streams) *cobra.Command {
	var from, like string
	command := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a new pak",
		Long: fmt.Sprintf(`Write a small complete pak into a directory, which must be empty or not exist: a manifest, a service definition with a
BOSH manifest and a bind template, an example and test cases of each kind. It can be validated, tested and built as it is. The service is
named after the directory. In .schemas are the JSON Schemas with which editors complete and check the files; "pak schema" prints those
of a newer adapter.

--from makes the pak of a BOSH manifest, also of a release's example with ((variables)). Its groups, jobs, properties and variables are
kept; sizes, releases and stemcells are the broker's. Passwords and keys are not copied: they become generated secrets and variables of
BOSH, and a variable that the manifest does not declare an input of plans. Standard error tells what became of each, with its place, and
what you have to decide.

--like copies one of the example paks, with ids of its own: %s.
Without DIR the pak is named after the manifest or the example.`, strings.Join(pakbuild.Examples(), ", ")) +
			exits("0 the pak was written", "1 the manifest cannot be used"),
		Example: "  service-adapter pak init mail\n  service-adapter pak init --from deployments/mail.yml\n" +
			"  service-adapter pak init --like redis cache",
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 && from+like != "" {
				return nil
			}
			return exactly("DIR")(command, args)
		},
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := cmp.Or(like, strings.TrimSuffix(filepath.Base(from), filepath.Ext(from)))
			if len(args) > 0 {
				dir = args[0]
			}
			return writeNew(streams, filepath.Clean(dir), from, like)
		},
	}
	command.Flags().StringVar(&from, "from", "", "make the pak of this BOSH `manifest`")
	command.Flags().StringVar(&like, "like", "", "copy this `example`")
	return command
}

// writeNew writes a pak into a directory, of a manifest or like an example where one is named, and tells about it.
func writeNew(streams Streams, dir, from, like string) (err error) {
	var files []string
	var notes []pakbuild.Note
	switch {
	case from != "" && like != "":
		return usageError{errors.New("--from and --like exclude each other")}
	case from != "":
		files, notes, err = pakbuild.InitFrom(dir, from)
	case like != "":
		if err := oneOf("like", like, pakbuild.Examples()); err != nil {
			return err
		}
		files, err = pakbuild.InitLike(dir, like)
	default:
		files, err = pakbuild.Init(dir)
	}
	if err == nil {
		files, err = addSchemas(dir, files)
	}
	if err != nil {
		return err
	}
	if err := write(streams.Stdout, strings.Join(files, "\n")+"\n"); err != nil {
		return err
	}
	for _, note := range notes {
		say(streams, note.Pos.String()+": "+note.Text)
	}
	say(streams, "next: service-adapter pak validate "+dir)
	return nil
}

// addSchemas writes the JSON Schemas that a new pak's files name, and returns the paths of all its files, sorted.
func addSchemas(dir string, files []string) ([]string, error) {
	for kind, schema := range schemas() {
		file := filepath.Join(dir, pakbuild.SchemaFile(kind))
		err := os.MkdirAll(filepath.Dir(file), 0o755) //nolint:gosec // an author's
		if err == nil {
			err = writeFile(file, 0o644, func(to io.Writer) error { return writeJSON(to, schema()) })
		}
		if err != nil {
			return nil, err
		}
		files = append(files, pakbuild.SchemaFile(kind))
	}
	slices.Sort(files)
	for i := range files {
		files[i] = filepath.Join(dir, files[i])
	}
	return files, nil
}

// newSchema is `pak schema manifest|definition|case`.
func newSchema(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "schema manifest|definition|case",
		Short: "Print the JSON Schema of a pak's files, for editors",
		Long: `Print the JSON Schema (draft-07) of a pak's manifest.yml, of a service definition, or of a test case. Editors complete and check
the files with it; the YAML language server finds it by a line on top of a file, which "pak init" writes:

  # yaml-language-server: $schema=.schemas/definition.json` + exits("0 the schema was written"),
		Example:   "  service-adapter pak schema definition > redis/.schemas/definition.json",
		Args:      cobra.MatchAll(exactly("manifest, definition or case"), cobra.OnlyValidArgs),
		ValidArgs: []string{"manifest", "definition", "case"},
		RunE: func(_ *cobra.Command, args []string) error {
			return writeJSON(streams.Stdout, schemas()[args[0]]())
		},
	}
}

// schemas are those of the kinds of files.
func schemas() map[string]func() map[string]any {
	return map[string]func() map[string]any{"manifest": brokerpak.ManifestSchema, "definition": brokerpak.DefinitionSchema, "case": paktest.Schema}
}
