package build

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/durable"
)

// maxPak is the maximum size of an unpacked pak in bytes.
const maxPak = 32 << 30

// unpackPrefix is the prefix of the names of temporary directories of Unpack. It must not be a prefix of any other
// name, because durable.TempDir removes existing directories with this prefix next to the target.
const unpackPrefix = ".service-adapter-unpack-"

// Unpack writes the files of the .brokerpak file at the path name into the directory dir, which must be empty or not
// exist; its parent directories are created. The directory appears with all files or not at all, even if ctx ends,
// the process is killed or the machine loses power. If platform is not nil, the binaries of all other platforms are
// left out. The modes let all users read the files, and execute those below bin, whatever the umask denies to other
// users, so that one user can install a pak for another; but the umask applies to created parent directories. Unpack
// also removes temporary directories that killed calls left in the parent directory.
//
// The files below bin and src are compared with the lock in the pak or, if platform is not nil, only the binaries of
// the platform. Without a lock, no files are compared.
//
// Unpack returns an error if name is a directory or not a valid pak file, if dir is not empty or cannot be written,
// if the pak contains an entry that is neither a regular file nor a directory, if its files are larger than maxPak
// (32 GB) in all, if it has no binaries for the platform, if a compared file differs from the lock, if the lock is
// invalid, or if ctx ends.
//
// After an error, no file was written into dir, but an empty dir may be removed, and the parent directories may be
// created. There is one exception: dir is complete if only the last sync of its parent directory or the removal of
// temporary files failed.
func Unpack(ctx context.Context, name, dir string, platform *brokerpak.Platform) (err error) {
	pak, err := brokerpak.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = pak.Close() }() // opened for reading only, so that closing loses no data
	if !pak.IsZip() {
		return fmt.Errorf("%s is a directory already", name)
	}
	target, err := prepareTarget(dir)
	if err != nil {
		return err
	}
	temporary, remove, err := durable.TempDir(filepath.Dir(target), unpackPrefix)
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, remove()) }()
	unpacked := filepath.Join(temporary, "pak")
	if err = os.Mkdir(unpacked, 0o755); err == nil { //nolint:gosec // all users may read it
		err = unpackPak(ctx, pak, unpacked, platform)
	}
	if err == nil {
		err = cmp.Or(pak.Verify(ctx, os.DirFS(unpacked), platform), openToAll(unpacked))
	}
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replacing the empty directory: %w", err)
	}
	return durable.Rename(unpacked, target)
}

// openToAll sets the modes of a directory and everything below it, so that all users can read the files, whatever the
// umask was when they were created: 0755 for directories and for files that their owner may execute, and 0644 for other
// files. It returns an error if a directory cannot be read or a mode cannot be set; other modes may have been set
// before.
func openToAll(dir string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		mode := fs.FileMode(readable)
		if info.IsDir() || info.Mode()&0o100 != 0 {
			mode = executable
		}
		return os.Chmod(name, mode)
	})
}

// prepareTarget checks that the directory dir is empty or does not exist, and returns its absolute path. If dir exists,
// the symbolic links in the path are resolved. Otherwise they are not, and prepareTarget creates the parent
// directories, but not dir. It returns an error if dir is not empty or not a directory, if it cannot be read, if the
// working directory cannot be determined, or if a parent cannot be created; the path must not be used then.
func prepareTarget(dir string) (string, error) {
	if err := checkVacant(dir); err != nil {
		return "", err
	}
	target, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(target); err == nil {
		return resolved, nil
	}
	return target, os.MkdirAll(filepath.Dir(target), 0o755) //nolint:gosec // the usual mode of directories
}

// checkVacant returns nil if the directory at the path dir is empty or does not exist. It returns an error if it is not
// empty, is not a directory, or cannot be read. It changes no file.
func checkVacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty; name a directory that is empty or does not exist", dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unpackPak writes the files of a pak into the existing directory dir, with the same names. If platform is not nil, it
// leaves out all files below bin that are not in bin/OS/ARCH of that platform, and returns an error if the pak has no
// such directory. All files below bin become executable.
//
// It also returns an error if one of the entries to write is neither a regular file nor a directory, if the files are
// larger than maxPak in all, if a file cannot be read or written, for example because dir contains it already, or if
// ctx ends. The files that were written before the error remain.
func unpackPak(ctx context.Context, pak *brokerpak.Pak, dir string, platform *brokerpak.Platform) (err error) {
	into, err := newTree(dir, maxPak)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.close()) }()
	platformDir := ""
	if platform != nil {
		platformDir = path.Join("bin", platform.OS, platform.Arch) + "/"
		if _, err := fs.Stat(pak.Files(), path.Clean(platformDir)); err != nil {
			return fmt.Errorf("it contains no binaries for %s", platform)
		}
	}
	return fs.WalkDir(pak.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		binary := strings.HasPrefix(name, "bin/")
		switch {
		case err != nil:
			return err
		case entry.IsDir(), platformDir != "" && binary && !strings.HasPrefix(name, platformDir):
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%q is %s; only plain files are allowed", name, modeName(entry.Type()))
		}
		mode := fs.FileMode(readable)
		if binary {
			mode = executable
		}
		file, err := pak.Files().Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // opened for reading only, so that closing loses no data
		return into.addFile(ctx, name, mode, file)
	})
}
