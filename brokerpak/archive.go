package brokerpak

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// The bounds of a zip, which may be hostile: every command reads its index, and its binaries are unpacked.
const (
	// MaxFiles bounds how many files an archive may hold; the largest paks have some hundred.
	MaxFiles = 10_000
	// maxIndex bounds the index in bytes.
	maxIndex = 4 << 20
	// maxBinaries bounds what the binaries of one platform unpack to in bytes; the largest providers have some hundred megabytes.
	maxBinaries = 4 << 30
)

// openArchive opens a zip and reads its index.
func openArchive(name string) (*zip.Reader, io.Closer, error) {
	file, err := os.Open(name) //nolint:gosec // the operator names the pak
	if err != nil {
		return nil, nil, fmt.Errorf("opening pak: %w", err)
	}
	var archive *zip.Reader
	info, err := file.Stat()
	if err == nil {
		archive, err = readIndex(file, info.Size())
	}
	if err != nil {
		_ = file.Close() // opened for reading: closing cannot lose anything
		return nil, nil, fmt.Errorf("opening pak %s: %w", name, err)
	}
	return archive, file, nil
}

// readIndex reads the index of a zip and judges it.
func readIndex(from io.ReaderAt, size int64) (*zip.Reader, error) {
	bounded := &indexReader{from: from, allowed: maxIndex}
	archive, err := zip.NewReader(bounded, size)
	switch {
	case errors.Is(err, errIndex):
		return nil, fmt.Errorf("the index of the zip is larger than %d MB; a pak may hold %d files", maxIndex>>20, MaxFiles)
	case err != nil:
		return nil, fmt.Errorf("it is neither a directory nor a brokerpak zip: %w", err)
	}
	bounded.known = true
	return archive, checkEntries(archive.File)
}

var errIndex = errors.New("the index is too large")

// indexReader reads a zip, of which only so much until the index is known. How long the index is, no field of a zip has to say.
type indexReader struct {
	from    io.ReaderAt
	allowed int // bytes that may still be read
	known   bool
}

// ReadAt reads a part of the zip.
func (r *indexReader) ReadAt(buffer []byte, offset int64) (int, error) {
	if !r.known {
		if r.allowed -= len(buffer); r.allowed < 0 {
			return 0, errIndex
		}
	}
	return r.from.ReadAt(buffer, offset)
}

// entryName is an entry's path in the pak. Some programs write "./" before it.
func entryName(file *zip.File) string {
	return path.Clean(strings.ReplaceAll(file.Name, `\`, "/"))
}

// checkEntries refuses an index that is too long, or that programs would read differently: a name that leads outside of the pak, which
// some cut and others follow, and a name that stands for two files, of which some take the first and others the last.
func checkEntries(files []*zip.File) error {
	if len(files) > MaxFiles {
		return fmt.Errorf("the zip holds %d files; a pak may hold %d", len(files), MaxFiles)
	}
	seen := make(map[string]bool, len(files))
	sizes := map[string]uint64{}
	for _, file := range files {
		slashes := strings.ReplaceAll(file.Name, `\`, "/")
		if path.IsAbs(slashes) || slices.Contains(strings.Split(slashes, "/"), "..") {
			return fmt.Errorf("the zip holds a file %q, which leads outside of the pak", file.Name)
		}
		name := entryName(file)
		if seen[name] && !file.Mode().IsDir() {
			return fmt.Errorf("the zip holds two files %q", name)
		}
		seen[name] = seen[name] || !file.Mode().IsDir()
		platform, ok := platformOf(name)
		if !ok {
			continue
		}
		if file.UncompressedSize64 > maxBinaries-sizes[platform] {
			return fmt.Errorf("the binaries for %s unpack to more than %d GB", platform, maxBinaries>>30)
		}
		sizes[platform] += file.UncompressedSize64
	}
	return nil
}

// platformOf returns OS/ARCH of a path below bin/OS/ARCH.
func platformOf(name string) (platform string, ok bool) {
	parts := strings.SplitN(name, "/", 4)
	if len(parts) < 4 || parts[0] != "bin" {
		return "", false
	}
	return parts[1] + "/" + parts[2], true
}
