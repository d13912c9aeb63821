package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
)

// newExport is `bindings export FILE`.
func newExport(streams Streams) *cobra.Command {
	command := &cobra.Command{
		Use:   "export FILE",
		Short: "Write a backup of all bindings and instances",
		Long: `Write a backup of all bindings and instances, which "bindings import" puts back: into the same state backend after a loss, or into
another one. The states in it are encrypted with state.encryption.key; without a key they are not, and hold the credentials. The file is
readable for nobody else, and appears when it is complete. Runs that are under way are not waited for.` +
			exits("0 written", "1 written but for what is unreadable"),
		Example: "  service-adapter bindings export operator.backup",
	}
	return withOperator(command, streams, &adapter.OperatorOptions{}, func(ctx context.Context, operator *adapter.Operator, args []string) error {
		var count int
		var missing []lifecycle.Stored
		progress := newProgress(streams, "reading states")
		err := writeFile(args[0], 0o600, func(to io.Writer) (err error) {
			count, missing, err = lifecycle.Export(ctx, operator.Manager, to, progress.report)
			return err
		})
		progress.end()
		if err != nil {
			return err
		}
		if !operator.Encrypts() {
			say(streams, "the states in the file are not encrypted, because state.encryption is not set")
		}
		for i := range missing {
			say(streams, unreadable(&missing[i].Entry))
		}
		say(streams, fmt.Sprintf("%d written, %d unreadable", count, len(missing)))
		return findings(len(missing) > 0)
	})
}

