package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"service-adapter/internal/ctxio"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/operate/states"
	"service-adapter/internal/outfile"
)

// newRecover returns the command `bindings recover`, which stores the states that runs kept in a cache directory
// because the state backend was not available. The cache directory is that of --cache-dir or else of the configuration.
// The command writes the names of the saved workspaces to standard output, and failures and a summary to standard
// error.
//
// A kept state is not stored but moved aside in the cache directory, with a warning in the log, if it is incomplete or
// if another run has changed or deleted the stored state since. There are two exceptions after a deletion: the backend
// local counts a missing state as lost, so the kept state is stored, and on other backends a kept state without
// resources is removed. The workspace counts as saved in all these cases.
//
// The command continues after a state that cannot be saved, and then returns errFindings. It returns another error if
// the operator cannot be opened, for example because the path of the cache directory is relative, or if standard output
// cannot be written. An empty or missing cache directory is not an error.
func newRecover(streams Streams) *cobra.Command {
	var options states.Options
	command := &cobra.Command{
		Use:   "recover [--cache-dir DIR]",
		Short: "Save the states of bindings and instances that could not be saved",
		Long: `Save the states that could not be saved while the state backend was unavailable. They are kept in the
cache directory. The next command for the same binding saves its state if it uses the same cache directory; this command
saves all states in a cache directory, such as that of the broker's container.` +
			exitStatus("0 all states were saved, or there was none to save", "1 a state could not be saved"),
		Example: "  service-adapter bindings recover --cache-dir /var/vcap/data/broker/tmp/service-adapter-1000",
	}
	command.Flags().StringVar(&options.CacheDir, "cache-dir", "",
		"the cache directory (default: the configuration's cache_dir)")
	return withOperator(command, streams, &options, func(
		ctx context.Context, operator *states.Operator, _ []string,
	) error {
		names, unsaved := operator.Engine.UnsavedWorkspaces(), 0
		for _, name := range names {
			if err := operator.SaveUnsaved(ctx, name); err != nil {
				unsaved++
				say(streams, fmt.Sprintf("%s: %s", name, err))
				continue
			}
			if err := write(streams.Stdout, name+"\n"); err != nil {
				return err
			}
		}
		say(streams, fmt.Sprintf("%d of %d saved", len(names)-unsaved, len(names)))
		return findingsError(unsaved > 0)
	})
}

// stateHelp is the help of the command groups `state`. Its parameter is "a binding" or "an instance".
const stateHelp = `Repair the OpenTofu state of %s by hand. This is the last resort: docs/operations/repair-a-state.md
says which command repairs which fault. All commands but "state pull" wait for a run that is in progress. Before a
state is changed, a copy is kept, which "state push --force" restores.`

// newState returns the command group `bindings state` or `instance state`, depending on kind, the commands for
// operators that repair an OpenTofu state by hand: exec, pull, push and set-aside. The commands use streams for input
// and output.
func newState(streams Streams, kind lifecycle.Kind) *cobra.Command {
	return newGroup(
		&cobra.Command{
			Use: "state", Short: "Repair the state of " + withArticle(kind) + " by hand",
			Long: fmt.Sprintf(stateHelp, withArticle(kind)),
		},
		newStateExec(streams, kind),
		newStatePull(streams, kind),
		newStatePush(streams, kind),
		newStateSetAside(streams, kind),
	)
}

// newStateCommand returns a command of the group `state`, whose first argument is the id of a binding or a service
// instance, depending on kind. use and short are its Use and Short. Unless the caller sets Args of the command, the
// words in capitals that follow the name in use, up to the first option, are the required arguments: ID and FILE in
// "push ID FILE", but only ID in "pull ID --output FILE"; see setArgumentChecks. details follow short and a period in
// its help. example is a command line without the names of the program and the groups, such as "pull ID --output
// state.json". The shell completes ids.
//
// work does the work of the command with an open operator and the arguments of the command. It returns the path of a
// copy of the previous state, or "" if it wrote none. The command writes the path to standard error, with the command
// that restores the copy, also if work returns an error. The command returns the error of work, or that of opening the
// operator (see withOperator).
func newStateCommand(
	streams Streams, kind lifecycle.Kind, use, short, details, example string,
	work func(ctx context.Context, operator *states.Operator, args []string) (backupFile string, err error),
) *cobra.Command {
	command := &cobra.Command{
		Use: use, Short: short, Long: short + ". " + details + exitStatus("0 the command succeeded"),
		Example: fmt.Sprintf("  service-adapter %s state %s", parentCommand(kind), example),
	}
	completeStored(streams, command, kind)
	return withOperator(command, streams, &states.Options{}, func(
		ctx context.Context, operator *states.Operator, args []string,
	) error {
		backupFile, err := work(ctx, operator, args)
		if backupFile != "" {
			say(streams, fmt.Sprintf(
				"the previous state is kept; restore it with: service-adapter %s state push %s --force %s",
				parentCommand(kind), shellWord(args[0]), shellWord(backupFile)))
		}
		return err
	})
}

