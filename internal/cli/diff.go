package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/pakdiff"
)

const diffHelp = `Tell what a new version of a pak means for the instances and bindings of an old one. Each is a directory or a file. A finding is

  an error    it breaks something: a plan, a parameter, a credential, a disk or a resource of OpenTofu is lost
  a warning   it needs an upgrade: the broker refuses updates of instances until they are upgraded, or the operator changes something first
  a notice    it is safe

The definitions are compared, and instances: one is made up with the old pak for each plan, example and case, as "pak test" does, and the
new pak says what changes in its manifest. Where both paks bundle OpenTofu and their providers, the provision templates of the old one are
really applied, those of the new one are planned, and all is destroyed. docs/format.md says what each finding means.`

// newDiff is `pak diff OLD NEW`.
func newDiff(streams Streams) *cobra.Command {
	var options validateOptions
	command := &cobra.Command{
		Use:     "diff OLD NEW",
		Short:   "Tell what a new version of a pak means for what exists",
		Long:    diffHelp + exits("0 it is safe or needs an upgrade", "1 it breaks something (with --strict also what needs an upgrade) or a pak is wrong"),
		Example: "  git worktree add ../released v0.1.0\n  service-adapter pak diff ../released/redis redis",
		RunE: func(command *cobra.Command, args []string) error {
			return withPak(streams, args[0], func(older *brokerpak.Pak) error {
				return withPak(streams, args[1], func(newer *brokerpak.Pak) error {
					return diff(command, streams, options, older, newer)
				})
			})
		},
	}
	options.flags(command)
	return command
}

func diff(command *cobra.Command, streams Streams, options validateOptions, older, newer *brokerpak.Pak) error {
	report, err := pakdiff.Compare(command.Context(), older, newer, streams.Getenv)
	if err != nil {
		return err
	}
	verdict := pakdiff.Verdict(report.Diagnostics)
	errorCount, err := options.print(streams, report, verdict)
	if err != nil {
		return err
	}
	say(streams, fmt.Sprintf("%s: %s", verdict, counted(len(report.Diagnostics), "finding")))
	return findings(errorCount > 0)
}
