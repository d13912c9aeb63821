package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/outfile"
)

// Lock writes the lock of the pak in Options.Dir and returns its path. It fetches the binaries for all platforms of the
// manifest, and with Options.IncludeSource their source code, as Build does, and replaces an existing lock. The same
// files result in the same lock. Lock reports to Options.Progress each file of the built pak that differs from the
// existing lock. Options.Output, Options.Unpacked and Options.Platform must not be set.
//
// The errors are those of Build, except that an existing lock that is invalid or differs is not an error, and that the
// lock cannot be written.
func Lock(ctx context.Context, options Options) (string, error) {
	b, err := newBuilder(options)
	if err != nil {
		return "", err
	}
	defer func() { _ = b.pak.Close() }() // opened for reading only, so that closing loses no data
	previous, err := b.pak.Lock()
	if err != nil && !errors.As(err, new(diag.Errors)) {
		return "", err
	}
	name := filepath.Join(options.Dir, brokerpak.LockName)
	err = b.inTemporary("", func() error {
		text, err := b.newLock(ctx, previous)
		if err != nil {
			return err
		}
		return outfile.Write(ctx, name, readable, func(to io.Writer) error {
			_, err := to.Write(text)
			return err
		})
	})
	if err != nil {
		return "", err
	}
	return name, nil
}

// newLock fetches all files and returns the text of their lock. It reports the differences from the previous lock,
// which may be nil. See fetchAll for the errors; others are that a file cannot be read or that the lock cannot be
// encoded.
func (b *builder) newLock(ctx context.Context, previous *brokerpak.Lock) ([]byte, error) {
	if err := os.MkdirAll(b.stage, 0o700); err != nil {
		return nil, fmt.Errorf("making a directory for the binaries: %w", err)
	}
	if err := b.fetchAll(ctx); err != nil {
		return nil, err
	}
	digests, err := brokerpak.Digests(ctx, os.DirFS(b.stage), brokerpak.FetchedDirs()...)
	if err != nil {
		return nil, err
	}
	if previous != nil {
		for _, difference := range previous.Differences(digests, brokerpak.FetchedDirs()...) {
			b.progressf("changed: %s", difference)
		}
	}
	return brokerpak.NewLock(b.fetched, digests).Encode()
}
