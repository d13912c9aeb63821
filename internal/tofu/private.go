package tofu

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks bounds the symbolic links on the way to a directory, as the kernel does.
const maxLinks = 40

// checkDirs makes the cache directory, and refuses it and the prepared one where another user could put something into them.
func checkDirs(options *Options) error {
	if err := privateDir(options.CacheDir); err != nil {
		return fmt.Errorf("checking directory %q: %w", options.CacheDir, err)
	}
	if options.PreparedDir == "" {
		return nil
	}
	var err error
	if options.PreparedDir, err = filepath.Abs(options.PreparedDir); err != nil {
		return fmt.Errorf("checking prepared_dir: %w", err)
	}
	for _, dir := range []string{options.PreparedDir, filepath.Join(options.PreparedDir, preparedName)} {
		// A missing one has nothing to execute.
		if err := checkPrivate(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("checking prepared_dir %q: %w", dir, err)
		}
	}
	return nil
}

// privateDir creates a directory and makes sure that nobody but root and the user of this process can put files into it, or another
// directory in its place: what lies there is executed.
func privateDir(path string) error {
	if !filepath.IsAbs(path) {
		return errors.New("the path must be absolute")
	}
	// What exists is judged first: nothing is made behind a link of another user.
	if err := checkPrivate(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return checkPrivate(path)
}

// checkPrivate judges a directory and everything on the way to it. The error is fs.ErrNotExist where it does not exist.
func checkPrivate(path string) error {
	at, rest, links := "/", components(filepath.Clean(path)), 0
	for {
		info, err := os.Lstat(at)
		if err != nil {
			return err
		}
		name := at
		if len(rest) == 0 {
			name = "it"
		}
		if err := checkOnTheWay(name, info); err != nil {
			return err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(at)
			if links++; links > maxLinks {
				err = syscall.ELOOP
			}
			if err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			at, rest = filepath.Dir(at), append(components(target), rest...)
			if filepath.IsAbs(target) {
				at = "/"
			}
		case !info.IsDir():
			return fmt.Errorf("%s: %w", at, syscall.ENOTDIR)
		case len(rest) == 0 && info.Mode().Perm()&0o022 != 0:
			return openToOthers(name, info)
		}
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:] // at holds no link, so that Join may resolve ".."
	}
}

// components are the names in a path.
func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// checkOnTheWay refuses what another user owns, and a directory in which another one could replace the next on the way.
func checkOnTheWay(name string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("nobody knows who owns %s", name)
	}
	if uid := int(stat.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (%d); it must be root's or the adapter's own", name, uid)
	}
	if !info.IsDir() || info.Mode()&fs.ModeSticky != 0 {
		return nil // a link has no mode, and in a sticky directory everybody replaces only what is theirs
	}
	gid, mode := int(stat.Gid), info.Mode().Perm()
	if mode&0o002 != 0 || mode&0o020 != 0 && gid != 0 && gid != os.Getegid() {
		return openToOthers(name, info)
	}
	return nil
}

func openToOthers(name string, info fs.FileInfo) error {
	return fmt.Errorf("others may write %s (mode %04o); it must be a private directory", name, info.Mode().Perm())
}
