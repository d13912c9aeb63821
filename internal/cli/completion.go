package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/lifecycle"
)

const completionHelp = `Print a script that completes the commands, flags and paks of service-adapter in a shell, and the ids, services and plans where the
configuration and the paks tell them.

  bash  service-adapter completion bash > /etc/bash_completion.d/service-adapter
  zsh   service-adapter completion zsh > "${fpath[1]}/_service-adapter"
  fish  service-adapter completion fish > ~/.config/fish/completions/service-adapter.fish

EXIT STATUS
  0 the script was written, 2 wrong usage, 3 anything else`

// newCompletion is `completion bash|zsh|fish`.
func newCompletion(streams Streams) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a completion script for a shell",
		Long:      completionHelp,
		Example:   "  source <(service-adapter completion bash)",
		Args:      cobra.MatchAll(exactly("bash, zsh or fish"), cobra.OnlyValidArgs),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(command *cobra.Command, args []string) error {
			var err error
			switch root := command.Root(); args[0] {
			case "bash":
				err = root.GenBashCompletionV2(streams.Out, true)
			case "zsh":
				err = root.GenZshCompletion(streams.Out)
			default:
				err = root.GenFishCompletion(streams.Out, true)
			}
			if err != nil {
				return fmt.Errorf("writing the completion script: %w", err)
			}
			return nil
		},
	}
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
		completeFlag(command, "plan", ofPak(func(service *brokerpak.Service) (names []string) {
			for _, plan := range service.Plans {
				names = append(names, plan.Name)
			}
			return names
		}))
	}
}

// completeFlag makes a command complete a flag, if it has it.
func completeFlag(command *cobra.Command, name string, complete cobra.CompletionFunc) {
	_ = command.RegisterFlagCompletionFunc(name, complete) // the only error is that it has not
}

// completeStored makes a command complete ids from the state backend, and services from the configuration.
func completeStored(streams Streams, command *cobra.Command, kind lifecycle.Kind) {
	command.ValidArgsFunction = cobra.NoFileCompletions
	if strings.Contains(command.Use, "ID") {
		command.ValidArgsFunction = stored(streams, ids(kind))
	}
	completeFlag(command, "instance", stored(streams, ids(lifecycle.Instance)))
	completeFlag(command, "service", stored(streams, func(_ context.Context, operator *adapter.Operator) []string { return operator.Services() }))
}

// stored completes what the adapter of the configuration knows: nothing where it cannot be asked, or does not answer soon.
func stored(streams Streams, find func(context.Context, *adapter.Operator) []string) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !strings.Contains(command.Use, "ID…") {
			return nil, cobra.ShellCompDirectiveNoFileComp // it takes one id
		}
		const patience = 5 * time.Second
		ctx, cancel := context.WithTimeout(command.Context(), patience)
		defer cancel()
		invocation := streams.invocation()
		invocation.Stderr = io.Discard
		operator, err := adapter.OpenOperator(invocation, command.CommandPath(), adapter.OperatorOptions{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer operator.Close()
		named := func(word string) bool { return slices.Contains(args, word) }
		return slices.DeleteFunc(find(ctx, operator), named), cobra.ShellCompDirectiveNoFileComp
	}
}

// ids finds all ids of a kind without reading their states.
func ids(kind lifecycle.Kind) func(context.Context, *adapter.Operator) []string {
	return func(ctx context.Context, operator *adapter.Operator) (all []string) {
		workspaces, _ := operator.Workspaces(ctx, kind) // then there is nothing to offer
		for _, workspace := range workspaces {
			_, id, _ := lifecycle.Named(workspace)
			all = append(all, id)
		}
		return all
	}
}
