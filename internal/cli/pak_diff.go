package cli

import (
	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/diff"
)

// newDiff returns the command `pak diff OLD NEW`, which prints the effects of a new version of a pak on the bindings
// and instances that the old version created. OLD and NEW are paths of paks, which are directories or zip files;
// --installed names paks that stay installed beside NEW, whose providers and executables then count as well. The
// command may run OpenTofu on temporary instances. It exits with exitFindings if the new version breaks something, or
// with --strict also if it needs an upgrade. It fails if a pak cannot be opened or is invalid, if a plan of the
// environment variables GSB_SERVICE_<NAME>_PLANS is invalid, if --format is unknown (a usageError), if the comparison
// fails, or if the findings cannot be written.
func newDiff(streams Streams) *cobra.Command {
	var options validateOptions
	var installed []string
	command := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show the effects of a new version of a pak on existing instances and bindings",
		Long: `Show the effects of a new version of a pak on the instances and bindings of an old version. OLD and NEW
are directories or files. Each finding is

  an error    the change breaks something: a plan, a parameter, a credential, a disk or a resource of OpenTofu is lost
  a warning   the change needs an upgrade: the broker rejects updates until the instance is upgraded, or the operator
              must act first
  a notice    the change is safe

The command compares the definitions, the bundled providers and executables, and the manifests of instances: it
generates one with the old pak for each plan, example and test case, as "pak test" does, and lists the differences in
the manifest of the new pak. If both paks bundle OpenTofu and their providers, the provision templates of the old pak
are applied, those of the new pak are planned on the result, and all resources are destroyed. docs/format.md explains
each finding. If a manifest changes, the finding maintenance-info proposes what the broker's service_catalog needs, so
that users can upgrade their instances.

Bindings and instances are deleted with the providers and executables of the pak that created them. A provider or an
executable that NEW lacks is a warning. With --installed, which names a pak that stays installed beside NEW, it is a
notice if one of these paks has it, and an error if none has it.` +
			exitStatus("0 the new version is safe or needs an upgrade",
				"1 it breaks something (with --strict also if it needs an upgrade), or a pak is invalid"),
		Example: "  git worktree add ../released v0.1.0\n  service-adapter pak diff ../released/redis redis\n" +
			"  service-adapter pak diff ../released/redis redis --installed ../released/redis",
		RunE: func(command *cobra.Command, args []string) error {
			return withPak(streams, args[0], func(older *brokerpak.Pak) error {
				return withPak(streams, args[1], func(newer *brokerpak.Pak) error {
					return withPaks(streams, installed, func(others []*brokerpak.Pak) error {
						report, err := diff.Compare(command.Context(), older, newer, others, streams.Getenv)
						if err != nil {
							return err
						}
						return options.printReport(streams, report, diff.Verdict(report.Diagnostics))
					})
				})
			})
		},
	}
	options.flags(command)
	command.Flags().StringArrayVar(&installed, "installed", nil,
		"a `PAK` that stays installed beside NEW; the flag can be repeated")
	return command
}
