package build

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

// kinds are the kinds of archives and compressed files by their first bytes. xz and zstd are only recognized, to be
// rejected with a clear message.
var kinds = []struct{ kind, magic string }{ //nolint:gochecknoglobals // a constant table
	{zipArchive, "PK\x03\x04"},
	{zipArchive, "PK\x05\x06"},
	{"gzip", "\x1f\x8b"},
	{"bzip2", "BZh"},
	{"xz", "\xfd7zXZ\x00"},
	{"zstd", "\x28\xb5\x2f\xfd"},
}

// zipArchive is the kind of zip files.
const zipArchive = "zip"

// tarMagic is the text at the byte offset tarMagicAt of the first header of a tar archive.
const (
	tarMagic   = "ustar"
	tarMagicAt = 257
)

// kindOf inspects the beginning of a file. It returns "tar", the kind of an entry of kinds, such as "zip" or "xz", or
// "" for any other file, also an empty one. It returns an error if the file cannot be read.
func kindOf(file io.ReaderAt) (string, error) {
	head := make([]byte, tarMagicAt+len(tarMagic))
	count, err := file.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	for _, candidate := range kinds {
		if bytes.HasPrefix(head[:count], []byte(candidate.magic)) {
			return candidate.kind, nil
		}
	}
	if string(head[tarMagicAt:]) == tarMagic {
		return "tar", nil
	}
	return "", nil
}

// archiveName matches file names with the extension of an archive.
var archiveName = regexp.MustCompile(`\.(zip|tgz|tbz2|txz|tzst|tar(\.(gz|bz2|xz|zst))?)$`)

// unpack adds the content of the file at the path from to a tree: the files of an archive, or the file itself, as an
// executable with the given name, if it is not an archive. plain means that an archive is not unpacked either. The
// archive may be hostile. The error is a *finding if the archive is broken, too large or not supported, if the tree
// rejects a file, or if the file is not an archive although its name says so. Other errors are those of reading and
// writing files, and the end of ctx. The files that were added before the error remain in the tree.
func unpack(ctx context.Context, name, from string, plain bool, into *tree) error {
	file, err := os.Open(from) //nolint:gosec // it was downloaded, or the author names it
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened for reading only, so that closing loses no data
	kind, err := kindOf(file)
	if err != nil {
		return err
	}
	if plain {
		kind = ""
	}
	switch kind {
	case zipArchive:
		return archiveFinding(unpackZip(ctx, file, into))
	case "tar", "gzip", "bzip2":
		return archiveFinding(unpackTar(ctx, file, kind, into))
	case "":
		if archiveName.MatchString(name) && !plain {
			return findingf("archive", "it is not an archive, although its name says so")
		}
		return into.addFile(ctx, name, executable, file)
	default:
		return findingf("archive", "%s archives are not supported; use zip, tar, tar.gz or tar.bz2", kind)
	}
}

// archiveFinding converts an error of an archive reader into a *finding that says that the archive is broken. It
// returns a *finding, an error of the file system (*fs.PathError) and the end of a context as they are, and nil for
// nil; it converts every other error.
func archiveFinding(err error) error {
	switch {
	case err == nil, errors.As(err, new(*finding)), errors.As(err, new(*fs.PathError)),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, zip.ErrFormat):
		return findingf("archive", "the archive is broken or not complete: %w", err)
	default:
		return findingf("archive", "the archive is broken: %w", err)
	}
}

