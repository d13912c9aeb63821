package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/operate/states"
	"service-adapter/internal/outfile"
)

// newExport returns the command `bindings export FILE`, which writes a backup of all states of bindings and service
// instances to FILE, readable only by its owner, and keeps the previous file as FILE.1, unless the previous file has no
// entries and FILE.1 exists. If states are unreadable, or if the state backend is empty and FILE exists and is neither
// empty nor a backup without entries, the command writes FILE.partial instead and changes neither FILE nor FILE.1. A
// device or a pipe is written directly. streams receive the summary and the progress. Reading the states may delete
// empty workspaces and restore incomplete local states; see lifecycle.Export.
//
// The command returns errFindings if it wrote FILE.partial or if states are unreadable. It returns another error if the
// operator cannot be opened, if --require-encryption is set and no key is configured, if no pak has a usable OpenTofu,
// if the backend or an existing FILE cannot be read, or if a file cannot be written. The previous backup is then still
// in FILE or in FILE.1.
func newExport(streams Streams) *cobra.Command {
	var requireEncryption bool
	command := &cobra.Command{
		Use:   "export FILE",
		Short: "Write a backup of all bindings and instances",
		Long: `Write a backup of all bindings and instances, which "bindings import" restores, into the same state
backend after a loss, or into another one. The states in it are encrypted with state.encryption.key. Without a key they
are not encrypted and contain credentials. Only the owner can read the file, which is created when it is complete. The
command waits for a run in progress only if the state of the run is empty or incomplete.

The previous FILE is kept as FILE.1. If a state is unreadable, or if the state backend is empty and FILE is not, FILE
is not changed and the export is written to FILE.partial. Symbolic links are followed. A device or a pipe is written to
directly.` +
			exitStatus("0 the backup was written",
				"1 a state is unreadable, or the state backend is empty and FILE is not"),
		Example: "  service-adapter bindings export operator.backup",
	}
	command.Flags().BoolVar(&requireEncryption, "require-encryption", false,
		"write nothing if state.encryption is not set")
	work := func(ctx context.Context, operator *states.Operator, args []string) error {
		if requireEncryption && !operator.Encrypts() {
			return errors.New("state.encryption is not set, so the backup would contain credentials in clear text: " +
				"set it, or export without --require-encryption")
		}
		output, err := outfile.Resolve(args[0])
		if err != nil {
			return err
		}
		e := export{streams: streams, operator: operator, path: args[0], output: output}
		if output.IsStream() {
			err = output.Write(ctx, backupMode, e.writer(ctx))
		} else {
			err = e.replace(ctx)
		}
		if err != nil {
			return err
		}
		e.report()
		return findingsError(len(e.missing) > 0 || e.partial != "")
	}
	return withOperator(command, streams, &states.Options{}, work)
}

// backupMode is the mode of a backup, which contains credentials.
const backupMode = 0o600

// An export is one run of `bindings export`, which writes a backup to a file. streams, operator, path and output are
// its input, and must be set: path names the backup in messages, and output is the file or stream to which it is
// written. The other fields contain the results and are read by report. The function that writer returns sets count
// and missing, and replace sets partial and reason if it writes FILE.partial instead of FILE.
type export struct {
	streams  Streams
	operator *states.Operator
	// path is the path of the backup as the user wrote it, and output the file to which it leads.
	path   string
	output *outfile.Output
	// count is the number of entries that were written. missing are the entries that cannot be read and were not
	// written.
	count   int
	missing []lifecycle.Stored
	// partial is the path of the file that was written instead of output, and reason says why. Both are "" if output
	// was written.
	partial, reason string
}

// writer returns a function that reads all states from the state backend and writes the backup to its argument, with
// progress on standard error. Reading may delete empty workspaces and restore incomplete local states; see
// lifecycle.Export. The function sets e.count to the number of entries that it wrote, and e.missing to the entries
// whose states cannot be read. These are absent from the backup and are not an error. The function returns an error
// if the workspaces cannot be listed, if no pak has a usable OpenTofu, if ctx ends, or if a state cannot be encrypted
// or the backup cannot be written; the written part is not a valid backup then.
func (e *export) writer(ctx context.Context) func(to io.Writer) error {
	return func(to io.Writer) (err error) {
		progress := newProgress(e.streams, "reading states")
		defer progress.end()
		e.count, e.missing, err = lifecycle.Export(ctx, e.operator.Manager, to, progress.report)
		return err
	}
}

// replace replaces FILE, which is the target of e.output, by a new backup and keeps the previous file as FILE.1. If
// the previous file has no entries, an existing FILE.1 stays instead (see rotate). The new backup is complete before
// any file is changed. If entries are unreadable, or if the new backup has no entries and FILE exists and is neither
// empty nor a backup without entries, replace does not change FILE: it writes the new backup to FILE.partial instead,
// sets e.partial and e.reason, and returns nil. It also sets e.count and e.missing. e.output must not be a stream.
//
// replace returns an error if the states cannot be read or encrypted (see writer), if a temporary file in the directory
// of FILE cannot be written, if an existing FILE cannot be opened, if FILE.1 has to be replaced and is not a regular
// file, if FILE.partial cannot be written, if a file cannot be renamed, or if the directory cannot be synchronised. A
// previous backup with entries is then in FILE or in FILE.1.
func (e *export) replace(ctx context.Context) error {
	staged, err := e.output.Stage(backupMode, e.writer(ctx))
	if err != nil {
		return err
	}
	defer staged.Discard()
	previousEmpty, err := emptyBackup(e.output.Target())
	switch {
	case err != nil:
		return err
	case len(e.missing) > 0:
		e.reason = "not everything can be read"
	case e.count == 0 && !previousEmpty:
		e.reason = "the state backend is empty and that file is not"
	default:
		return e.rotate(ctx, staged, previousEmpty)
	}
	e.partial = e.output.Target() + ".partial"
	partial, err := outfile.Resolve(e.partial)
	if err != nil {
		return err
	}
	return partial.Publish(ctx, staged)
}

