package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// A version is the document that `version --json` writes. It contains the versions of the program, of Go with its build
// settings, of the tested OpenTofu releases and of the defective ones, and of the file formats. The zero value contains
// no versions.
type version struct {
	// Program is the release of the program, or "development".
	Program string `json:"program"`
	// Commit is the commit of the sources without the mark of changed files, "" if unknown.
	Commit string `json:"commit,omitempty"`
	// Go is the version of Go that compiled the program.
	Go string `json:"go"`
	// Build are the settings with which Go built the program; see buildSettings.
	Build map[string]string `json:"build"`
	// OpenTofu lists the tested versions of OpenTofu.
	OpenTofu []string `json:"opentofu_tested"`
	// Defects lists versions of OpenTofu with defects that affect services.
	Defects []opentofu.Defect `json:"opentofu_defects"`
	// Formats are the versions of the formats that the program reads and writes, by name.
	Formats map[string]int `json:"formats"`
}

// text returns the versions as text for `version`, with a line break at the end of each line. The first line is
// "service-adapter" and the program's version. The tested versions of OpenTofu are in one line, and every other value
// has a line of its own. An unknown commit has no line. The build settings and the formats are sorted by name.
func (v version) text() string {
	text := "service-adapter " + v.Program + "\n"
	if v.Commit != "" {
		text += "commit: " + v.Commit + "\n"
	}
	text += "Go: " + v.Go + "\n"
	for _, name := range value.Keys(v.Build) {
		text += "build: " + name + "=" + v.Build[name] + "\n"
	}
	text += "OpenTofu tested: " + strings.Join(v.OpenTofu, ", ") + "\n"
	for _, defect := range v.Defects {
		text += fmt.Sprintf("OpenTofu with a defect: %s (%s, %s)\n", defect.Versions(), defect.Summary, defect.Issue)
	}
	for _, name := range value.Keys(v.Formats) {
		text += fmt.Sprintf("format of %s: %d\n", strings.ReplaceAll(name, "_", " "), v.Formats[name])
	}
	return text
}

// buildSettings returns the settings with which Go built the program, by the names of `go version -m`, such as GOOS,
// CGO_ENABLED and -trimpath. Go leaves out some settings that have their defaults; of these, GOFIPS140, whose default
// is "off", is always in the result. commit is that of Streams. If it is not "", it is the source of vcs.revision and
// vcs.modified, which Go records only in a program that it builds in a Git repository: vcs.modified is "true" if commit
// ends with "-dirty", which is not part of the revision, and "false" otherwise. info is nil if the program has no build
// information, whose settings are then missing.
func buildSettings(info *debug.BuildInfo, commit string) map[string]string {
	settings := map[string]string{"GOFIPS140": "off"}
	if info != nil {
		for _, setting := range info.Settings {
			settings[setting.Key] = setting.Value
		}
	}
	if revision, modified := strings.CutSuffix(commit, "-dirty"); commit != "" {
		settings["vcs.revision"], settings["vcs.modified"] = revision, strconv.FormatBool(modified)
	}
	return settings
}

// newVersion returns the command `version`, which prints to standard output the version and the commit of the program,
// the version of Go with the build settings, the versions of OpenTofu that are tested or have known defects, and the
// versions of the file formats. It prints text, with --json JSON, or with --bom only the bill of materials of the
// program, which is JSON as well. Setting both flags is a usageError. The command otherwise fails if the output cannot
// be written, or if the bill of materials cannot be generated, for example because the program was built without build
// information.
func newVersion(streams Streams) *cobra.Command {
	var asJSON, asBill bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the program and of its formats",
		Long: `Print the version of this program, the commit it was built from if that is known, the version of Go with
its build settings, the versions of OpenTofu with which the program is tested and those with known defects, and the
versions of its formats: brokerpaks, the record in manifests, and the record in states. "service-adapter --version"
prints the first line only.` +
			exitStatus("0 the versions were written"),
		Example: "  service-adapter version --json",
		PreRunE: func(*cobra.Command, []string) error { return excludeFormats(asJSON, asBill) },
		RunE: func(*cobra.Command, []string) error {
			if asBill {
				return writeProgramBill(streams)
			}
			info, _ := debug.ReadBuildInfo() // nil if the program has none
			build := buildSettings(info, streams.Commit)
			versions := version{
				Program: streams.Version(), Commit: build["vcs.revision"],
				Go: runtime.Version(), Build: build, OpenTofu: opentofu.Tested(), Defects: opentofu.Defects(),
				Formats: map[string]int{
					"brokerpak": brokerpak.PackVersion, "manifest_record": record.Format,
					"state_record": lifecycle.RecordFormat,
				},
			}
			return writeEither(streams, asJSON, versions, versions.text())
		},
	}
	jsonFlag(command, &asJSON)
	billFlag(command, &asBill)
	return command
}
