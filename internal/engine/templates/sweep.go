package templates

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"service-adapter/internal/filelock"
)

// Sweep removes the temporary directories of interrupted builds of prepared directories. Only if such directories
// exist, it also removes the prepared directories that have not been used for 30 days. It does nothing while the build
// lock is held, for example by another process that builds a directory, and does not wait for it. It continues after an
// error in removing a directory and returns all errors, joined. It also returns an error if the build lock cannot be
// opened or locked.
func (c *Cache) Sweep() error {
	if len(abandonedDirs(c.dir)) == 0 {
		return nil
	}
	lock, err := filelock.Try(filepath.Join(c.dir, buildLock))
	if lock == nil {
		return err
	}
	return errors.Join(removeAbandoned(c.dir), lock.Close())
}

// maxUnused is the time after which a prepared directory that no command has used is removed. No run takes that long,
// and commands use the directories of all installed paks more often. If a removed directory is needed again, for
// example to destroy the resources of an old pak, it is built again.
const maxUnused = 30 * 24 * time.Hour

// removeAbandoned removes the temporary directories of interrupted builds, and prepared directories that have not been
// used for maxUnused. The parameter is the path of the directory that contains them. The caller must hold the build
// lock. removeAbandoned continues after an error and returns all errors, joined: the directory cannot be read, or one
// in it cannot be renamed or removed.
func removeAbandoned(prepared string) error {
	entries, err := os.ReadDir(prepared)
	for _, entry := range entries {
		info, infoErr := entry.Info()
		path := filepath.Join(prepared, entry.Name())
		if infoErr == nil && entry.IsDir() && time.Since(info.ModTime()) > maxUnused {
			// Renaming is atomic: other processes find either the complete directory or none.
			err = errors.Join(err, os.Rename(path, filepath.Join(prepared, newPrefix+entry.Name())))
		}
	}
	for _, name := range abandonedDirs(prepared) {
		err = errors.Join(err, os.RemoveAll(filepath.Join(prepared, name)))
	}
	return err
}

// abandonedDirs returns the names of the temporary directories in the directory prepared, whose path may contain any
// characters. The result is nil if there are none, or if the directory cannot be read.
func abandonedDirs(prepared string) []string {
	names, _ := fs.Glob(os.DirFS(prepared), newPrefix+"*") // the only error is that of an invalid pattern
	return names
}