// newStateExec returns the command `state exec ID -- COMMAND…`, which runs a command of OpenTofu in the workspace of a
// binding or a service instance, depending on kind, with the recorded template and inputs. OpenTofu uses the standard
// streams in streams, and its output may contain secrets. The audit log gets events. If the command changes the state,
// or may have done so, a copy of the previous state is kept, even after a failure, and standard error names the file.
//
// Arguments of another form are a usageError. The command returns another error if the item does not exist, if its
// record cannot be read, if its template cannot be prepared, if its state cannot be copied or was written by a newer
// OpenTofu, or if OpenTofu fails; the exit code is not that of OpenTofu. Other errors are those of Manager.ExecState
// and of opening the operator.
func newStateExec(streams Streams, kind lifecycle.Kind) *cobra.Command {
	command := newStateCommand(streams, kind, "exec ID -- COMMAND…",
		fmt.Sprintf("Run a command of OpenTofu on the state of %s, with the recorded template and inputs",
			withArticle(kind)),
		`COMMAND is a command
of OpenTofu and its arguments, such as "state list" or "state rm ADDRESS". OpenTofu gets the providers and the backend
that the adapter uses. It reads from and writes to this terminal, and may show secrets.
If it changes the state, a copy of the previous state is kept, and standard error names the file. The exit status is
not that of OpenTofu.`,
		"exec ID -- state list",
		func(ctx context.Context, operator *states.Operator, args []string) (string, error) {
			terminal := opentofu.Terminal{In: streams.Stdin, Out: streams.Stdout, Err: streams.Stderr}
			return operator.ExecState(ctx, kind, args[0], terminal, args[1:]...)
		})
	command.Args = checkIDAndCommand
	return command
}

// newStatePull returns the command `state pull ID --output FILE`, which writes the state of a binding or a service
// instance, depending on kind, as JSON in clear text to FILE, or to standard output for "-". It replaces an existing
// FILE, and only the owner can read the new one; a device or a pipe is written directly. The audit log gets events. A
// state whose record is unreadable is written as well. Reading may delete an empty workspace; see
// lifecycle.Manager.Lookup. A missing --output is a usageError. The command returns another error if the operator
// cannot be opened, if the item does not exist, if its state is locked, or cannot be read or decrypted, or if the
// output cannot be written.
func newStatePull(streams Streams, kind lifecycle.Kind) *cobra.Command {
	var output string
	command := newStateCommand(streams, kind, "pull ID --output FILE",
		"Write the state as JSON in clear text, with all its secrets",
		`The command does not wait for a run that is in
progress. "state push" stores the file after it was edited. Delete the file when it is no longer needed.`,
		"pull ID --output state.json",
		func(ctx context.Context, operator *states.Operator, args []string) (string, error) {
			return "", pullState(ctx, streams, operator, kind, args[0], output)
		})
	command.Flags().StringVar(&output, "output", "",
		"write to this file, which only its owner can read; - means standard output")
	return command
}

