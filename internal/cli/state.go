package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
)

const stateHelp = `Mend the OpenTofu state of %s by hand, where nothing else helps: docs/operations.md says which command mends what. A run that is under
way is waited for. Of a state that is changed a copy is kept, which "state push --force" puts back.`

// newState is `bindings state` and `instance state`.
func newState(streams Streams, kind lifecycle.Kind) *cobra.Command {
	// surgery is a command whose work tells which file keeps a copy of what it changed, "" for none.
	surgery := func(use, short, example string, work func(context.Context, lifecycle.Surgery, []string) (string, error)) *cobra.Command {
		command := &cobra.Command{
			Use: use, Short: short, Long: short + "." + exits("0 done"),
			Example: fmt.Sprintf("  service-adapter %s state %s", parentOf(kind), example),
		}
		completeStored(streams, command, kind)
		return withOperator(command, streams, &adapter.OperatorOptions{}, func(ctx context.Context, operator *adapter.Operator, args []string) error {
			kept, err := work(ctx, lifecycle.Surgery{Manager: operator.Manager}, args)
			if kept != "" {
				say(streams, fmt.Sprintf("the state before is kept, and put back by: service-adapter %s state push %s --force %s",
					parentOf(kind), args[0], kept))
			}
			return err
		})
	}
	exec := surgery("exec ID -- COMMAND…", "Run a command of OpenTofu with its template, inputs, providers and backend", "exec ID -- state list",
		func(ctx context.Context, states lifecycle.Surgery, args []string) (string, error) {
			return states.ExecState(ctx, kind, args[0], opentofu.Terminal{In: streams.In, Out: streams.Out, Err: streams.Err}, args[1:]...)
		})
	exec.Args = beforeDash
	var output string
	pull := surgery("pull ID --output FILE", "Write the state as JSON in clear text, with all its secrets", "pull ID --output state.json",
		func(ctx context.Context, states lifecycle.Surgery, args []string) (string, error) {
			return "", pullState(ctx, streams, states, kind, args[0], output)
		})
	pull.Flags().StringVar(&output, "output", "", "write to this file, readable for nobody else; - means standard output")
	var force bool
	push := surgery("push ID FILE", "Store a state that was pulled and edited, or a copy that was kept", "push ID state.json",
		func(ctx context.Context, states lifecycle.Surgery, args []string) (string, error) {
			file, err := os.ReadFile(args[1])
			if err != nil {
				return "", fmt.Errorf("reading the state: %w", err)
			}
			return states.PushState(ctx, kind, args[0], file, force)
		})
	push.Flags().BoolVar(&force, "force", false, "also one of another lineage or a lower serial, such as a copy")
	aside := surgery("set-aside ID", "Keep a state that nobody can read under another name, out of the way", "set-aside ID",
		func(ctx context.Context, states lifecycle.Surgery, args []string) (string, error) {
			name, err := states.SetAside(ctx, kind, args[0])
			if err == nil {
				say(streams, fmt.Sprintf("what it made exists, and nothing is stored of %s %s any more; its state is workspace %s", kind, args[0], name))
			}
			return "", err
		})
	return group(&cobra.Command{
		Use: "state", Short: "Mend the state of " + withArticle(kind) + " by hand", Long: fmt.Sprintf(stateHelp, withArticle(kind)),
	}, exec, pull, push, aside)
}

// beforeDash asks for one id, and a command after --.
func beforeDash(command *cobra.Command, args []string) error {
	if command.ArgsLenAtDash() != 1 || len(args) == 1 {
		return errors.New("one ID must be given, and after -- a command of OpenTofu")
	}
	return nil
}

// pullState writes a state to a file, or with "-" to the standard output.
func pullState(ctx context.Context, streams Streams, states lifecycle.Surgery, kind lifecycle.Kind, id, output string) error {
	if output == "" {
		return usageError{errors.New("--output FILE is missing; the state holds secrets, - means standard output")}
	}
	stored, err := states.Read(ctx, kind, id)
	switch {
	case err != nil:
		return err
	case stored.State == nil:
		return errors.New(stored.Error)
	}
	write := func(to io.Writer) error {
		_, err := to.Write(stored.State.Text)
		return err
	}
	if output == "-" {
		return write(streams.Out)
	}
	return writeFile(output, 0o600, write)
}
