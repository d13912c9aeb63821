package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/build"
	"service-adapter/internal/author/lint"
	"service-adapter/internal/diag"
)

// A buildFlags holds the values of the flags of `pak build`. `pak lock` and `pak test` use parts of it for their flags.
// The zero value holds the defaults: no flag is set, so the pak is built for all its platforms, without source code,
// into the default file.
type buildFlags struct {
	// output is the path of the pak that is written, "" for the default name.
	output string
	// target is the only platform to build for, OS/ARCH or "current"; "" means all platforms of the manifest.
	target string
	// cache is the directory that keeps downloads, "" for that of the environment variable PAK_BUILD_CACHE_PATH.
	cache string
	// binaries are of the form NAME=FILE or NAME=URL and replace the source of an entry of terraform_binaries. The last
	// of several with the same name takes effect.
	binaries []string
	// includeSource adds the source code that entries name to the pak.
	includeSource bool
}

// newBuild returns the command `pak build DIR`, which builds a .brokerpak file from the source directory DIR of a pak
// and prints the path of the file. It is that of --output, or NAME-VERSION.brokerpak in the working directory; an
// existing file is replaced only by a complete pak. The command fetches binaries over the network unless --binary or
// --cache supplies them, and writes progress to standard error.
//
// The command returns a usageError for a malformed flag. It returns errFindings, without building, if `pak validate`
// finds an error in the pak, which it writes to standard error. It also fails if DIR cannot be read or is not a
// directory, if a binary cannot be fetched, is not acceptable or differs from the pak's lock, if --binary names no
// entry of terraform_binaries, or if the file or the output cannot be written.
func newBuild(streams Streams) *cobra.Command {
	var flags buildFlags
	command := &cobra.Command{
		Use:   "build DIR",
		Short: "Build a .brokerpak file",
		Long: `Build a brokerpak. The result is one file, <name>-<version>.brokerpak in the working directory, with the
definitions and every entry of terraform_binaries for every platform. Templates, BOSH manifests, ops files and images
are embedded in the definitions. If the manifest's version is the name of an environment variable, the value of the
variable replaces it in the file's name. A pak in which "pak validate" finds an error is not built.

Each entry is read from its url_template, which is an http or https URL, or the path of a local file, relative to the
pak or else to the working directory. The parameters ${name}, ${version}, ${os} and ${arch} are replaced. Zip and tar
archives (also gz and bz2) are unpacked, unless the URL ends with ?archive=false. With ?checksum=sha256:CHECKSUM the
file must have this checksum. An archive may contain 10,000 files and directories and 4 GB. Entries without a
url_template are downloaded from their publisher.

If the pak has a lock, brokerpak.lock.yml, every fetched file must have the digest in it; "pak lock" writes the file.
The result contains a lock of its own files, with which "pak unpack" and "prepare" compare them, and a bill of
materials.

To build without a network, or to try another version, set the source of an entry with --binary NAME=FILE. FILE may
contain the same parameters:

  service-adapter pak build redis --target current --binary tofu=/usr/local/bin/tofu` +
			exitStatus("0 the pak was built", "1 the pak has an error"),
		Example:           "  service-adapter pak build redis --target linux/amd64 --cache ~/.cache/paks",
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE: func(command *cobra.Command, args []string) error {
			return flags.build(command, streams, args[0])
		},
	}
	command.Flags().StringVarP(&flags.output, "output", "o", "", "the file to write")
	command.Flags().StringVarP(&flags.target, "target", "t", "", "build for this platform only, OS/ARCH or current")
	command.Flags().BoolVarP(&flags.includeSource, "include-source", "s", false,
		"add the source code that the entries name, in the directory src/ of the pak")
	flags.addSourceFlags(command)
	return command
}

// addSourceFlags adds two flags to a command that choose the sources of a pak's binaries: --cache, a directory that
// keeps downloads, and --binary, the repeatable NAME=FILE or NAME=URL of one binary. Parsing the command line stores
// their values in f without checking them; options checks them.
func (f *buildFlags) addSourceFlags(command *cobra.Command) {
	command.Flags().StringVar(&f.cache, "cache", "", "keep downloads in this directory (PAK_BUILD_CACHE_PATH)")
	command.Flags().StringArrayVar(&f.binaries, "binary", nil,
		"NAME=FILE or NAME=URL: read this entry of terraform_binaries from there")
}

// build builds the pak in the source directory dir, writes the path of the built file to standard output, and writes
// progress to standard error. command supplies only the context.
//
// build returns a usageError if --binary or --target has an invalid form, and errFindings if `pak validate` finds
// errors in the pak, which it has then written to standard error; it builds nothing in these cases. It returns
// another error if the pak cannot be read, if a binary cannot be fetched, is not acceptable or differs from the pak's
// lock, if --binary names no entry of terraform_binaries, if the context ends, or if the file or the output cannot be
// written. An existing file is replaced only by a complete pak.
func (f buildFlags) build(command *cobra.Command, streams Streams, dir string) error {
	options, err := f.options(streams, dir)
	if err != nil {
		return usageError{err}
	}
	if err := rejectInvalidPak(command.Context(), streams, dir); err != nil {
		return err
	}
	file, err := build.Build(command.Context(), options)
	if err != nil {
		return err
	}
	return write(streams.Stdout, file+"\n")
}

