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

// Lock writes the lock of the pak in Options.Dir, and returns its path, the file brokerpak.lock.yml in that directory.
// Like Build, it fetches the binaries for all platforms of the manifest, and with Options.IncludeSource their source
// code. The lock lists the digest of each fetched file, and the digests of the files below bin and src that a built pak
// contains, which are unpacked or copied from the fetched files. The same files from the same locations result in the
// same lock.
//
// A fetched file that differs from an existing lock is accepted, and the new lock replaces that one. Lock writes to
// Options.Progress a line for each fetched file, and for each file below bin and src whose digest differs in the two
// locks or is in only one of them, if the existing lock is valid. Options.Output, Options.Unpacked and Options.Platform
// must not be set. Lock does not check that: it ignores Output, and with Unpacked or Platform the lock is incomplete.
//
// The error is, or wraps, a diag.Errors if the pak is invalid or a binary is not acceptable. Other errors are that
// Options.Dir or a local binary cannot be read, that Options.Dir is a pak file, that Options.Binaries contains an
// unknown name, that an existing lock cannot be read, that a download fails, that temporary files or the lock cannot be
// written, and that ctx ends. An existing lock that is invalid or differs is not an error. The path is "" if there is
// an error, and an existing lock is unchanged then, unless only the last sync of its directory or the removal of
// temporary files failed.
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

// newLock fetches the binaries, and with Options.IncludeSource their source code, into the stage directory, which it
// creates, and returns the text of their lock, in YAML. It writes a progress line for each fetched file, and for each
// difference from previous, the existing lock; a nil previous means that the pak has none. b.lock must be nil, so that
// no fetched file is compared with an existing lock. newLock returns a diag.Errors if the author must correct the pak.
// Other errors are that a directory cannot be created, that a download fails, that a file cannot be read or written,
// that the lock cannot be encoded, and that ctx ends.
func (b *builder) newLock(ctx context.Context, previous *brokerpak.Lock) ([]byte, error) {
	if err := os.MkdirAll(b.stage, 0o700); err != nil {
		return nil, fmt.Errorf("creating a directory for the binaries: %w", err)
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
