// Package maker makes the BOSH release of this repository: a release directory that a BOSH CLI could use, and of it a
// tarball whose bytes depend on nothing but its content.
package maker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"service-adapter/brokerpak"
)

// Content is what goes into a release besides what the repository has.
type Content struct {
	// Repository is the root of this repository.
	Repository string
	// Binary is the adapter, a static program for the stemcells' platform; "" to release its source with vendored
	// modules, which the stemcell compiles with the package golang-1-linux.
	Binary string
	// Licences is the file with the licences of the modules in the adapter, which spec/licences writes. It is installed
	// together with the adapter.
	Licences string
	// Paks are .brokerpak files besides the repository's blobs; each is unpacked as a directory of its base name.
	Paks []string
	// Arch is the architecture of the stemcells, as Go names it, for which each pak must have binaries.
	Arch string
}

// Stage makes a release directory. What was there before is removed.
func Stage(ctx context.Context, content Content, dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the old release directory: %w", err)
	}
	for _, name := range []string{"config", "jobs", "packages", "src", "blobs", ".final_builds"} {
		if err := copyTree(filepath.Join(content.Repository, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("staging %s: %w", name, err)
		}
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		if err := copyFile(filepath.Join(content.Repository, name), filepath.Join(dir, name)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("staging %s: %w", name, err)
		}
	}
	var added []string
	for _, pak := range content.Paks {
		if filepath.Ext(pak) != ".brokerpak" {
			return fmt.Errorf("staging %s: a pak must be a .brokerpak file", pak)
		}
		name := filepath.Join("brokerpaks", filepath.Base(pak))
		if err := copyFile(pak, filepath.Join(dir, "blobs", name)); err != nil {
			return fmt.Errorf("staging the paks: %w", err)
		}
		added = append(added, name)
	}
	if err := trackBlobs(dir, added); err != nil {
		return err
	}
	found, err := filepath.Glob(filepath.Join(dir, "blobs", "brokerpaks", "*.brokerpak"))
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return errors.New("the release has no pak: add one with `bosh add-blob FILE brokerpaks/NAME.brokerpak`, " +
			"or make release PAKS=FILE")
	}
	for _, pak := range found {
		if err := checkPak(pak, brokerpak.Platform{OS: "linux", Arch: content.Arch}); err != nil {
			return err
		}
	}
	program := filepath.Join(dir, "src", "service-adapter")
	if err := copyFile(content.Licences, filepath.Join(program, "THIRD_PARTY_LICENSES")); err != nil {
		return fmt.Errorf("staging the licences, which make build/THIRD_PARTY_LICENSES writes: %w", err)
	}
	if content.Binary != "" {
		if err := copyFile(content.Binary, filepath.Join(program, "service-adapter")); err != nil {
			return fmt.Errorf("staging the program: %w", err)
		}
		return os.Chmod(filepath.Join(program, "service-adapter"), 0o755) //nolint:gosec // a program
	}
	return stageSource(ctx, content.Repository, dir, program)
}

// checkPak makes sure that a file is a pak with binaries for the stemcells.
func checkPak(path string, platform brokerpak.Platform) error {
	name := filepath.Base(path)
	pak, err := brokerpak.Open(path)
	if err != nil {
		return fmt.Errorf("checking the pak %s: %w", name, err)
	}
	defer pak.Close() //nolint:errcheck // opened for reading: closing cannot lose anything
	if info, err := fs.Stat(pak.Files(), "bin/"+platform.String()); err != nil || !info.IsDir() {
		return fmt.Errorf("checking the pak %s: it has no binaries for %s; build it for this platform, or set "+
			"RELEASE_GOARCH", name, platform)
	}
	return nil
}

// stageSource puts the program's source, with its modules vendored, in the place of the program.
func stageSource(ctx context.Context, repository, dir, program string) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := copyFile(filepath.Join(repository, name), filepath.Join(program, name)); err != nil {
			return fmt.Errorf("staging the source: %w", err)
		}
	}
	// Whatever the packages of the program embed lies below the same directories.
	for _, name := range []string{
		"cmd", "adapter", "binding", "brokerpak", "docs", "examples", "internal",
		"manifestgen", "schemas",
	} {
		if err := copyTree(filepath.Join(repository, name), filepath.Join(program, name)); err != nil {
			return fmt.Errorf("staging the source: %w", err)
		}
	}
	vendor := exec.CommandContext(ctx, "go", "mod", "vendor", "-o", filepath.Join(program, "vendor"))
	vendor.Dir = repository
	if output, err := vendor.CombinedOutput(); err != nil {
		return fmt.Errorf("vendoring modules: %w: %s", err, strings.TrimSpace(string(output)))
	}
	own := filepath.Join(dir, "packages", "odb-service-adapter")
	for _, name := range []string{"spec", "packaging"} {
		if err := os.Rename(filepath.Join(own, name+".source"), filepath.Join(own, name)); err != nil {
			return fmt.Errorf("staging the source: %w", err)
		}
	}
	return nil
}

// skipped tells what of a source tree no package needs: tests and what they read.
func skipped(entry fs.DirEntry) bool {
	return entry.IsDir() && entry.Name() == "testdata" || strings.HasSuffix(entry.Name(), "_test.go")
}

// copyTree copies the regular files of a directory; one that does not exist is empty.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == from:
			return os.MkdirAll(to, 0o755) //nolint:gosec // nothing secret
		case err != nil:
			return err
		case entry.IsDir() && skipped(entry):
			return fs.SkipDir
		case skipped(entry):
			return nil
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755) //nolint:gosec // nothing secret
		}
		return copyFile(path, target)
	})
}

// copyFile copies a file with its mode. Paks are large.
func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // nothing secret
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	source, err := os.Open(from) //nolint:gosec // a file of the release
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // only read
	//nolint:gosec // in the release directory
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = target.ReadFrom(source)
	return errors.Join(err, target.Close())
}
