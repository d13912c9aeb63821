package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
)

// newCompletion returns the command `completion bash|zsh|fish`, which prints a completion script for one of these
// shells to standard output.
func newCompletion(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for a shell",
		Long: `Print a script that completes the commands, flags and paks of service-adapter in a shell. Ids, services
and plans are completed if the configuration, the state backend and the paks can be read.

  bash  service-adapter completion bash > /etc/bash_completion.d/service-adapter
  zsh   service-adapter completion zsh > "${fpath[1]}/_service-adapter"
  fish  service-adapter completion fish > ~/.config/fish/completions/service-adapter.fish` +
			exitStatus("0 the script was written"),
		Example:   "  source <(service-adapter completion bash)",
		Args:      cobra.MatchAll(exactArgs("bash, zsh or fish"), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(command *cobra.Command, args []string) error {
			switch root := command.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(streams.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(streams.Stdout)
			default:
				return root.GenFishCompletion(streams.Stdout, true)
			}
		},
	}
}

// completeFlag sets the completion of a flag's value. It does nothing if the command has no flag of this name, or if
// the flag has a completion already.
func completeFlag(command *cobra.Command, name string, complete cobra.CompletionFunc) {
	_ = command.RegisterFlagCompletionFunc(name, complete) // the errors are those of the comment
}

// completePaks sets the completion of commands whose argument is a pak. Arguments are completed with brokerpak files
// and directories, unless the command already has a completion. The flags --service, --plan and --diff are completed
// with the names in the paks that the command line already contains. A pak that cannot be read adds no names.
func completePaks(streams Streams, commands []*cobra.Command) {
	pakNames := func(names func(*brokerpak.Service) []string) cobra.CompletionFunc {
		return func(_ *cobra.Command, args []string, _ string) (all []string, _ cobra.ShellCompDirective) {
			for _, path := range args {
				// A completion cannot report an error: the command itself will.
				_ = withPak(streams, path, func(pak *brokerpak.Pak) error {
					for _, service := range pak.Services {
						all = append(all, names(service)...)
					}
					return nil
				})
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		}
	}
	serviceName := func(service *brokerpak.Service) []string { return []string{service.Name} }
	for _, command := range commands {
		if command.ValidArgsFunction == nil && len(command.ValidArgs) == 0 {
			command.ValidArgsFunction = cobra.FixedCompletions([]string{"brokerpak"},
				cobra.ShellCompDirectiveFilterFileExt)
		}
		completeFlag(command, "service", pakNames(serviceName))
		for _, flag := range []string{"plan", "diff"} {
			completeFlag(command, flag, pakNames((*brokerpak.Service).PlanNames))
		}
	}
}

// completeStored sets the completion of a command that works on bindings or service instances. Its arguments are
// completed with the stored ids of this kind if its Use contains "ID", and not at all otherwise. If the command has
// them, the flag --instance is completed with the ids of service instances, and the flag --service with the services of
// the configured paks.
func completeStored(streams Streams, command *cobra.Command, kind lifecycle.Kind) {
	ids := func(kind lifecycle.Kind) cobra.CompletionFunc {
		return completeFromBackend(streams, func(ctx context.Context, operator *states.Operator) (all []string) {
			workspaces, _ := operator.Workspaces(ctx, kind) // after an error there are no completions
			for _, workspace := range workspaces {
				_, id, _ := lifecycle.ParseWorkspace(workspace)
				all = append(all, id)
			}
			return all
		})
	}
	command.ValidArgsFunction = cobra.NoFileCompletions
	if strings.Contains(command.Use, "ID") {
		command.ValidArgsFunction = ids(kind)
	}
	completeFlag(command, "instance", ids(lifecycle.Instance))
	services := func(_ context.Context, operator *states.Operator) []string { return operator.Services() }
	completeFlag(command, "service", completeFromBackend(streams, services))
}

// completeFromBackend returns a completion with the candidates that a function returns for the configured adapter,
// without those that the command line already contains. The context of candidates ends after a few seconds. There are
// no completions if the adapter cannot be opened with its configuration, or if the command takes a single id and
// already has it. The completion writes nothing to standard error.
func completeFromBackend(
	streams Streams, candidates func(context.Context, *states.Operator) []string,
) cobra.CompletionFunc {
	streams.Stderr = io.Discard
	return func(command *cobra.Command, args []string, _ string) (completions []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.Contains(command.Use, "ID…") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		const timeout = 5 * time.Second
		ctx, cancel := context.WithTimeout(command.Context(), timeout)
		defer cancel()
		operator, err := states.Open(streams.Process(), command.CommandPath(), states.Options{})
		if err == nil {
			defer operator.Close()
			present := func(candidate string) bool { return slices.Contains(args, candidate) }
			completions = slices.DeleteFunc(candidates(ctx, operator), present)
		}
		return completions, cobra.ShellCompDirectiveNoFileComp
	}
}
