package pakbuild

import (
	"archive/zip"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"service-adapter/internal/ctxio"
)

// writeZip packs a directory into a file that is there as a whole or not at all. The same content gives the same bytes:
// names are sorted, times fixed, and modes 0755 or 0644. Check sees the complete file before it gets its name.
func writeZip(ctx context.Context, dir, name string, check func(file string) error) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(name), ".pak-")
	if err != nil {
		return fmt.Errorf("writing the pak: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	err = errors.Join(packAll(ctx, dir, temporary), temporary.Chmod(readable), temporary.Sync())
	if err = errors.Join(err, temporary.Close()); err != nil {
		return fmt.Errorf("writing the pak: %w", err)
	}
	if err := check(temporary.Name()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), name)
}

// readable is the mode of what everybody may read.
const readable = 0o644

func packAll(ctx context.Context, dir string, target io.Writer) error {
	writer := zip.NewWriter(target)
	// Most of a pak is OpenTofu, for which the default takes three times as long and saves a seventh of the size.
	writer.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) { return flate.NewWriter(to, flate.BestSpeed) })
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error { // in the order of the names
		if err != nil || entry.IsDir() {
			return err
		}
		return packOne(ctx, writer, files, name)
	})
	return errors.Join(err, writer.Close())
}

func packOne(ctx context.Context, writer *zip.Writer, files fs.FS, name string) error {
	source, err := files.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // opened for reading: closing cannot lose anything
	info, err := source.Stat()
	if err != nil {
		return err
	}
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(readable)
	if info.Mode()&0o100 != 0 {
		header.SetMode(0o755)
	}
	target, err := writer.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, ctxio.Reader(ctx, source))
	return err
}