// newStatePush returns the command `state push ID FILE`, which stores the content of FILE as the state of a binding or
// a service instance, depending on kind. The content is a state in clear text, as `state pull` writes it, or a copy of
// a state that another command kept. The item does not have to exist; a copy of a previous state is kept, and standard
// error names it. Resources are not changed. The audit log gets events.
//
// The command returns an error if FILE cannot be read, is not a state of the same id or was written by a newer
// OpenTofu, if the previous state cannot be read or copied, or if the state cannot be stored. Without --force, a file
// with another lineage or a lower serial is an error. Other errors are those of opening the operator. After an error
// the state may have been stored, for example if OpenTofu was interrupted; see lifecycle.Manager.PushState.
func newStatePush(streams Streams, kind lifecycle.Kind) *cobra.Command {
	var force bool
	command := newStateCommand(streams, kind, "push ID FILE",
		"Store a state that was pulled and edited, or a copy that was kept",
		`FILE must contain a state of the same ID.
Increase "serial" in it after editing; a copy, whose serial is lower, needs --force. A copy of the previous state is
kept, and standard error names the file. Resources are not changed.`,
		"push ID state.json",
		func(ctx context.Context, operator *states.Operator, args []string) (string, error) {
			file, err := ctxio.ReadFile(ctx, args[1])
			if err != nil {
				return "", fmt.Errorf("reading the state: %w", err)
			}
			return operator.PushState(ctx, kind, args[0], file, force)
		})
	command.Flags().BoolVar(&force, "force", false,
		"also store a state with another lineage or a lower serial, such as a copy")
	return command
}

// newStateSetAside returns the command `state set-aside ID`, which renames the workspace of a binding or an instance,
// depending on kind, whose state cannot be read, so that the id can be used again. The state counts as unreadable for
// any reason except a lock of another run, even if it is intact and only its key is not configured. Its resources and
// its content are not changed, but a state that an earlier run could not save is saved first if possible. The command
// writes the new name to standard error, and the audit log gets events.
//
// The command returns an error if the state can be read or does not exist, if another run holds its lock, if only
// OpenTofu can access the states of the backend, if no pak has a usable OpenTofu, if the workspace cannot be renamed,
// or if the operator cannot be opened. After an error of the backend or an interruption, the workspace may have been
// renamed nevertheless; see lifecycle.Manager.SetAside.
func newStateSetAside(streams Streams, kind lifecycle.Kind) *cobra.Command {
	return newStateCommand(streams, kind, "set-aside ID",
		"Rename a state that cannot be read, so that it is kept but no longer used",
		`Standard error names the workspace that
contains it afterwards. The id can then be used again. Its resources still exist, and no other state records them. A
state that can be read is an error.`,
		"set-aside ID",
		func(ctx context.Context, operator *states.Operator, args []string) (string, error) {
			name, err := operator.SetAside(ctx, kind, args[0])
			if err == nil {
				say(streams, fmt.Sprintf(
					"the state of %s %s is now workspace %s; "+
						"its resources still exist, and no other state records them",
					kind, args[0], name))
			}
			return "", err
		})
}

// checkIDAndCommand is the check of the arguments of `state exec`. It returns nil if args are one id before "--", and
// at least one word of a command of OpenTofu after it, as in "b1 -- state list"; args do not contain the "--".
// Otherwise it returns a plain error, which setArgumentChecks turns into a usageError.
func checkIDAndCommand(command *cobra.Command, args []string) error {
	if command.ArgsLenAtDash() != 1 || len(args) == 1 {
		return errors.New("one ID is required, followed by -- and a command of OpenTofu")
	}
	return nil
}

// pullState writes the state of a binding or service instance as JSON in clear text, with its secrets, to the file
// with the path output, which only its owner can read, or to standard output if output is "-". It replaces an
// existing file, but writes directly to a device or a pipe. The audit log gets events, because the secrets of the
// state are read; kind and id identify the item. pullState returns a usageError if output is "", an error that wraps
// lifecycle.ErrNotStored if the item does not exist, and another error if the state is locked or cannot be read or
// decrypted, or if the output cannot be written. A state with an unreadable record is written. Reading may delete an
// empty workspace; see lifecycle.Manager.Lookup.
func pullState(
	ctx context.Context, streams Streams, operator *states.Operator, kind lifecycle.Kind, id, output string,
) error {
	if output == "" {
		return usageError{errors.New("--output FILE is missing; the state contains secrets; - means standard output")}
	}
	stored, err := audited(operator, kind, id, func(ctx context.Context) (*lifecycle.Stored, error) {
		return operator.Lookup(ctx, kind, id)
	})(ctx)
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
		return write(streams.Stdout)
	}
	return outfile.Write(ctx, output, 0o600, write)
}
