package cli

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/lifecycle"
)

// newCompletion is `completion bash|zsh|fish`.
func newCompletion(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a completion script for a shell",
		Long: `Print a script that completes the commands, flags and paks of service-adapter in a shell, and the ids, services and plans where the
configuration and the paks tell them.

  bash  service-adapter completion bash > /etc/bash_completion.d/service-adapter
  zsh   service-adapter completion zsh > "${fpath[1]}/_service-adapter"
  fish  service-adapter completion fish > ~/.config/fish/completions/service-adapter.fish` + exits("0 the script was written"),
		Example:   "  source <(service-adapter completion bash)",
		Args:      cobra.MatchAll(exactly("bash, zsh or fish"), cobra.OnlyValidArgs),
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

// completeFlag makes a command complete a flag, if it has it.
func completeFlag(command *cobra.Command, name string, complete cobra.CompletionFunc) {
	_ = command.RegisterFlagCompletionFunc(name, complete) // the only error is that it has not
}

// completePaks makes the commands complete their arguments with brokerpak files and directories, unless they know better, and the services
// and plans of flags with those of the pak.
func completePaks(streams Streams, commands []*cobra.Command) {
	ofPak := func(names func(*brokerpak.Service) []string) cobra.CompletionFunc {
		return func(_ *cobra.Command, args []string, _ string) (all []string, _ cobra.ShellCompDirective) {
			for _, path := range args {
				_ = withPak(streams, path, func(pak *brokerpak.Pak) error { // what is wrong with it is for others to say
					for _, service := range pak.Services {
						all = append(all, names(service)...)
					}
					return nil
				})
			}
			return all, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for _, command := range commands {
		if command.ValidArgsFunction == nil && len(command.ValidArgs) == 0 {
			command.ValidArgsFunction = cobra.FixedCompletions([]string{"brokerpak"}, cobra.ShellCompDirectiveFilterFileExt)
		}
		completeFlag(command, "service", ofPak(func(service *brokerpak.Service) []string { return []string{service.Name} }))
		completeFlag(command, "plan", ofPak((*brokerpak.Service).PlanNames))
	}
}

// completeStored makes a command complete ids from the state backend, and services from the configuration.
func completeStored(streams Streams, command *cobra.Command, kind lifecycle.Kind) {
	ids := func(kind lifecycle.Kind) cobra.CompletionFunc {
		return stored(streams, func(ctx context.Context, operator *adapter.Operator) (all []string) {
			workspaces, _ := operator.Workspaces(ctx, kind) // then there is nothing to offer
			for _, workspace := range workspaces {
				_, id, _ := lifecycle.Named(workspace)
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
	completeFlag(command, "service", stored(streams, func(_ context.Context, operator *adapter.Operator) []string { return operator.Services() }))
}

// stored completes what the adapter of the configuration knows: nothing where it cannot be asked, or does not answer soon.
func stored(streams Streams, find func(context.Context, *adapter.Operator) []string) cobra.CompletionFunc {
	streams.Stderr = io.Discard
	return func(command *cobra.Command, args []string, _ string) (found []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.Contains(command.Use, "ID…") {
			return nil, cobra.ShellCompDirectiveNoFileComp // it takes one id
		}
		const patience = 5 * time.Second
		ctx, cancel := context.WithTimeout(command.Context(), patience)
		defer cancel()
		operator, err := adapter.OpenOperator(streams.Invocation, command.CommandPath(), adapter.OperatorOptions{})
		if err == nil {
			defer operator.Close()
			found = slices.DeleteFunc(find(ctx, operator), func(id string) bool { return slices.Contains(args, id) })
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}
