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

// openArchive opens a zip file, parses its central directory and checks its entries. name is the path of the file,
// absolute or relative to the working directory. The returned io.Closer is the open file: the caller must close it
// after the last use of the zip.Reader. openArchive returns an error, and nil for both results, if the file cannot be
// opened or read, is not a zip, has a central directory of more than 4 MB, or has entries that checkEntries rejects,
// such as too many of them or two files with the same path. The error names the file.
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

// readIndex parses the central directory of a zip, whose data from provides and whose length in bytes is size, and
// checks its entries with checkEntries. It returns an error if the data cannot be read or is not a zip, if parsing
// would read more than 4 MB (maxIndex), or if checkEntries rejects the entries; in the last case the reader is not nil,
// but must not be used either. The returned reader does not limit how much of the entries' contents is read from the
// parameter from.
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

// An indexReader is an io.ReaderAt for the data of a zip that limits how many bytes are read before the central
// directory of the zip has been parsed, because the format does not have to state the size of the directory. After its
// owner has marked the directory as parsed, reading is unlimited. The zero indexReader has no data and cannot be used.
type indexReader struct {
	zip       io.ReaderAt
	remaining int  // bytes that may still be read before the directory is parsed
	parsed    bool // set after the directory has been parsed
}

// ReadAt implements io.ReaderAt for the zip. Before the central directory is marked as parsed, each call deducts the
// length of its buffer from the limit, even if fewer bytes are read. If the limit is exceeded, ReadAt reads nothing and
// returns 0 and errIndexTooLarge. Otherwise it returns the results of the underlying reader.
func (r *indexReader) ReadAt(buffer []byte, offset int64) (int, error) {
	if !r.parsed {
		if r.remaining -= len(buffer); r.remaining < 0 {
			return 0, errIndexTooLarge
		}
	}
	return r.zip.ReadAt(buffer, offset)
}

// entryName returns the path of a zip entry relative to the root of the pak, with forward slashes and in its shortest
// form: "bin/linux/amd64/tofu" for an entry named "./bin/linux/amd64/tofu" or "bin\linux\amd64\tofu". The path of a
// directory has no slash at its end. entryName does not check whether the path leads outside of the pak.
func entryName(file *zip.File) string {
	return path.Clean(strings.ReplaceAll(file.Name, `\`, "/"))
}

// checkEntries returns an error for the first violation of the rules for the entries of a zip, and nil if there is
// none. A zip may have at most MaxFiles (10,000) entries, and the files below bin/OS/ARCH may have at most 4 GB
// (maxBinaries) when unpacked, for each platform. No path may be absolute or contain the component "..", because some
// programs shorten such a path and others follow it; a backslash counts as a slash. A file must not have the path of an
// earlier file, because some programs read the first and others the last; directories may be repeated. Only the central
// directory is examined, not the contents.
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

// platformOf returns the platform to which a file of the pak belongs, as "OS/ARCH": "linux/amd64" for the path
// "bin/linux/amd64/tofu". name is a path as entryName returns it. For a path that is not below a directory
// bin/OS/ARCH, which includes that directory itself, platformOf returns "" and false.
func platformOf(name string) (platform string, ok bool) {
	parts := strings.SplitN(name, "/", 4)
	if len(parts) < 4 || parts[0] != "bin" {
		return "", false
	}
	return parts[1] + "/" + parts[2], true
}
