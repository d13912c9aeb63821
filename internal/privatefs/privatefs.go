// Package privatefs creates files and directories that no other user can read or replace. The adapter stores secrets in
// them and executes programs from them.
package privatefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is the number of symbolic links in a path after which it is considered a loop. The kernel has the same
// limit.
const maxLinks = 40

// CreateDir creates a directory with mode 0700, and its parents, if it is missing. It does not change the mode of an
// existing directory. It returns an error if the path is not absolute, if the directory or one of its parents fails the
// check of CheckDir, or if the directory cannot be created.
func CreateDir(path string) error {
	if !filepath.IsAbs(path) {
		return errors.New("the path must be absolute")
	}
	// An existing path is checked before anything is created, so that no directory is created behind a symbolic link of
	// another user.
	if err := CheckDir(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return CheckDir(path)
}

// CheckDir returns an error if a user other than root and the user of this process could write to a directory, or
// replace the directory, one of its parents or a symbolic link in its path. It tolerates parents that are sticky, such
// as /tmp, and parents that the group root or the group of this process may write.
//
// The error wraps fs.ErrNotExist if the directory or a parent does not exist, and syscall.ENOTDIR if one of them is not
// a directory. CheckDir changes nothing. The path must be absolute.
func CheckDir(path string) error {
	current, rest, links := "/", components(filepath.Clean(path)), 0
	for {
		info, err := os.Lstat(current)
		if err != nil {
			return err
		}
		name := current
		if len(rest) == 0 {
			name = "it"
		}
		if err := checkComponent(name, info); err != nil {
			return err
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(current)
			if links++; links > maxLinks {
				err = syscall.ELOOP
			}
			if err != nil {
				return fmt.Errorf("%s: %w", current, err)
			}
			current, rest = filepath.Dir(current), append(components(target), rest...)
			if filepath.IsAbs(target) {
				current = "/"
			}
		case !info.IsDir():
			return fmt.Errorf("%s: %w", current, syscall.ENOTDIR)
		case len(rest) == 0 && info.Mode().Perm()&0o022 != 0:
			return writableByOthersError(name, info)
		}
		if len(rest) == 0 {
			return nil
		}
		current, rest = filepath.Join(current, rest[0]), rest[1:] // current has no links, so Join may resolve ".."
	}
}

// components returns the elements of a path that are not empty. It returns none for "/".
func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// checkComponent checks one element of a path. info is the result of os.Lstat for the element, and name is its name in
// errors. It returns an error if a user other than root and the user of this process owns the element, or if it is a
// directory in which another user could replace the next element. A sticky directory passes, and so does one that the
// group root or the group of this process may write.
func checkComponent(name string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("cannot determine the owner of %s", name)
	}
	if uid := int(stat.Uid); uid != 0 && uid != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (%d); it must be root's or the adapter's own", name, uid)
	}
	if !info.IsDir() || info.Mode()&fs.ModeSticky != 0 {
		return nil // a link has no mode, and in a sticky directory users can only replace their own files
	}
	gid, mode := int(stat.Gid), info.Mode().Perm()
	if mode&0o002 != 0 || mode&0o020 != 0 && gid != 0 && gid != os.Getegid() {
		return writableByOthersError(name, info)
	}
	return nil
}

// writableByOthersError returns the error for a directory that other users may write. name is the name of the directory
// in the error.
func writableByOthersError(name string, info fs.FileInfo) error {
	return fmt.Errorf("others may write %s (mode %04o); it must be a private directory", name, info.Mode().Perm())
}

// WriteFile creates a file with mode 0600 and this content, or atomically replaces an existing one by it. The content
// is first written to the file path+".tmp", so calls for one path must not be concurrent. After an error the old file
// is unchanged, and the file path+".tmp" may remain. The content is not synced to the disk.
func WriteFile(path string, content []byte) error {
	temp := path + ".tmp"
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// Remove removes a file or an empty directory. It returns nil if there is none at the path, and otherwise the error of
// os.Remove, for example for a directory that is not empty.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
