package cli

import (
	"context"

	"github.com/spf13/cobra"

	"service-adapter/internal/author/release"
)

// releaseFlags holds the flags that name BOSH releases. paths are tarballs or directories; without any, open returns
// none.
type releaseFlags struct {
	paths []string
	// version is the version of the releases that have none themselves.
	version string
}

// add adds the flags --release and --release-version to a command. purpose is the beginning of the description of
// --release, such as "read the jobs of".
func (f *releaseFlags) add(command *cobra.Command, purpose string) {
	command.Flags().StringArrayVar(&f.paths, "release", nil,
		purpose+" the BOSH release at this `PATH`, a tarball or the directory of its source; can be repeated")
	command.Flags().StringVar(&f.version, "release-version", "", "the version of releases that have none themselves")
}

// open returns the releases that the flags name, in their order. It returns nil without --release, and an error if a
// release cannot be read.
func (f *releaseFlags) open(ctx context.Context) (releases []*release.Release, err error) {
	for _, path := range f.paths {
		opened, err := release.Open(ctx, path, f.version)
		if err != nil {
			return nil, err
		}
		releases = append(releases, opened)
	}
	return releases, nil
}
