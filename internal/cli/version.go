package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// version is the product of `version --json`.
type version struct {
	Program  string         `json:"program"`
	Commit   string         `json:"commit,omitempty"`
	Go       string         `json:"go"`
	OpenTofu []string       `json:"opentofu_tested"`
	Formats  map[string]int `json:"formats"`
}

// text is the version for people, one fact a line.
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

// newVersion is `version`.
func newVersion(streams Streams) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program and of what it knows",
		Long: `Print the version of this program, the commit it was built from when that is known, and the versions of Go, of OpenTofu and of
the formats that it knows: of brokerpaks, of the record in manifests, and of the record in states.` + exits("0 always"),
		Example: "  service-adapter version --json",
		RunE: func(*cobra.Command, []string) error {
			found := version{
				Program: cmp.Or(streams.Release, "development"), Commit: streams.Commit, Go: runtime.Version(), OpenTofu: opentofu.Tested(),
				Formats: map[string]int{
					"brokerpak": brokerpak.PackVersion, "manifest_record": record.Format, "state_record": lifecycle.RecordFormat,
				},
			}
			return writeEither(streams, asJSON, found, found.text())
		},
	}
	jsonFlag(command, &asJSON)
	return command
}
