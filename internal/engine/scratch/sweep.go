package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"service-adapter/internal/engine/lease"
)

// Sweep removes the scratch directories that killed adapters left, with the states, keys, variables and the credentials
// of the backend in them, all in clear text. These include directories of earlier versions that have not been modified
// for a day, which are directly in CacheDir. A directory whose lease an adapter, OpenTofu or a provider holds stays,
// and so do states that could not be saved. Sweep does not wait for a lease that another run holds. It continues after
// an error and returns all errors, joined, or nil.
func (r *Root) Sweep() error { return errors.Join(r.sweepDirectories(), r.sweepFormerDirectories()) }

// sweepDirectories removes the scratch directories whose lease is free, or is held only by processes that a template
// started; see lease.Try. States in them that could not be saved are kept, together with the directories that contain
// them. sweepDirectories does not wait for a lease that another run holds, and skips that directory. It holds the lease
// of a directory while it removes the directory. It continues after an error and returns all errors, joined, also those
// of reading the directory of the Root and of taking or releasing a lease.
func (r *Root) sweepDirectories() error {
	entries, err := os.ReadDir(r.dir)
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		dir := filepath.Join(r.dir, entry.Name())
		l, leaseErr := lease.Try(dir, lease.Options{Logger: r.options.Logger})
		if l != nil {
			leaseErr = errors.Join(clearDir(dir), l.Release())
		}
		err = errors.Join(err, leaseErr)
	}
	return err
}

// sweepFormerDirectories removes the scratch directories, named look-*, that a killed adapter of an earlier version
// left directly in the cache directory when it read a state. It removes only directories that have not been modified
// for a day, because a live process may use a younger one. A state in them that could not be saved is kept. A directory
// that cannot be inspected is skipped. sweepFormerDirectories continues after an error and returns all errors, joined;
// a missing cache directory is not an error.
func (r *Root) sweepFormerDirectories() error {
	var err error
	for _, dir := range glob(r.options.CacheDir, temporaryPrefix+"*") {
		if info, statErr := os.Stat(dir); statErr == nil && time.Since(info.ModTime()) > 24*time.Hour {
			err = errors.Join(err, clearDir(dir))
		}
	}
	return err
}

// socketsLink is the name of the link in a scratch directory to the directory with its sockets, if that is elsewhere.
const socketsLink = "sockets"

// clearDir removes the scratch directory dir and the directory with its sockets, to which a link in it leads. States
// that could not be saved, the files WORKING_DIRECTORY/errored.tfstate, and the directories that contain them are kept.
// A missing directory is not an error. clearDir continues after an error and returns all errors, joined.
func clearDir(dir string) error {
	var failures []error
	if sockets, err := os.Readlink(filepath.Join(dir, socketsLink)); err == nil {
		failures = append(failures, os.RemoveAll(sockets))
	}
	kept := map[string]bool{}
	for _, path := range glob(dir, "*/"+erroredState) {
		kept[dir], kept[filepath.Dir(path)], kept[path] = true, true, true
	}
	return errors.Join(append(failures, removeBut(dir, kept))...)
}

// removeBut removes the file at path, or a directory with all its content, except the paths that kept contains as keys;
// a missing file is not an error. A path in kept must be a file named errored.tfstate, which stays, or a directory,
// whose content is removed except for paths in kept. The paths in kept must have the form of path, joined with relative
// names; the parents of each must be in kept as well. removeBut continues after an error and returns all errors,
// joined. A directory in kept that does not exist is an error.
func removeBut(path string, kept map[string]bool) error {
	switch {
	case !kept[path]:
		return os.RemoveAll(path)
	case filepath.Base(path) == erroredState:
		return nil
	}
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		err = errors.Join(err, removeBut(filepath.Join(path, entry.Name()), kept))
	}
	return err
}
