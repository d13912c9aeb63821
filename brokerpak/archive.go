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

// The limits for a zip. A zip may be crafted to exhaust memory or disk: every command reads its central directory, and
// its binaries are unpacked.
const (
	// MaxFiles is the maximum number of entries of a zip. The largest paks have some hundred.
	MaxFiles = 10_000
	// maxIndex is the maximum size of the central directory in bytes.
	maxIndex = 4 << 20
	// maxBinaries is the maximum unpacked size in bytes of all binaries of one platform. The largest providers have
	// some hundred megabytes.
	maxBinaries = 4 << 30
)

// openArchive opens a zip file, parses its central directory and checks its entries. The caller must close the returned
// io.Closer, which is the file. openArchive returns an error that names the file, and no open file, if the file cannot
// be opened or read or if readIndex rejects it.
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
		_ = file.Close() // opened for reading, so closing it cannot lose data
		return nil, nil, fmt.Errorf("opening pak %s: %w", name, err)
	}
	return archive, file, nil
}

// readIndex parses the central directory of a zip of the given size and checks its entries with checkEntries. It
// returns an error if the data is not a zip, if parsing would read more than maxIndex bytes, or if checkEntries rejects
// the entries. The result must not be used if there is an error.
func readIndex(from io.ReaderAt, size int64) (*zip.Reader, error) {
	bounded := &indexReader{zip: from, remaining: maxIndex}
	archive, err := zip.NewReader(bounded, size)
	switch {
	case errors.Is(err, errIndexTooLarge):
		return nil, fmt.Errorf("the central directory of the zip is larger than %d MB; "+
			"a pak may contain at most %d files", maxIndex>>20, MaxFiles)
	case err != nil:
		return nil, fmt.Errorf("it is neither a directory nor a brokerpak zip: %w", err)
	}
	bounded.parsed = true
	return archive, checkEntries(archive.File)
}

// errIndexTooLarge is the error of indexReader.ReadAt after the limit is exceeded.
var errIndexTooLarge = errors.New("the index is too large")

// An indexReader limits how much of a zip is read before its central directory has been parsed, because the format
// does not have to state the directory's size. Afterwards, reading is unlimited.
type indexReader struct {
	zip       io.ReaderAt
	remaining int  // bytes that may still be read before the directory is parsed
	parsed    bool // set after the directory has been parsed
}

// ReadAt implements io.ReaderAt for the zip. Until parsed is set, it returns errIndexTooLarge, and reads nothing, if
// the sizes of all buffers together exceed the limit. Other errors are those of the zip's reader.
func (r *indexReader) ReadAt(buffer []byte, offset int64) (int, error) {
	if !r.parsed {
		if r.remaining -= len(buffer); r.remaining < 0 {
			return 0, errIndexTooLarge
		}
	}
	return r.zip.ReadAt(buffer, offset)
}

// entryName returns the path of an entry in the pak: with forward slashes, and without the leading "./" that some
// programs write. The path of a directory has no slash at its end. Backslashes count as slashes.
func entryName(file *zip.File) string {
	return path.Clean(strings.ReplaceAll(file.Name, `\`, "/"))
}

// checkEntries returns an error if a zip has more than MaxFiles entries, if the binaries of one platform unpack to more
// than maxBinaries, or if programs would interpret the entries differently. The latter are entries whose path leads
// outside of the pak, because some programs shorten such a path and others follow it, and two files with the same path
// (directories may repeat one), because some programs read the first and others the last.
func checkEntries(files []*zip.File) error {
	if len(files) > MaxFiles {
		return fmt.Errorf("the zip contains %d files; a pak may contain at most %d", len(files), MaxFiles)
	}
	seen := make(map[string]bool, len(files))
	sizes := map[string]uint64{}
	for _, file := range files {
		slashes := strings.ReplaceAll(file.Name, `\`, "/")
		if path.IsAbs(slashes) || slices.Contains(strings.Split(slashes, "/"), "..") {
			return fmt.Errorf("the zip contains a file %q, whose path leads outside of the pak", file.Name)
		}
		name := entryName(file)
		if seen[name] && !file.Mode().IsDir() {
			return fmt.Errorf("the zip contains two files named %q", name)
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

// platformOf returns OS/ARCH for a path below bin/OS/ARCH, and false for any other path.
func platformOf(name string) (platform string, ok bool) {
	parts := strings.SplitN(name, "/", 4)
	if len(parts) < 4 || parts[0] != "bin" {
		return "", false
	}
	return parts[1] + "/" + parts[2], true
}
