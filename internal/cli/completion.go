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

// newCompletion returns the command `completion bash|zsh|fish`, which prints a script to streams.Stdout that completes
// the commands, flags and arguments of service-adapter in this shell. Any other number or choice of arguments is a
// usage error. The command otherwise fails only if the script cannot be written.
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

// completeFlag sets the function that completes the value of a command's flag in a shell. name is the name of the flag
// without its dashes, and complete returns the candidates. completeFlag does nothing if the command has no flag of this
// name, or if the flag has a completion already.
func completeFlag(command *cobra.Command, name string, complete cobra.CompletionFunc) {
	_ = command.RegisterFlagCompletionFunc(name, complete) // the errors are those of the comment
}

// completePaks sets the completions of commands whose arguments are paths of paks. Arguments are completed with
// directories and *.brokerpak files, unless the command already has a completion of its own. The flag --service, if a
// command has it, is completed with the names of the services in the paks that the command line already contains as
// arguments, and the flags --plan and --diff with the names of the plans of all these services. Plans include those of
// the environment variables GSB_SERVICE_<NAME>_PLANS, which streams supplies. A pak that cannot be read adds no names
// and is not reported.
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

// completeStored sets the completions of a command that works on items of kind, which are bindings or service
// instances. If Use of the command contains "ID", its arguments are completed with the ids of this kind in the state
// backend; otherwise they have no completion. If the command has the flags, --instance is completed with the ids of
// service instances, and --service with the services of the configured paks. The ids and names are read when the user
// requests a completion; an error then results in no candidates and no message. streams supplies the environment for
// the configuration.
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

// completeFromBackend returns a completion function for arguments or flags. Each call opens the configured adapter
// for the environment of streams, calls candidates with it and with a context that ends after five seconds, and
// returns the candidates that are not arguments on the command line yet. The shell is told not to offer files. The
// result is empty if the adapter cannot be opened. It is also empty, for an argument as well as for the value of a
// flag, if the command line already has an argument, unless Use of the command contains "ID…", which means several
// ids. The completion writes no errors or log messages to standard error.
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
