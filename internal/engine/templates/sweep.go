package templates

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"service-adapter/internal/filelock"
)

// Sweep removes the temporary directories of interrupted builds of prepared directories. Only if there are any, it also
// removes the prepared directories that have not been used for 30 days. It does nothing while another process builds a
// directory. It continues after an error and returns all errors.
func (c *Cache) Sweep() error {
	if abandoned, err := filepath.Glob(filepath.Join(c.dir, newPrefix+"*")); err != nil || len(abandoned) == 0 {
		return err
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
// used for maxUnused. The argument is the directory that contains them. The caller must hold the build lock. It
// continues after an error and returns all errors.
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
	abandoned, globErr := filepath.Glob(filepath.Join(prepared, newPrefix+"*"))
	err = errors.Join(err, globErr)
	for _, path := range abandoned {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}
