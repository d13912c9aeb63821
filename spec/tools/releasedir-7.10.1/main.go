// Command releasedir runs two commands of the BOSH CLI with the CLI's code, because the CLI itself is not available as
// a Go module.
//
//	releasedir create-release DIR VERSION TARBALL    bosh create-release --force
//	                                                 --dir DIR --version VERSION --tarball TARBALL
//	releasedir vendor-package DIR NAME SOURCE        bosh vendor-package --dir DIR NAME SOURCE
package main

import (
	"errors"
	"fmt"
	"os"

	"code.cloudfoundry.org/clock"
	boshcrypto "github.com/cloudfoundry/bosh-cli/v7/crypto"
	boshrelease "github.com/cloudfoundry/bosh-cli/v7/release"
	"github.com/cloudfoundry/bosh-cli/v7/releasedir"
	boshui "github.com/cloudfoundry/bosh-cli/v7/ui"
	boshalgorithms "github.com/cloudfoundry/bosh-utils/crypto"
	boshfile "github.com/cloudfoundry/bosh-utils/fileutil"
	boshlog "github.com/cloudfoundry/bosh-utils/logger"
	boshsys "github.com/cloudfoundry/bosh-utils/system"
	boshuuid "github.com/cloudfoundry/bosh-utils/uuid"
	"github.com/cppforlife/go-semi-semantic/version"
)

// parallel is the CLI's default number of files that are processed concurrently.
const parallel = 5

// A cli contains the services on which the CLI's commands depend.
type cli struct {
	files    boshsys.FileSystem
	releases boshrelease.Provider
	dirs     releasedir.Provider
}

func main() {
	if err := newCLI().run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// newCLI returns services with the settings of the CLI.
func newCLI() cli {
	logger := boshlog.NewWriterLogger(boshlog.LevelWarn, os.Stderr)
	files := boshsys.NewOsFileSystem(logger)
	runner := boshsys.NewExecCmdRunner(logger)
	algorithms := []boshalgorithms.Algorithm{boshalgorithms.DigestAlgorithmSHA256} // as in the CLI
	digests := boshcrypto.NewDigestCalculator(files, algorithms)
	ui := boshui.NewConsoleUI(logger)
	releases := boshrelease.NewProvider(runner, boshfile.NewTarballCompressor(runner, files), digests, files, logger)
	return cli{
		files: files, releases: releases,
		dirs: releasedir.NewProvider(
			boshui.NewIndexReporter(ui), boshui.NewReleaseIndexReporter(ui), boshui.NewBlobsReporter(ui), releases,
			digests, runner, boshuuid.NewGenerator(), clock.NewClock(), files, algorithms, logger,
		),
	}
}

// run runs the command in the arguments. It returns an error with the usage if there is no such command.
func (c cli) run(args []string) error {
	switch {
	case len(args) == 4 && args[0] == "create-release":
		return c.createRelease(args[1], args[2], args[3])
	case len(args) == 4 && args[0] == "vendor-package":
		return c.vendorPackage(args[1], args[2], args[3])
	default:
		return errors.New("usage: releasedir create-release DIR VERSION TARBALL | releasedir vendor-package DIR " +
			"NAME SOURCE")
	}
}

// createRelease builds a release of a directory with a version and writes its tarball.
func (c cli) createRelease(dir, number, tarball string) error {
	wanted, err := version.NewVersionFromString(number)
	if err != nil {
		return err
	}
	releaseDir := c.dirs.NewFSReleaseDir(dir, parallel)
	name, err := releaseDir.DefaultName()
	if err != nil {
		return err
	}
	release, err := releaseDir.BuildRelease(name, wanted, true)
	if err != nil {
		return err
	}
	archive, err := c.releases.NewArchiveWriter().Write(release, nil)
	if err != nil {
		return err
	}
	return boshfile.NewFileMover(c.files).Move(archive, tarball)
}

// vendorPackage copies a package of the release directory source into the release directory dir. It returns an error if
// the source has no such package.
func (c cli) vendorPackage(dir, name, source string) error {
	release, err := c.dirs.NewFSReleaseDir(source, parallel).FindRelease("", version.Version{})
	if err != nil {
		return err
	}
	for _, item := range release.Packages() {
		if item.Name() == name {
			return c.dirs.NewFSReleaseDir(dir, parallel).VendorPackage(item, "")
		}
	}
	return fmt.Errorf("%s has no package %s", source, name)
}
