package brokerpak

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"service-adapter/internal/ctxio"
)

// FetchedDirs returns the names of the directories, in the root of a built pak, whose files are downloaded or copied
// when the pak is built: "bin" for the binaries and "src" for their source code. The caller may change the result.
func FetchedDirs() []string { return []string{"bin", "src"} }

// Digests returns the SHA-256 digests, in hexadecimal, of all files in the named directories of files and in their
// subdirectories. The keys of the map are the slash-separated paths of the files, relative to the root of files, such
// as "bin/linux/amd64/tofu". The names in dirs are relative to the same root; one that does not exist is ignored. The
// map is empty and not nil if no file exists. Digests returns nil and an error if a directory or file cannot be read,
// or if ctx ends before all files have been read.
func Digests(ctx context.Context, files fs.FS, dirs ...string) (map[string]string, error) {
	digests := map[string]string{}
	for _, dir := range dirs {
		err := fs.WalkDir(files, dir, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case name == dir && errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil || entry.IsDir():
				return err
			}
			digests[name], err = digest(ctx, files, name)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("computing digests: %w", err)
		}
	}
	return digests, nil
}

// digest returns the SHA-256 digest, in hexadecimal, of the file of this name in files. name is the slash-separated
// path relative to the root of files. digest returns "" and an error if the file cannot be opened or read, or if ctx
// ends before the file has been read.
func digest(ctx context.Context, files fs.FS, name string) (string, error) {
	file, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // opened for reading, so closing it cannot lose data
	sum := sha256.New()
	if _, err := io.Copy(sum, ctxio.Reader(ctx, file)); err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
