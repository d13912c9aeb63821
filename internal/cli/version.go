package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// version is the document of `version --json`.
type version struct {
	// Program is the release of the program, or "development".
	Program string `json:"program"`
	// Commit is the commit of the sources, "" if unknown.
	Commit string `json:"commit,omitempty"`
	// Go is the version of Go that compiled the program.
	Go string `json:"go"`
	// OpenTofu lists the tested versions of OpenTofu.
	OpenTofu []string `json:"opentofu_tested"`
	// Formats are the versions of the formats that the program reads and writes, by name.
	Formats map[string]int `json:"formats"`
}

// text returns the version as text, with one line for each value. An unknown commit is left out. The formats are sorted
// by name.
func (v version) text() string {
	text := "service-adapter " + v.Program + "\n"
	if v.Commit != "" {
		text += "commit: " + v.Commit + "\n"
	}
	text += "Go: " + v.Go + "\nOpenTofu tested: " + strings.Join(v.OpenTofu, ", ") + "\n"
	for _, name := range value.Keys(v.Formats) {
		text += fmt.Sprintf("format of %s: %d\n", strings.ReplaceAll(name, "_", " "), v.Formats[name])
	}
	return text
}

// newVersion returns the command `version`, which prints the versions of the program and of its formats.
func newVersion(streams Streams) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program and of its formats",
		Long: `Print the version of this program, the commit it was built from if that is known, the version of Go, the
versions of OpenTofu with which the program is tested, and the versions of its formats: brokerpaks, the record in
manifests, and the record in states.` +
			exitStatus("0 the versions were written"),
		Example: "  service-adapter version --json",
		RunE: func(*cobra.Command, []string) error {
			versions := version{
				Program: cmp.Or(streams.Release, "development"), Commit: streams.Commit,
				Go: runtime.Version(), OpenTofu: opentofu.Tested(),
				Formats: map[string]int{
					"brokerpak": brokerpak.PackVersion, "manifest_record": record.Format,
					"state_record": lifecycle.RecordFormat,
				},
			}
			return writeEither(streams, asJSON, versions, versions.text())
		},
	}
	jsonFlag(command, &asJSON)
	return command
}
