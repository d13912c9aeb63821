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

// CreateDir creates a directory, and its parents, with mode 0700 if they are missing. It changes neither the mode nor
// the content of an existing directory, but checks it. It returns an error if the path is not absolute, if the
// directory cannot be created, or if the directory or one of its parents fails the check of CheckDir, because another
// user could write to or replace it. Directories that it has created remain after an error.
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

// CheckDir returns nil if only root and the user of this process can write to a directory and replace the directory,
// its parents and the symbolic links in its path. Otherwise it returns an error. The directory itself must be writable
// by its owner only. Among the parents, CheckDir tolerates sticky ones, such as /tmp, and those that the group root or
// the group of this process may write.
//
// CheckDir also returns an error if an element of the path cannot be inspected or the path contains more than 40 links.
// The error wraps fs.ErrNotExist if the directory or a parent does not exist, and syscall.ENOTDIR if one of them is not
// a directory. CheckDir changes nothing. The path must be absolute, which CheckDir does not check.
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

// components returns the elements of a path that are not empty: "/a//b/" has the elements "a" and "b". It returns an
// empty list for "/" and "".
func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// checkComponent checks one element of a path. info is the result of os.Lstat for the element, and name is its name in
// errors. It returns an error if a user other than root and the user of this process owns the element, if the owner is
// not known, or if the element is a directory in which another user could replace the next element. A sticky directory
// passes, and so does one that, except by its owner, only the group root or the group of this process may write. The
// mode of a symbolic link or a file is not checked.
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

// writableByOthersError returns a new error, never nil, which states that other users may write a directory. name is
// the name of the directory in the error, and info provides the mode that the error states.
func writableByOthersError(name string, info fs.FileInfo) error {
	return fmt.Errorf("other users can write to %s (mode %04o); it must be a private directory",
		name, info.Mode().Perm())
}

// WriteFile creates a file with mode 0600 and this content, or atomically replaces an existing one by it. The content
// is first written to the file path+".tmp", so calls for one path must not be concurrent; if that file exists, it is
// overwritten and keeps its mode. WriteFile returns an error if that file cannot be written or renamed to path, for
// example because the directory does not exist. After an error the old file is unchanged, and the file path+".tmp" may
// remain. The content is not synced to the disk, so a power loss may lose it.
func WriteFile(path string, content []byte) error {
	temp := path + ".tmp"
	if err := os.WriteFile(temp, content, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// Remove removes the file, the symbolic link or the empty directory at path. It returns nil if the path does not exist,
// and otherwise the error of os.Remove, for example for a directory that is not empty.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
