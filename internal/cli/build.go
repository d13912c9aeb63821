package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/pakbuild"
	"service-adapter/internal/paklint"
)

// buildFlags are the flags of `pak build`.
type buildFlags struct {
	output, target, cache string
	binaries              []string
	includeSource         bool
}

// newBuild is `pak build DIR`.
func newBuild(streams Streams) *cobra.Command {
	var flags buildFlags
	command := &cobra.Command{
		Use:   "build DIR",
		Short: "Build a .brokerpak file",
		Long: `Build a brokerpak: one file, <name>-<version>.brokerpak in the working directory, with the definitions and every entry of
terraform_binaries for every platform. Templates, BOSH manifests, ops files and images are written into the definitions. Where the
environment has a variable named as the manifest's version, the file is named by its value. What "pak validate" refuses is not built.

An entry comes from its url_template: an http or https URL, or a local file, relative to the pak or else to the working directory.
${name}, ${version}, ${os} and ${arch} are filled in. Zip and tar archives (also gz and bz2) are unpacked, unless the URL ends with
?archive=false; with ?checksum=sha256:… the file must have this checksum. Entries without a url_template come from their publisher.

Without a network, or to try another version, --binary NAME=FILE says where an entry comes from; it may hold the same parameters:

  service-adapter pak build redis --target current --binary tofu=/usr/local/bin/tofu` +
			exits("0 the pak was built", "1 something in the pak is wrong"),
		Example:           "  service-adapter pak build redis --target linux/amd64 --cache ~/.cache/paks",
		ValidArgsFunction: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
		RunE:              func(command *cobra.Command, args []string) error { return flags.build(command, streams, args[0]) },
	}
	command.Flags().StringVarP(&flags.output, "output", "o", "", "the file to write")
	command.Flags().StringVarP(&flags.target, "target", "t", "", "build for this platform only, OS/ARCH or current")
	command.Flags().BoolVarP(&flags.includeSource, "include-source", "s", false, "add the source code that entries name, below src/")
	flags.sources(command)
	return command
}

// sources adds the flags that say where binaries come from.
func (f *buildFlags) sources(command *cobra.Command) {
	command.Flags().StringVar(&f.cache, "cache", "", "keep downloads in this directory (PAK_BUILD_CACHE_PATH)")
	command.Flags().StringArrayVar(&f.binaries, "binary", nil, "NAME=FILE or NAME=URL: where an entry of terraform_binaries comes from")
}

func (f buildFlags) build(command *cobra.Command, streams Streams, dir string) error {
	options, err := f.options(streams, dir)
	if err != nil {
		return usageError{err}
	}
	if err := refuse(command.Context(), streams, dir); err != nil {
		return err
	}
	file, err := pakbuild.Build(command.Context(), options)
	if err != nil {
		return err
	}
	return write(streams.Stdout, file+"\n")
}

// refuse reports the errors that "pak validate" finds in a pak.
func refuse(ctx context.Context, streams Streams, dir string) error {
	report, err := paklint.Lint(ctx, dir)
	if err != nil {
		return err
	}
	found := errorsOf(report.Diagnostics)
	if len(found) == 0 {
		return nil
	}
	if err := diag.WriteText(streams.Stderr, mostSevere(found), report.Source, false); err != nil {
		return fmt.Errorf("writing the findings: %w", err)
	}
	say(streams, counted(len(found), "error")+", nothing was built; pak validate tells more")
	return errFindings
}

func (f buildFlags) options(streams Streams, dir string) (pakbuild.Options, error) {
	options := pakbuild.Options{
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
	options.Platform, err = platformFlag("--target", f.target)
	return options, err
}

// platformFlag reads the value of a flag; nil when it was not given.
func platformFlag(flag, text string) (*brokerpak.Platform, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no platform is no fault
	}
	platform, err := pakbuild.ParsePlatform(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return &platform, nil
}

// newUnpack is `pak unpack PAK DIR`.
func newUnpack(streams Streams) *cobra.Command {
	var platform string
	command := &cobra.Command{
		Use:   "unpack PAK DIR",
		Short: "Unpack a .brokerpak file",
		Long: `Unpack a brokerpak into a directory, with binaries that can be executed. The adapter runs from such a directory without a place to
unpack to. DIR must be empty or not exist; it holds the whole pak or nothing. --platform leaves out the binaries of others.` +
			exits("0 the pak was unpacked", "1 the pak is wrong"),
		Example: "  service-adapter pak unpack redis-0.1.0.brokerpak ${BOSH_INSTALL_TARGET} --platform linux/amd64",
		RunE: func(command *cobra.Command, args []string) error {
			wanted, err := platformFlag("--platform", platform)
			if err != nil {
				return usageError{err}
			}
			if err := pakbuild.Unpack(command.Context(), args[0], args[1], wanted); err != nil {
				return err
			}
			return write(streams.Stdout, args[1]+"\n")
		},
	}
	command.Flags().StringVar(&platform, "platform", "", "only the binaries of this platform, OS/ARCH or current")
	return command
}