// newImport is `bindings import FILE`.
func newImport(streams Streams) *cobra.Command {
	var dryRun bool
	run := batch{streams: streams, doing: "importing", options: adapter.OperatorOptions{NewState: true}, brief: true}
	command := &cobra.Command{
		Use:   "import FILE",
		Short: "Put back what a backup has of bindings and instances",
		Long: `Put back what "bindings export" wrote, into the state backend of the configuration. What is stored there is never changed: where the file
has the same nothing is done, and where it has another state that is an error. So it can be interrupted and called again. A file that is
not whole, or that the keys of state.encryption cannot read, is refused before anything is stored. Resources are not touched.` +
			exits("0 all of it is stored", "1 something could not be stored", "3 nothing was stored"),
		Example: "  service-adapter bindings import operator.backup --dry-run",
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only tell what would be stored")
	command.Flags().BoolVar(&run.options.AcceptUnencrypted, "accept-unencrypted", false, "also import states that are not encrypted, and encrypt them")
	jsonFlag(command, &run.asJSON)
	return withOperator(command, streams, &run.options, func(ctx context.Context, operator *adapter.Operator, args []string) error {
		file, err := os.Open(args[0])
		if err != nil {
			return fmt.Errorf("reading the backup: %w", err)
		}
		defer file.Close() //nolint:errcheck // opened for reading: closing cannot lose anything
		info, err := file.Stat()
		if err != nil {
			return err
		}
		backup, err := lifecycle.ReadBackup(operator.Engine, file, info.Size())
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		names, err := operator.Workspaces(ctx, "")
		if err != nil {
			return err
		}
		run.work = func(ctx context.Context, operator *adapter.Operator, stored *lifecycle.Stored) result {
			_, exists := slices.BinarySearch(names, stored.Workspace)
			changed, err := backup.Import(ctx, operator.Manager, stored.Workspace, exists, dryRun)
			switch {
			case err == nil && !changed:
				return result{Result: current}
			case err == nil && dryRun:
				return result{Result: chosen, would: imported}
			default:
				return outcome(err, imported)
			}
		}
		return run.run(ctx, operator, backup.Entries)
	})
}

// newRecover is `bindings recover`.
func newRecover(streams Streams) *cobra.Command {
	var options adapter.OperatorOptions
	command := &cobra.Command{
		Use:   "recover [--cache-dir DIR]",
		Short: "Save the states of bindings and instances that could not be saved",
		Long: `Save the states that could not be saved while the state backend was down. The next command for the same binding does so too, where it
has the same cache directory; this saves all that are left in one, such as that of the broker's container.` +
			exits("0 all are saved, or there were none", "1 something could not be saved"),
		Example: "  service-adapter bindings recover --cache-dir /var/vcap/data/broker/tmp/service-adapter-1000",
	}
	command.Flags().StringVar(&options.CacheDir, "cache-dir", "", "the directory to look in; default: the configuration's cache_dir")
	return withOperator(command, streams, &options, func(ctx context.Context, operator *adapter.Operator, _ []string) error {
		names, err := operator.Engine.Unsaved()
		if err != nil {
			return err
		}
		failed := 0
		for _, name := range names {
			if err := operator.Save(ctx, name); err != nil {
				failed++
				say(streams, fmt.Sprintf("%s: %s", name, err))
				continue
			}
			if err := write(streams.Stdout, name+"\n"); err != nil {
				return err
			}
		}
		say(streams, fmt.Sprintf("%d of %d saved", len(names)-failed, len(names)))
		return findings(failed > 0)
	})
}

const stateHelp = `Mend the OpenTofu state of %s by hand, where nothing else helps: docs/operations.md says which command mends what. A run that is under
way is waited for. Of a state that is changed a copy is kept, which "state push --force" puts back.`

// newState is `bindings state` and `instance state`.
func newState(streams Streams, kind lifecycle.Kind) *cobra.Command {
	// surgery is a command whose work tells which file keeps a copy of what it changed, "" for none.
	surgery := func(use, short, example string, work func(context.Context, *adapter.Operator, []string) (string, error)) *cobra.Command {
		command := &cobra.Command{
			Use: use, Short: short, Long: short + "." + exits("0 done"),
			Example: fmt.Sprintf("  service-adapter %s state %s", parentOf(kind), example),
		}
		completeStored(streams, command, kind)
		return withOperator(command, streams, &adapter.OperatorOptions{}, func(ctx context.Context, operator *adapter.Operator, args []string) error {
			kept, err := work(ctx, operator, args)
			if kept != "" {
				say(streams, fmt.Sprintf("the state before is kept, and put back by: service-adapter %s state push %s --force %s",
					parentOf(kind), args[0], kept))
			}
			return err
		})
	}
	exec := surgery("exec ID -- COMMAND…", "Run a command of OpenTofu with its template, inputs, providers and backend", "exec ID -- state list",
		func(ctx context.Context, operator *adapter.Operator, args []string) (string, error) {
			return operator.ExecState(ctx, kind, args[0], opentofu.Terminal{In: streams.Stdin, Out: streams.Stdout, Err: streams.Stderr}, args[1:]...)
		})
	exec.Args = beforeDash
	var output string
	pull := surgery("pull ID --output FILE", "Write the state as JSON in clear text, with all its secrets", "pull ID --output state.json",
		func(ctx context.Context, operator *adapter.Operator, args []string) (string, error) {
			return "", pullState(ctx, streams, operator, kind, args[0], output)
		})
	pull.Flags().StringVar(&output, "output", "", "write to this file, readable for nobody else; - means standard output")
	var force bool
	push := surgery("push ID FILE", "Store a state that was pulled and edited, or a copy that was kept", "push ID state.json",
		func(ctx context.Context, operator *adapter.Operator, args []string) (string, error) {
			file, err := os.ReadFile(args[1])
			if err != nil {
				return "", fmt.Errorf("reading the state: %w", err)
			}
			return operator.PushState(ctx, kind, args[0], file, force)
		})
	push.Flags().BoolVar(&force, "force", false, "also one of another lineage or a lower serial, such as a copy")
	aside := surgery("set-aside ID", "Keep a state that nobody can read under another name, out of the way", "set-aside ID",
		func(ctx context.Context, operator *adapter.Operator, args []string) (string, error) {
			name, err := operator.SetAside(ctx, kind, args[0])
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
func pullState(ctx context.Context, streams Streams, operator *adapter.Operator, kind lifecycle.Kind, id, output string) error {
	if output == "" {
		return usageError{errors.New("--output FILE is missing; the state holds secrets, - means standard output")}
	}
	stored, err := operator.Read(ctx, kind, id)
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
	return writeFile(output, 0o600, write)
}
