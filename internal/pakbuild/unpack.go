package pakbuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"service-adapter/brokerpak"
)

// maxPak bounds what a whole pak unpacks to in bytes.
const maxPak = 32 << 30

// Unpack writes the files of a .brokerpak file into a directory, which must not exist or be empty, as a whole or not at all.
// A platform leaves out the binaries of all others. Everybody may read the result, so that whoever installs a pak need not be
// who runs it.
func Unpack(ctx context.Context, name, dir string, platform *brokerpak.Platform) (err error) {
	pak, err := brokerpak.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = pak.Close() }() // opened for reading: closing cannot lose anything
	if !pak.IsZip() {
		return fmt.Errorf("%s is a directory already", name)
	}
	target, err := vacant(dir)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(filepath.Dir(target), ".unpack-")
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	unpacked := filepath.Join(temporary, "pak")
	if err = os.Mkdir(unpacked, 0o755); err == nil { //nolint:gosec // everybody may read it
		err = unpackPak(ctx, pak, unpacked, platform)
	}
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replacing the empty directory: %w", err)
	}
	return os.Rename(unpacked, target)
}

// vacant returns the place for a new directory, with symbolic links resolved, and makes the directories above it.
func vacant(dir string) (string, error) {
	if err := checkVacant(dir); err != nil {
		return "", err
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		return resolved, nil
	}
	target, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return target, os.MkdirAll(filepath.Dir(target), 0o755) //nolint:gosec // as the shell would
}

// checkVacant refuses a directory that holds anything.
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

func unpackPak(ctx context.Context, pak *brokerpak.Pak, dir string, platform *brokerpak.Platform) (err error) {
	into, err := newTree(dir, maxPak)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.close()) }()
	wanted := ""
	if platform != nil {
		wanted = path.Join("bin", platform.OS, platform.Arch) + "/"
		if _, err := fs.Stat(pak.Files(), path.Clean(wanted)); err != nil {
			return fmt.Errorf("there are no binaries for %s in it", platform)
		}
	}
	return fs.WalkDir(pak.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		binary := strings.HasPrefix(name, "bin/")
		switch {
		case err != nil:
			return err
		case entry.IsDir(), wanted != "" && binary && !strings.HasPrefix(name, wanted):
			return nil
		case !entry.Type().IsRegular():
			return fmt.Errorf("%q is %s; only plain files are allowed", name, modeName(entry.Type()))
		}
		mode := fs.FileMode(readable)
		if binary {
			mode = 0o755
		}
		file, err := pak.Files().Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }() // opened for reading: closing cannot lose anything
		return into.addFile(ctx, name, mode, file)
	})
}