// rejectInvalidPak checks the pak in the directory dir with all rules of `pak validate` and returns nil if none of its
// findings is an error; warnings are ignored. Otherwise it writes at most 50 (maxFindings) of the errors, and the
// number of all of them, to standard error and returns errFindings. It returns another error if the pak cannot be read
// or closed, if ctx ends, or if the errors cannot be written. dir is not changed.
func rejectInvalidPak(ctx context.Context, streams Streams, dir string) error {
	report, err := lint.Lint(ctx, dir)
	if err != nil {
		return err
	}
	failures := errorsOf(report.Diagnostics)
	if len(failures) == 0 {
		return nil
	}
	if err := diag.WriteText(streams.Stderr, mostSevere(failures), report.Source, false); err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	say(streams, counted(len(failures), "error")+", nothing was built; run pak validate for details")
	return errFindings
}

// options returns the options for building the pak in the source directory dir, with progress written to standard
// error. If --cache is "" or not set, the cache is the directory in the environment variable PAK_BUILD_CACHE_PATH; if
// that is missing too, downloads are not kept. Of several --binary with the same name, the last one is used.
//
// options returns an error if a --binary is not of the form NAME=FILE or NAME=URL, or if --target is neither OS/ARCH
// nor "current"; the options are then incomplete. The error is a plain error, which callers turn into a usageError.
// options does not access the directory.
func (f buildFlags) options(streams Streams, dir string) (build.Options, error) {
	options := build.Options{
		Dir: dir, Output: f.output, IncludeSource: f.includeSource, CacheDir: f.cache,
		Binaries: map[string]string{}, Getenv: streams.Getenv, Progress: streams.Stderr,
	}
	if options.CacheDir == "" {
		options.CacheDir, _ = streams.Getenv("PAK_BUILD_CACHE_PATH")
	}
	for _, text := range f.binaries {
		name, from, ok := strings.Cut(text, "=")
		if !ok || name == "" || from == "" {
			return options, fmt.Errorf("--binary %q must have the form NAME=FILE or NAME=URL", text)
		}
		options.Binaries[name] = from
	}
	var err error
	options.Platform, err = parsePlatformFlag("--target", f.target)
	return options, err
}

// parsePlatformFlag parses text, the value of a flag that names a platform: OS/ARCH, such as "linux/amd64", or
// "current" for the platform of this process. Whether such a platform exists is not checked. It returns nil without an
// error for an empty text, which means that the flag is not set, and nil with an error for any other text. flag, such
// as "--target", is used only in the error.
func parsePlatformFlag(flag, text string) (*brokerpak.Platform, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // nil means that the flag is not set
	}
	platform, err := build.ParsePlatform(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return &platform, nil
}

// newUnpack returns the command `pak unpack PAK DIR`, which unpacks a .brokerpak file into a directory that is empty or
// does not exist, and prints DIR. With --platform it leaves out the binaries of other platforms. It also removes
// temporary directories that killed calls left next to DIR. The command fails if the platform is malformed (a
// usageError), if PAK is not a valid .brokerpak file, lacks binaries for the platform or differs from its lock, or if
// DIR is not empty or cannot be written; DIR receives no files then. It also fails, although DIR is complete, if only
// the last sync of its parent directory or the removal of temporary files fails, or if the output cannot be written.
func newUnpack(streams Streams) *cobra.Command {
	var platform string
	command := &cobra.Command{
		Use:   "unpack PAK DIR",
		Short: "Unpack a .brokerpak file",
		Long: `Unpack a brokerpak into a directory, with executable binaries. An adapter that uses such a directory does
not have to unpack the pak itself. DIR must be empty or not exist; it receives either all files of the pak or none.
Temporary files that a killed "pak unpack" left next to DIR are removed. With --platform the binaries of other platforms
are left out. If the pak has a lock, the files must have the digests in it.` +
			exitStatus("0 the pak was unpacked", "1 the pak is invalid"),
		Example: "  service-adapter pak unpack redis-0.1.0.brokerpak ${BOSH_INSTALL_TARGET} --platform linux/amd64",
		RunE: func(command *cobra.Command, args []string) error {
			only, err := parsePlatformFlag("--platform", platform)
			if err != nil {
				return usageError{err}
			}
			if err := build.Unpack(command.Context(), args[0], args[1], only); err != nil {
				return err
			}
			return write(streams.Stdout, args[1]+"\n")
		},
	}
	command.Flags().StringVar(&platform, "platform", "", "only the binaries of this platform, OS/ARCH or current")
	return command
}
