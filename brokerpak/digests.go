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

// FetchedDirs are the directories of a built pak whose files are fetched when the pak is built: binaries, and their
// source code.
func FetchedDirs() []string { return []string{"bin", "src"} }

// Digests returns the hexadecimal SHA-256 digests of all files below directories, by their slash-separated paths. A
// directory that does not exist is empty. Digests returns an error if a file cannot be read, or if ctx ends.
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

// digest returns the hexadecimal SHA-256 digest of a file. It returns an error if the file cannot be read, or if ctx
// ends.
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
