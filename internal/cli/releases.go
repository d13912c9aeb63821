package cli

import (
	"context"

	"github.com/spf13/cobra"

	"service-adapter/internal/author/release"
)

// A releaseFlags holds the values of the flags --release and --release-version. The first are the paths of BOSH
// releases, each a tarball or a directory with the source of a release. The second is the version of those releases
// that have none themselves; it may be "", and does not select a version. The zero value names no releases.
type releaseFlags struct {
	paths []string
	// version is the version of the releases that have none themselves.
	version string
}

// add adds the repeatable flag --release and the flag --release-version to a command; parsing the command line stores
// their values in f. purpose, such as "read the jobs of", is the beginning of the description of --release in the help,
// which continues "the BOSH release at this PATH".
func (f *releaseFlags) add(command *cobra.Command, purpose string) {
	command.Flags().StringArrayVar(&f.paths, "release", nil,
		purpose+" the BOSH release at this `PATH`, a tarball or the directory of its source; can be repeated")
	command.Flags().StringVar(&f.version, "release-version", "", "the version of releases that have none themselves")
}

// open reads the BOSH releases that --release names and returns them in the order of the flags. A release that has no
// version itself has that of --release-version, or "" without this flag. Without --release, open returns nil and no
// error. It returns nil and an error for the first release that cannot be read, is invalid, or exceeds a size limit,
// and if ctx ends.
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