// unpackZip adds the files of a zip archive to a tree. It returns a *finding if an entry is neither a regular file nor
// a directory, if the archive exceeds a limit, or if the tree rejects a file. Other errors are those of the zip reader
// and of the file system, and the end of ctx; see archiveFinding. The files before the error remain in the tree.
func unpackZip(ctx context.Context, file *os.File, into *tree) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // the tree checks names
		return err
	}
	for _, entry := range archive.File {
		if err := into.countEntry(); err != nil {
			return err
		}
		mode := entry.Mode()
		if strings.HasSuffix(entry.Name, "/") {
			continue // the tree creates the directories of its files
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

// unpackTar adds the files of a tar archive to a tree. compression is "gzip", "bzip2", or "tar" for an archive that is
// not compressed. unpackTar returns a *finding if an entry is neither a regular file nor a directory, if the archive
// exceeds a limit, if more than maxPadding follows its end, or if the tree rejects a file. It returns
// io.ErrUnexpectedEOF, wrapped, if the end of the archive is missing. Other errors are those of the readers and of the
// file system, and the end of ctx; see archiveFinding. The files before the error remain in the tree.
func unpackTar(ctx context.Context, file io.Reader, compression string, into *tree) error {
	file = ctxio.Reader(ctx, file)
	switch compression {
	case "gzip":
		unzipped, err := gzip.NewReader(file)
		if err != nil {
			return err
		}
		file = unzipped
	case "bzip2":
		file = bzip2.NewReader(file)
	}
	source := &tarReader{reader: file, left: into.remaining + maxHeaders, tooLarge: into.tooLarge()}
	archive := tar.NewReader(source)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // the tree checks names
			return err
		}
		if err := into.countEntry(); err != nil {
			return err
		}
		switch header.Typeflag {
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue // the tree creates the directories of its files
		case tar.TypeReg:
		default:
			return findingf("archive", "%q is %s; only plain files are allowed", header.Name,
				modeName(header.FileInfo().Mode()))
		}
		if err := into.add(ctx, header.Name, header.FileInfo().Mode(), header.Size, archive); err != nil {
			return err
		}
	}
	if source.ended {
		return fmt.Errorf("the end of the archive is missing: %w", io.ErrUnexpectedEOF)
	}
	// The padding after the end of the archive is read, because the checksum of the compression follows it.
	_, err := io.CopyN(io.Discard, source, maxPadding+1)
	if err == nil {
		return findingf("archive", "there is more than %s after the end of the archive", size(maxPadding))
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// maxPadding is the maximum size of the padding after the end of a tar archive, in bytes. Tapes have large blocks.
const maxPadding = 1 << 20

// maxHeaders is the maximum size of all parts of a tar archive but the content of its files, in bytes.
const maxHeaders = 64 << 20

// A tarReader reads a tar archive. Its Read fails with tooLarge after more than left bytes, because a single header
// may have any size.
type tarReader struct {
	reader   io.Reader
	left     int64
	tooLarge error
	ended    bool // whether the reader has reached its end
}

// Read implements io.Reader. Once the limit is exceeded, it returns no bytes and r.tooLarge.
func (r *tarReader) Read(buffer []byte) (int, error) {
	count, err := r.reader.Read(buffer)
	r.ended = r.ended || errors.Is(err, io.EOF) && count < len(buffer)
	if r.left -= int64(count); r.left < 0 {
		return 0, r.tooLarge
	}
	return count, err
}

// modeName returns the type of an entry that is not allowed in an archive, for messages: "a symbolic link", "a hard
// link" for a regular file, because an archive reader reports a hard link as one, or else "a special file".
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

// A tree is a directory to which files from untrusted archives are added. It rejects a path that exists already or
// leads outside of the directory, and content that exceeds its limits.
type tree struct {
	root      *os.Root
	files     map[string]fs.FileMode // the mode of each file, 0755 or 0644, by its slash-separated path
	entries   int                    // the number of entries so far, directories included
	remaining int64                  // the number of bytes that may still be written
	limit     int64                  // the initial value of remaining
}

// newTree returns a tree in an existing directory for at most limit bytes. Files that are already in the directory are
// not files of the tree and cannot be replaced. newTree returns an error if the directory cannot be opened. The caller
// must close the tree.
func newTree(dir string, limit int64) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, files: map[string]fs.FileMode{}, remaining: limit, limit: limit}, nil
}

// close releases the directory and returns the error of that. The files remain.
func (t *tree) close() error { return t.root.Close() }

// tooLarge returns the *finding for content that exceeds the limit.
func (t *tree) tooLarge() error {
	return findingf("archive", "it unpacks to more than %s", size(t.limit))
}

// countEntry counts an entry of an archive. It returns a *finding if the archive has more entries than a pak may have
// files. Files that are added without countEntry are not counted.
func (t *tree) countEntry() error {
	if t.entries++; t.entries > brokerpak.MaxFiles {
		return findingf("archive", "the archive contains more than %d files and directories", brokerpak.MaxFiles)
	}
	return nil
}

// add writes a file with the name, mode and size that an archive states, and creates its directories. The file gets
// mode 0755 if mode is executable for anyone, and else 0644. add returns a *finding if the name is not allowed or not
// unique, or if the size, count, exceeds what remains of the limit. It returns an error of the file system if the file
// cannot be created or written, for example because the directory contained it before newTree. The error wraps
// io.ErrUnexpectedEOF if content does not have exactly count bytes. After an error while content is read, or if ctx
// ends, an incomplete file remains.
func (t *tree) add(ctx context.Context, name string, mode fs.FileMode, count int64, content io.Reader) (err error) {
	clean, err := cleanName(name)
	if err != nil {
		return err
	}
	switch _, exists := t.files[clean]; {
	case exists:
		return findingf("archive", "the archive contains two files %q", clean)
	case count > t.remaining:
		return t.tooLarge()
	}
	permissions := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		permissions = executable
	}
	if err := t.root.MkdirAll(filepath.FromSlash(path.Dir(clean)), 0o755); err != nil {
		return err
	}
	file, err := t.root.OpenFile(filepath.FromSlash(clean), os.O_CREATE|os.O_EXCL|os.O_WRONLY, permissions)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// One more byte is read, because some readers verify a checksum when they reach their end.
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

// addFile writes a copy of an open file under a name in the tree, as add does, and does not close the file. It returns
// an error if the file cannot be inspected, and the errors of add.
func (t *tree) addFile(ctx context.Context, name string, mode fs.FileMode, file fs.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return t.add(ctx, name, mode, info.Size(), file)
}

// names returns the sorted, slash-separated paths of the files.
func (t *tree) names() []string { return value.Keys(t.files) }

// cleanName returns a path of an archive with slashes and without dot elements. It returns a *finding if the path is
// absolute, contains "..", is the root itself, or contains a byte 0.
func cleanName(name string) (string, error) {
	slashes := strings.ReplaceAll(name, `\`, "/")
	clean := path.Clean(slashes)
	if path.IsAbs(slashes) || slices.Contains(strings.Split(slashes, "/"), "..") ||
		!filepath.IsLocal(filepath.FromSlash(clean)) || clean == "." || strings.ContainsRune(clean, 0) {
		return "", findingf("archive", "the archive contains a file %q, which leads outside of it", name)
	}
	return clean, nil
}
