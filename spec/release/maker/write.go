package maker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	boshcrypto "github.com/cloudfoundry/bosh-cli/v7/crypto"
	boshrelease "github.com/cloudfoundry/bosh-cli/v7/release"
	boshalgorithms "github.com/cloudfoundry/bosh-utils/crypto"
	boshfile "github.com/cloudfoundry/bosh-utils/fileutil"
	boshlog "github.com/cloudfoundry/bosh-utils/logger"
	boshsys "github.com/cloudfoundry/bosh-utils/system"
	"github.com/cppforlife/go-semi-semantic/version"
)

// A Label contains the fields of release.MF that identify a release.
type Label struct {
	Name, Version string
	// Commit is the commit of the repository. Dirty is true if the repository has uncommitted changes.
	Commit string
	Dirty  bool
}

// Write writes the tarball of a release directory to target. It runs the program tar. It returns an error if the
// version is not a BOSH version, or if the BOSH CLI's code cannot read the directory.
func Write(dir string, label Label, target string) (err error) {
	if _, err := version.NewVersionFromString(label.Version); err != nil {
		return fmt.Errorf("reading version %q: %w", label.Version, err)
	}
	archives, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(archives)) }()

	logger := boshlog.NewLogger(boshlog.LevelNone)
	files := boshsys.NewOsFileSystem(logger)
	runner := reproducible{boshsys.NewExecCmdRunner(logger)}
	digests := boshcrypto.NewDigestCalculator(files, []boshalgorithms.Algorithm{boshalgorithms.DigestAlgorithmSHA256})
	provider := boshrelease.NewProvider(runner, boshfile.NewTarballCompressor(runner, files), digests, files, logger)
	release, err := provider.NewDirReader(dir).Read(dir)
	if err != nil {
		return fmt.Errorf("reading the release directory: %w", err)
	}
	release.SetName(label.Name)
	release.SetVersion(label.Version)
	release.SetCommitHash(label.Commit)
	release.SetUncommittedChanges(label.Dirty)
	built := boshrelease.ArchiveIndicies{
		Jobs: index{filepath.Join(archives, "jobs")}, Packages: index{filepath.Join(archives, "packages")},
		Licenses: index{filepath.Join(archives, "licenses")},
	}
	if err := release.Build(built, built, 1); err != nil {
		return fmt.Errorf("building jobs and packages: %w", err)
	}
	archive, err := provider.NewArchiveWriter().Write(release, nil)
	if err != nil {
		return fmt.Errorf("writing the tarball: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(archive)) }()
	return errors.Join(copyFile(archive, target), os.Chmod(target, 0o644)) //nolint:gosec // a release is public
}

// reproducible runs tar with options that omit owners, times and the order of the file system, so that the archive does
// not depend on the machine and the time.
type reproducible struct{ boshsys.CmdRunner }

// RunCommand runs tar and returns its output and exit status.
func (r reproducible) RunCommand(name string, args ...string) (stdout, stderr string, status int, err error) {
	return r.RunComplexCommand(boshsys.Command{Name: name, Args: args, Env: map[string]string{
		"TAR_OPTIONS": "--sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w",
		"LC_ALL":      "C",
	}})
}

// An index is the BOSH CLI's index of the archives of jobs and packages. It is empty at first, so that all archives are
// built.
type index struct{ dir string }

// Find reports that the index contains no archive.
func (i index) Find(string, string) (path, digest string, err error) { return "", "", nil }

// Add copies an archive into the directory of the index, because the caller deletes the original. It returns the path
// of the copy and the digest.
func (i index) Add(name, _, path, digest string) (kept, keptDigest string, err error) {
	kept = filepath.Join(i.dir, name+".tgz")
	return kept, digest, copyFile(path, kept)
}
