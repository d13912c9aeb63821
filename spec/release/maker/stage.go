// Package maker builds the BOSH release of this repository: a release directory that a BOSH CLI can use, and a tarball
// of this directory whose bytes depend only on its content.
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

// Content contains the parts of a release that are not in the repository.
type Content struct {
	// Repository is the root of this repository.
	Repository string
	// Binary is the path of the adapter, a static program for the platform of the stemcells. If it is "", the release
	// contains the source with vendored modules, which is compiled with the package golang-1-linux.
	Binary string
	// Version is the version that the program reports when a stemcell compiles it; Binary has its own. "" is that of a
	// development build.
	Version string
	// Licences is the file with the licences of the modules in the adapter, which spec/licences writes. It is installed
	// together with the adapter.
	Licences string
	// Paks are the paths of .brokerpak files to add to the repository's blobs. Each is unpacked into a directory with
	// its base name.
	Paks []string
	// Arch is the architecture of the stemcells in Go's notation. Each pak must have binaries for it.
	Arch string
}

// Stage writes a release directory after removing its previous content. It returns an error if a file cannot be copied,
// if the release contains no pak, or if a pak is not valid or has no binaries for the architecture.
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
	if err := stageSource(ctx, content.Repository, dir, program); err != nil {
		return err
	}
	//nolint:gosec // nothing secret
	return os.WriteFile(filepath.Join(program, "VERSION"), []byte(content.Version+"\n"), 0o644)
}

// checkPak returns an error unless the file is a pak with binaries for the platform.
func checkPak(path string, platform brokerpak.Platform) error {
	name := filepath.Base(path)
	pak, err := brokerpak.Open(path)
	if err != nil {
		return fmt.Errorf("checking the pak %s: %w", name, err)
	}
	defer pak.Close() //nolint:errcheck // it was opened for reading, so closing cannot lose data
	if info, err := fs.Stat(pak.Files(), "bin/"+platform.String()); err != nil || !info.IsDir() {
		return fmt.Errorf("checking the pak %s: it has no binaries for %s; build it for this platform, or set "+
			"RELEASE_GOARCH", name, platform)
	}
	return nil
}

// stageSource copies the source of the program with its vendored modules into the directory program. It replaces the
// spec and packaging of the package odb-service-adapter in dir with those that compile the source.
func stageSource(ctx context.Context, repository, dir, program string) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := copyFile(filepath.Join(repository, name), filepath.Join(program, name)); err != nil {
			return fmt.Errorf("staging the source: %w", err)
		}
	}
	// All files that the packages of the program embed are in these directories as well.
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

// skipped reports whether a file or directory of the source is not needed by any package. These are tests and their
// data.
func skipped(entry fs.DirEntry) bool {
	return entry.IsDir() && entry.Name() == "testdata" || strings.HasSuffix(entry.Name(), "_test.go")
}

// copyTree copies the regular files of a directory, except those that skipped excludes. A directory that does not exist
// counts as empty.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist) && path == from:
			return os.MkdirAll(to, 0o755) //nolint:gosec // it contains no secret
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
			return os.MkdirAll(target, 0o755) //nolint:gosec // it contains no secret
		}
		return copyFile(path, target)
	})
}

// copyFile copies a file with its mode and creates the parent directories. It does not read the whole file into memory,
// because paks are large.
func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // it contains no secret
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
