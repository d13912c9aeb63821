package cli

import (
	"github.com/spf13/cobra"

	"service-adapter/internal/author/build"
)

// newLock returns the command `pak lock DIR`, which fetches the binaries of the pak in the source directory DIR for
// all its platforms, and with --include-source their source code, writes the SHA-256 digests to the file
// brokerpak.lock.yml in DIR, and prints the path of this file. It replaces an existing lock, even if that is invalid,
// and prints progress and, if the existing lock is valid, each difference from it to standard error.
//
// The command fails if --binary has an invalid form (a usageError), if the pak or the existing lock cannot be read,
// if the pak is invalid, if a binary cannot be fetched or is not acceptable, if --binary names no entry of
// terraform_binaries, or if a file or the output cannot be written. The existing lock then remains, except that it is
// already replaced if only the last sync of its directory, the removal of temporary files or the output fails.
func newLock(streams Streams) *cobra.Command {
	var flags buildFlags
	command := &cobra.Command{
		Use:   "lock DIR",
		Short: "Record the digests of the binaries of a pak",
		Long: `Fetch the binaries of a pak for all its platforms, as "pak build" does, and record their SHA-256 digests
in the file brokerpak.lock.yml beside the manifest. Commit the file with the pak: "pak build" then rejects every file
with another digest. Run the command again after a change of terraform_binaries or platforms; it prints the files that
changed.

A binary that --binary replaces is recorded as it is. With --include-source, the source code of the entries is recorded
as well, which "pak build --include-source" requires. docs/supply-chain.md describes the file.` +
			exitStatus("0 the lock was written", "1 the pak has an error"),
		Example: "  service-adapter pak lock redis --cache ~/.cache/paks\n" +
			"  service-adapter pak lock redis --binary tofu=/media/tofu_1.12.6_linux_amd64.zip",
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(command *cobra.Command, args []string) error {
			options, err := flags.options(streams, args[0])
			if err != nil {
				return usageError{err}
			}
			file, err := build.Lock(command.Context(), options)
			if err != nil {
				return err
			}
			return write(streams.Stdout, file+"\n")
		},
	}
	command.Flags().BoolVarP(&flags.includeSource, "include-source", "s", false,
		"record the source code that the entries name")
	flags.addSourceFlags(command)
	return command
}
