package cli

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/lifecycle"
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

// programVersion describes this program by what the build set.
func programVersion(streams Streams) version {
	v := version{
		Program: streams.Release, Commit: streams.Commit, Go: runtime.Version(), OpenTofu: adapter.TestedOpenTofu(),
		Formats: map[string]int{
			"brokerpak": brokerpak.PackVersion, "manifest_record": record.Format, "state_record": lifecycle.RecordFormat,
		},
	}
	if v.Program == "" {
		v.Program = "development"
	}
	return v
}

// text is the version for people, one fact a line.
func (v version) text() string {
	lines := []string{"service-adapter " + v.Program}
	if v.Commit != "" {
		lines = append(lines, "commit: "+v.Commit)
	}
	lines = append(lines, "Go: "+v.Go, "OpenTofu tested: "+strings.Join(v.OpenTofu, ", "))
	for _, name := range value.Keys(v.Formats) {
		lines = append(lines, fmt.Sprintf("format of %s: %d", strings.ReplaceAll(name, "_", " "), v.Formats[name]))
	}
	return strings.Join(lines, "\n") + "\n"
}

const versionHelp = `Print the version of this program, the commit it was built from when that is known, and the versions of Go, of OpenTofu and of
the formats that it knows: of brokerpaks, of the record in manifests, and of the record in states.`

// newVersion is `version`.
func newVersion(streams Streams) *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:     "version",
		Short:   "Print the versions of the program and of what it knows",
		Long:    versionHelp + exits("0 always"),
		Example: "  service-adapter version --json",
		RunE: func(*cobra.Command, []string) error {
			found := programVersion(streams)
			return writeEither(streams, asJSON, found, found.text())
		},
	}
	jsonFlag(command, &asJSON)
	return command
}
