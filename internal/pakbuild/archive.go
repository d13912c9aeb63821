package pakbuild

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/ctxio"
	"service-adapter/internal/value"
)

// kinds are the kinds of archives by what their files begin with. Those of the last two are not read.
var kinds = []struct{ kind, magic string }{ //nolint:gochecknoglobals // a constant table
	{zipArchive, "PK\x03\x04"}, {zipArchive, "PK\x05\x06"}, {"gzip", "\x1f\x8b"}, {"bzip2", "BZh"}, {"xz", "\xfd7zXZ\x00"}, {"zstd", "\x28\xb5\x2f\xfd"},
}

const zipArchive = "zip"

// tarMagic stands at this place of the first header of a tar archive.
const (
	tarMagic   = "ustar"
	tarMagicAt = 257
)

// kindOf looks at the beginning of a file. It returns "tar", a kind of the table, or "" for a file that is no archive.
func kindOf(file io.ReaderAt) (string, error) {
	head := make([]byte, tarMagicAt+len(tarMagic))
	count, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	for _, known := range kinds {
		if bytes.HasPrefix(head[:count], []byte(known.magic)) {
			return known.kind, nil
		}
	}
	if string(head[tarMagicAt:]) == tarMagic {
		return "tar", nil
	}
	return "", nil
}

// archiveName matches the names that promise an archive.
var archiveName = regexp.MustCompile(`\.(zip|tgz|tbz2|txz|tzst|tar(\.(gz|bz2|xz|zst))?)$`)

// unpack writes the content of a fetched file into a tree: the files of an archive, or the file itself under its name. The
// archive may be hostile.
func unpack(ctx context.Context, name, from string, plain bool, into *tree) error {
	file, err := os.Open(from) //nolint:gosec // what was downloaded, or the author names
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened for reading: closing cannot lose anything
	found, err := kindOf(file)
	if err != nil {
		return err
	}
	if plain {
		found = ""
	}
	switch found {
	case zipArchive:
		return archiveFinding(unpackZip(ctx, file, into))
	case "tar", "gzip", "bzip2":
		return archiveFinding(unpackTar(ctx, file, found, into))
	case "":
		if archiveName.MatchString(name) && !plain {
			return findingf("archive", "it is no archive, in spite of its name")
		}
		return into.addFile(ctx, name, 0o755, file)
	default:
		return findingf("archive", "%s archives are not supported; use zip, tar, tar.gz or tar.bz2", found)
	}
}

// archiveFinding makes what the readers of archives say about broken ones a finding.
func archiveFinding(err error) error {
	var known *finding
	var system *fs.PathError
	switch {
	case err == nil, errors.As(err, &known), errors.As(err, &system), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, zip.ErrFormat):
		return findingf("archive", "the archive is broken or not complete: %w", err)
	default:
		return findingf("archive", "the archive is broken: %w", err)
	}
}

func unpackZip(ctx context.Context, file *os.File, into *tree) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // the tree judges names
		return err
	}
	for _, entry := range archive.File {
		mode := entry.Mode()
		if strings.HasSuffix(entry.Name, "/") {
			continue // directories come with their files
		}
		if !mode.IsRegular() {
			return findingf("archive", "%q is %s; only plain files are allowed", entry.Name, modeName(mode))
		}
		if entry.UncompressedSize64 > uint64(into.remaining) { //nolint:gosec // it is never negative
			return into.tooLarge()
		}
		content, err := entry.Open()
		if err != nil {
			return fmt.Errorf("%s: %w", entry.Name, err)
		}
		err = into.add(ctx, entry.Name, mode, int64(entry.UncompressedSize64), content) //nolint:gosec // bounded above
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}
	return nil
}

func unpackTar(ctx context.Context, file io.Reader, found string, into *tree) error {
	switch found {
	case "gzip":
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			return err
		}
		file = unzipped
	case "bzip2":
		file = bzip2.NewReader(file)
	}
	source := &endReader{reader: file}
	archive := tar.NewReader(source)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // the tree judges names
			return err
		}
		switch header.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue // directories come with their files
		case tar.TypeReg:
		default:
			return findingf("archive", "%q is %s; only plain files are allowed", header.Name, modeName(header.FileInfo().Mode()))
		}
		if err := into.add(ctx, header.Name, header.FileInfo().Mode(), header.Size, archive); err != nil {
			return err
		}
	}
	if source.ended {
		return fmt.Errorf("the end of the archive is missing: %w", io.ErrUnexpectedEOF)
	}
	// Behind the archive's end comes padding, and then the checksum of the compression.
	_, err := io.CopyN(io.Discard, source, maxPadding+1)
	if err == nil {
		return findingf("archive", "there is more than %s behind the end of the archive", size(maxPadding))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// maxPadding bounds what follows the end of a tar archive in bytes: tapes have large blocks.
const maxPadding = 1 << 20

// endReader notes that a reader has come to its end.
type endReader struct {
	reader io.Reader
	ended  bool
}

func (r *endReader) Read(buffer []byte) (int, error) {
	count, err := r.reader.Read(buffer)
	r.ended = r.ended || errors.Is(err, io.EOF) && count < len(buffer)
	return count, err
}

func modeName(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode.IsRegular():
		return "a hard link"
	default:
		return "a special file"
	}
}

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
