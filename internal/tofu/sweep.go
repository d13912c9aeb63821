package tofu

import (
	"errors"
	"os"
	"path/filepath"
	"time"
)

// sweep removes what killed adapters left in the cache directory: states, keys, variables and the backend's credentials in clear text. What
// belongs to a live process stays, and so does a state that could not be saved.
func (e *Engine) sweep() {
	if err := errors.Join(e.sweepRuns(), e.sweepBuilds(), e.sweepOldLooks()); err != nil {
		e.logger.Warn("removing what a killed adapter left", "error", err)
	}
}

func (e *Engine) sweepRuns() error {
	runs := filepath.Join(e.options.CacheDir, runsName)
	entries, err := os.ReadDir(runs)
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		dir := filepath.Join(runs, entry.Name())
		l, leaseErr := e.freeLease(dir)
		if l != nil && leaseErr == nil {
			leaseErr = errors.Join(clearScratch(dir), l.release())
		}
		err = errors.Join(err, leaseErr)
	}
	return err
}

// sweepBuilds removes what interrupted builds of prepared directories left, unless another run builds.
func (e *Engine) sweepBuilds() error {
	prepared := filepath.Join(e.options.CacheDir, preparedName)
	if abandoned, err := filepath.Glob(filepath.Join(prepared, newPrefix+"*")); err != nil || len(abandoned) == 0 {
		return err
	}
	lock, err := tryLock(filepath.Join(prepared, buildLock))
	if lock == nil {
		return err
	}
	return errors.Join(removeAbandoned(prepared), lock.Close())
}

// sweepOldLooks removes what killed adapters of an earlier build left of a look, which stood beside the runs. None takes a day.
func (e *Engine) sweepOldLooks() error {
	looks, err := filepath.Glob(filepath.Join(e.options.CacheDir, "look-*"))
	for _, dir := range looks {
		if info, statErr := os.Stat(dir); statErr == nil && time.Since(info.ModTime()) > 24*time.Hour {
			err = errors.Join(err, clearScratch(dir))
		}
	}
	return err
}

// unused is the time after which a prepared directory that no command used is removed: no run takes that long, and no installed pak has it.
// What still needs it, to delete what an older pak made, makes it anew.
const unused = 30 * 24 * time.Hour

// removeAbandoned removes what interrupted builds left, and prepared directories that nobody uses any more, for who has the lock of builds.
func removeAbandoned(prepared string) error {
	entries, err := os.ReadDir(prepared)
	for _, entry := range entries {
		info, infoErr := entry.Info()
		if path := filepath.Join(prepared, entry.Name()); infoErr == nil && entry.IsDir() && time.Since(info.ModTime()) > unused {
			// As a whole: who looks for it finds all of it, or nothing.
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

// socketsLink is the name of a link in a scratch directory to the directory of its sockets, when that lies elsewhere.
const socketsLink = "sockets"

// clearScratch removes a scratch directory, except states in it that could not be saved.
func clearScratch(dir string) error {
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

// removeBut removes a file or a directory; of one that is kept what is in it and not kept.
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
