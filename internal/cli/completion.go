package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

const completionHelp = `Print a script that completes the commands, flags and paks of service-adapter in a shell.

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

// completePaks makes the commands complete their arguments with brokerpak files and directories, unless they know better.
func completePaks(commands []*cobra.Command) {
	for _, command := range commands {
		if command.ValidArgsFunction == nil && len(command.ValidArgs) == 0 {
			command.ValidArgsFunction = cobra.FixedCompletions([]string{"brokerpak"}, cobra.ShellCompDirectiveFilterFileExt)
		}
	}
}
