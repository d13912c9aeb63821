package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"service-adapter/adapter"
	"service-adapter/internal/lifecycle"
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
		Example: "  service-adapter bindings export states.backup",
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
		Example: "  service-adapter bindings import states.backup --dry-run",
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
			if err := write(streams, name+"\n"); err != nil {
				return err
			}
		}
		say(streams, fmt.Sprintf("%d of %d saved", len(names)-failed, len(names)))
		return findings(failed > 0)
	})
}