// rotate keeps the previous backup FILE, the target of e.output, as FILE.1, where it replaces an older one, and then
// moves staged, the complete new backup, to FILE. previousEmpty says that FILE is missing or has no entries; FILE is
// then kept only if FILE.1 does not exist, because an existing FILE.1 may contain entries. If FILE does not exist,
// only staged is moved. rotate returns an error if FILE.1 has to be replaced and is not a regular file, if a file
// cannot be renamed, or if the directory cannot be synchronised. After an error, a previous backup with entries is in
// FILE or in FILE.1. ctx has no effect, because the target is a regular file.
func (e *export) rotate(ctx context.Context, staged *outfile.Staged, previousEmpty bool) error {
	older := e.output.Target() + ".1"
	if _, err := os.Lstat(older); !previousEmpty || errors.Is(err, fs.ErrNotExist) {
		if err := e.output.KeepPrevious(older); err != nil {
			return err
		}
	}
	return e.output.Publish(ctx, staged)
}

// emptyBackup reports whether the file at path does not exist, has no content, or is a backup without entries, so that
// no data is lost when it is replaced. It returns false for any other file, also for one that is not a backup or whose
// content cannot be read. It returns an error if the file exists and cannot be opened.
func emptyBackup(path string) (bool, error) {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading the previous backup: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read, so closing cannot lose data
	return lifecycle.EmptyBackup(file), nil
}

// report writes a summary of the finished export to standard error: that the states are not encrypted if the
// configuration has no key, each entry that cannot be read, the numbers of written and unreadable entries, and, if
// FILE.partial was written instead of FILE, the reason. Failed writes are ignored.
func (e *export) report() {
	if !e.operator.Encrypts() {
		say(e.streams, "the states in the file are not encrypted, because state.encryption is not set")
	}
	for i := range e.missing {
		say(e.streams, unreadableMessage(&e.missing[i].Entry))
	}
	say(e.streams, fmt.Sprintf("%d written, %d unreadable", e.count, len(e.missing)))
	if e.partial != "" {
		say(e.streams, fmt.Sprintf("%s was not changed, because %s; this export is in %s", e.path, e.reason, e.partial))
	}
}

// newImport returns the command `bindings import FILE`, which stores the states of a backup that the state backend does
// not contain. FILE is the path of the backup. The state directory of a local backend may be one that was never used.
// An equal stored state is left alone, without a line of text, and a different one makes the item fail; the command
// replaces no stored state by one of the backup. With --dry-run it stores none of the backup. Even then, reading the
// stored states may delete empty workspaces and restore incomplete local states; see lifecycle.Backup.RestoreWorkspace.
//
// The command returns errFindings if an item failed. It returns another error, and stores nothing, if the operator
// cannot be opened, if the file cannot be read, is incomplete or contains a state that cannot be decrypted, if no pak
// has a usable OpenTofu, or if the state backend cannot be listed. If a key is configured, a state in clear text is
// such an error as well, unless --accept-unencrypted is set, which encrypts it. The results are written to streams; a
// failed write to standard output is an error.
func newImport(streams Streams) *cobra.Command {
	var dryRun bool
	run := batch{
		streams: streams, activity: "importing", options: states.Options{NewState: true}, omitCurrent: true,
	}
	command := &cobra.Command{
		Use:   "import FILE",
		Short: "Restore bindings and instances from a backup",
		Long: `Restore the bindings and instances in a file that "bindings export" wrote into the state backend of the
configuration. States that the state backend contains are never changed: an equal one is left alone, and a different
one is an error. So the command can be interrupted and repeated. It stores nothing if the file is incomplete or cannot
be decrypted with the keys of state.encryption. Resources are not changed.` +
			exitStatus("0 the whole backup is stored", "1 a state could not be stored", "3 nothing was stored"),
		Example: "  service-adapter bindings import operator.backup --dry-run",
	}
	command.Flags().BoolVar(&dryRun, "dry-run", false, "only report what would be stored")
	command.Flags().BoolVar(&run.options.AcceptUnencrypted, "accept-unencrypted", false,
		"also import states that are not encrypted, and encrypt them")
	jsonFlag(command, &run.asJSON)
	work := func(ctx context.Context, operator *states.Operator, args []string) error {
		file, err := os.Open(args[0])
		if err != nil {
			return fmt.Errorf("reading the backup: %w", err)
		}
		defer file.Close() //nolint:errcheck // it was only read, so closing cannot lose data
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
		run.work = func(ctx context.Context, operator *states.Operator, stored *lifecycle.Stored) result {
			_, exists := slices.BinarySearch(names, stored.Workspace)
			changed, err := backup.RestoreWorkspace(ctx, operator.Manager, stored.Workspace, exists, dryRun)
			switch {
			case err == nil && !changed:
				return result{Result: resultCurrent}
			case err == nil && dryRun:
				return result{Result: resultChosen, wouldBe: resultImported}
			default:
				return resultOf(err, resultImported)
			}
		}
		return run.run(ctx, operator, backup.Entries)
	}
	return withOperator(command, streams, &run.options, work)
}
