package pakbuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/ctxio"
	"service-adapter/internal/value"
)

// tree is a directory that is filled from archives of strangers: every file once, none outside of it, and not too much.
type tree struct {
	root      *os.Root
	files     map[string]fs.FileMode // slash-separated path → 0755 or 0644
	remaining int64                  // how many bytes may still be written
	limit     int64
}

// newTree opens a directory for at most so many bytes.
func newTree(dir string, limit int64) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, files: map[string]fs.FileMode{}, remaining: limit, limit: limit}, nil
}

func (t *tree) close() error { return t.root.Close() }

func (t *tree) tooLarge() error {
	return findingf("archive", "it unpacks to more than %s", size(t.limit))
}

// add writes a file of a name, mode and size that were read from an archive.
func (t *tree) add(ctx context.Context, name string, mode fs.FileMode, count int64, content io.Reader) (err error) {
	clean, err := cleanName(name)
	if err != nil {
		return err
	}
	switch _, known := t.files[clean]; {
	case known:
		return findingf("archive", "the archive holds two files %q", clean)
	case len(t.files) >= brokerpak.MaxFiles:
		return findingf("archive", "the archive holds more than %d files", brokerpak.MaxFiles)
	case count > t.remaining:
		return t.tooLarge()
	}
	permissions := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		permissions = 0o755
	}
	if err := t.root.MkdirAll(filepath.FromSlash(path.Dir(clean)), 0o755); err != nil {
		return err
	}
	file, err := t.root.OpenFile(filepath.FromSlash(clean), os.O_CREATE|os.O_EXCL|os.O_WRONLY, permissions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// One byte more, so that readers which verify at their end come to it.
	written, err := io.Copy(file, io.LimitReader(ctxio.Reader(ctx, content), count+1))
	t.files[clean], t.remaining = permissions, t.remaining-written
	if err == nil && written != count {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("%s: %w", clean, err)
	}
	return nil
}

// addFile writes what a file of another tree holds.
func (t *tree) addFile(ctx context.Context, name string, mode fs.FileMode, file fs.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return t.add(ctx, name, mode, info.Size(), file)
}

// names are the paths of the files, sorted.
func (t *tree) names() []string { return value.Keys(t.files) }

// cleanName is a path of an archive with slashes and without dots. It must not lead out of the archive.
func cleanName(name string) (string, error) {
	slashes := strings.ReplaceAll(name, `\`, "/")
	clean := path.Clean(slashes)
	if path.IsAbs(slashes) || slices.Contains(strings.Split(slashes, "/"), "..") || !filepath.IsLocal(filepath.FromSlash(clean)) ||
		clean == "." || strings.ContainsRune(clean, 0) {
		return "", findingf("archive", "the archive holds a file %q, which leads outside of it", name)
	}
	return clean, nil
}
