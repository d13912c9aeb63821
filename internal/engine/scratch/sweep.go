package scratch

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"service-adapter/internal/engine/lease"
)

// Sweep removes files that killed adapters left: states, keys, variables and the credentials of the backend, all in
// clear text. Files that a live process uses stay, and so do states that could not be saved. Sweep does not wait for
// leases. It continues after an error and returns all errors.
func (r *Root) Sweep() error { return errors.Join(r.sweepDirectories(), r.sweepFormerDirectories()) }

// sweepDirectories removes the scratch directories whose lease is free, except states that could not be saved. It holds
// the lease of a directory while it removes the directory. It continues after an error and returns all errors.
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
// left in the cache directory when it read a state. It removes only directories that are older than a day, because a
// live process may use a younger one. A state in them that could not be saved is kept. sweepFormerDirectories continues
// after an error and returns all errors.
func (r *Root) sweepFormerDirectories() error {
	dirs, err := filepath.Glob(filepath.Join(r.options.CacheDir, temporaryPrefix+"*"))
	for _, dir := range dirs {
		if info, statErr := os.Stat(dir); statErr == nil && time.Since(info.ModTime()) > 24*time.Hour {
			err = errors.Join(err, clearDir(dir))
		}
	}
	return err
}

// socketsLink is the name of the link in a scratch directory to the directory with its sockets, if that is elsewhere.
const socketsLink = "sockets"

// clearDir removes a scratch directory and the directory with its sockets, except for states that could not be saved. A
// missing directory is not an error. It continues after an error and returns all errors.
func clearDir(dir string) error {
	var failures []error
	if sockets, err := os.Readlink(filepath.Join(dir, socketsLink)); err == nil {
		failures = append(failures, os.RemoveAll(sockets))
	}
	unsaved, err := filepath.Glob(filepath.Join(dir, "*", erroredState))
	kept := map[string]bool{}
	for _, path := range unsaved {
		kept[dir], kept[filepath.Dir(path)], kept[path] = true, true, true
	}
	return errors.Join(append(failures, err, removeBut(dir, kept))...)
}

// removeBut removes a file, or a directory with all its content; a missing file is not an error. A path in kept stays.
// It must be a file named errored.tfstate or a directory; the files in such a directory that are not in kept are
// removed. removeBut continues after an error and returns all errors.
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
