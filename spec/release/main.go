// Command release builds the BOSH release of this repository in build/release: the release directory "dir", and the
// tarball service-adapter-VERSION.tgz of this directory.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"service-adapter/spec/release/maker"
)

func main() {
	version := flag.String("version", "0+dev.1", "the release's version")
	binary := flag.String("binary", "", "the adapter; without it the release has its source")
	licences := flag.String("licences", filepath.Join("build", "THIRD_PARTY_LICENSES"),
		"the licences of the modules in the adapter, which spec/licences writes")
	paks := flag.String("paks", "", "further .brokerpak files, separated by spaces")
	arch := flag.String("arch", "amd64", "the architecture of the stemcells, for which the paks must have binaries")
	flag.Parse()
	if err := run(context.Background(), *version,
		maker.Content{
			Repository: ".", Binary: *binary, Version: *version, Licences: *licences, Paks: strings.Fields(*paks),
			Arch: *arch,
		}); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run stages the release in build/release, writes its tarball and prints the path of the tarball. If the package that
// compiles the source is only in a blobstore, the BOSH CLI has to create the tarball, and run prints the path of the
// release directory. It returns an error if the package is missing, and the errors of maker.Stage and maker.Write.
func run(ctx context.Context, version string, content maker.Content) error {
	target := filepath.Join("build", "release")
	dir := filepath.Join(target, "dir")
	if err := maker.Stage(ctx, content, dir); err != nil {
		return err
	}
	if golang := filepath.Join(dir, "packages", "golang-1-linux"); content.Binary == "" && !exists(golang) {
		return errors.New("the package golang-1-linux, which compiles the source, is missing: see docs/deploying.md")
	} else if exists(filepath.Join(golang, "spec.lock")) {
		// The archive of the package is in a blobstore that only the BOSH CLI can read.
		fmt.Println(dir)
		return nil
	}
	label := maker.Label{Name: "service-adapter", Version: version}
	var err error
	if label.Commit, label.Dirty, err = commit(ctx); err != nil {
		return err
	}
	tarball := filepath.Join(target, "service-adapter-"+version+".tgz")
	if err := maker.Write(dir, label, tarball); err != nil {
		return err
	}
	fmt.Println(tarball)
	return nil
}

// exists reports whether a path exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// commit returns the short hash of the repository's commit and whether the repository has uncommitted changes, in the
// words of the BOSH CLI. Without a repository, the hash is "non-git".
func commit(ctx context.Context) (hash string, dirty bool, err error) {
	// Without a length, git chooses one by the number of objects in the repository, which differs between clones.
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, exec.ErrNotFound) {
		return "non-git", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("running git: %w", err)
	}
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain").Output()
	if err != nil {
		return "", false, fmt.Errorf("running git: %w", err)
	}
	return strings.TrimSpace(string(head)), len(changes) > 0, nil
}
