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

// kindOf returns the kind of a file according to its first bytes: "zip", "gzip", "bzip2", "xz", "zstd" or "tar". It
// returns "" for any other file, also an empty one. It does not look into compressed content: a tar.gz is "gzip". It
// returns an error only if the file cannot be read.
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

// unpack adds the content of the local file at the path from to the tree into. If the file is a zip, tar, tar.gz or
// tar.bz2 archive, these are the files of the archive. Otherwise it is the file itself, as an executable with the name
// in the parameter name, a slash-separated path in the tree. plain means that an archive is not unpacked either, but
// added as an executable. The archive may be hostile.
//
// The error is or wraps a *finding in these cases:
//   - The archive is broken or of an unsupported kind (xz, zstd), or has more than brokerpak.MaxFiles entries. A gzip
//     or bzip2 file that does not contain a tar archive counts as broken.
//   - The archive contains an entry that is neither a regular file nor a directory, such as a link.
//   - The file, or the content of the archive, is larger than the tree allows.
//   - The tree rejects a file, for example because its path leads outside of the tree.
//   - name has the extension of an archive, but the file is none and plain is false.
//
// Other errors are those of reading and writing files, and the end of ctx. The files that were added before the error
// remain in the tree, the last one possibly incomplete.
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
			return findingf("archive", "its name is that of an archive, but its content is not an archive")
		}
		return into.addFile(ctx, name, executable, file)
	default:
		return findingf("archive", "%s archives are not supported; use zip, tar, tar.gz or tar.bz2", kind)
	}
}

// archiveFinding converts an error of an archive reader into a *finding with the rule "archive", whose message says
// that the archive is broken and contains the message of the error. It returns nil for nil. It returns unchanged an
// error that is or wraps a *finding, an error of the file system (*fs.PathError), or the end of a context. It converts
// every other error.
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

// unpackZip adds the regular files of an open zip archive to a tree. It skips directories, which are the entries whose
// names end with a slash, because the tree creates those that its files need, and does not close the file. It returns a
// *finding if any other entry is not a regular file, if the archive has more than brokerpak.MaxFiles entries or more
// bytes than the tree allows, or if the tree rejects a path. Other errors are those of the zip reader, for example for
// a wrong checksum, those of the file system, and the end of ctx; unpack converts those of the reader with
// archiveFinding. The files that were added before the error remain in the tree, the last one possibly incomplete.
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

// unpackTar adds the regular files of a tar archive to a tree. It skips directories and global headers, because the
// tree creates the directories that its files need. compression is "gzip", "bzip2", or "tar" for an archive that is not
// compressed. unpackTar does not close the file.
//
// It returns a *finding if the archive contains any other kind of entry, such as a link, if it has more than
// brokerpak.MaxFiles entries, more bytes than the tree allows, or headers of more than maxHeaders (64 MB) in addition,
// if more than maxPadding (1 MB) follows its end, or if the tree rejects a path. It returns an error that wraps
// io.ErrUnexpectedEOF if the end of the archive is missing. Other errors are those of the tar reader and the
// decompression, those of the file system, and the end of ctx; unpack converts those of the readers with
// archiveFinding. The files that were added before the error remain in the tree, the last one possibly incomplete.
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

// A tarReader passes the bytes of a tar archive on to the tar library and limits their number, because a single header
// may have any size. When the limit is exceeded, Read returns the error tooLarge. The field ended records whether the
// underlying reader ended before it could fill a buffer, which means that the end of the archive is missing. The zero
// value is not usable, because it has no underlying reader.
type tarReader struct {
	reader   io.Reader
	left     int64
	tooLarge error
	ended    bool // whether the reader has reached its end
}

// Read implements io.Reader. It returns the bytes and the error of the underlying reader until the limit is exceeded;
// from then on it returns no bytes and r.tooLarge. It sets r.ended if the underlying reader reports io.EOF before the
// buffer is full.
func (r *tarReader) Read(buffer []byte) (int, error) {
	count, err := r.reader.Read(buffer)
	r.ended = r.ended || errors.Is(err, io.EOF) && count < len(buffer)
	if r.left -= int64(count); r.left < 0 {
		return 0, r.tooLarge
	}
	return count, err
}

// modeName returns the type of an entry that is not allowed in an archive, for messages. mode is the mode that the
// archive reader reports. The result is "a symbolic link" or "a special file", and "a hard link" for the mode of a
// regular file, because the readers report hard links with such a mode.
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

// A tree is a directory to which files from untrusted archives are added, with a list of these files and their modes.
// It rejects a path that exists already or leads outside of the directory, content of more bytes than its limit in all,
// and archives with too many entries. The zero value is not usable; newTree returns one.
type tree struct {
	root      *os.Root
	files     map[string]fs.FileMode // the mode of each file, 0755 or 0644, by its slash-separated path
	entries   int                    // the number of entries so far, directories included
	remaining int64                  // the number of bytes that may still be written
	limit     int64                  // the initial value of remaining
}

// newTree returns a tree without files in the existing directory dir. limit is the number of bytes that all added files
// may have together. Files that are already in the directory are not files of the tree and cannot be replaced. newTree
// returns an error if the directory cannot be opened. The caller must close the tree.
func newTree(dir string, limit int64) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, files: map[string]fs.FileMode{}, remaining: limit, limit: limit}, nil
}

// close closes the handle of the directory; no file can be added afterwards. The files remain. It returns an error if
// closing fails.
func (t *tree) close() error { return t.root.Close() }

// tooLarge returns a new *finding with the rule "archive", which says that an archive unpacks to more bytes than the
// limit of the tree. It checks nothing itself and is never nil.
func (t *tree) tooLarge() error {
	return findingf("archive", "it unpacks to more than %s", size(t.limit))
}

// countEntry counts one entry of an archive; directories count as well. It returns a *finding if more than
// brokerpak.MaxFiles entries have been counted for this tree, and otherwise nil. The readers of archives call it for
// each entry; add and addFile do not.
func (t *tree) countEntry() error {
	if t.entries++; t.entries > brokerpak.MaxFiles {
		return findingf("archive", "the archive contains more than %d files and directories", brokerpak.MaxFiles)
	}
	return nil
}

// add writes a file to the tree, with the name, mode and size in bytes (count) that an archive states, and creates its
// directories. The name is cleaned by cleanName. The file gets mode 0755 if mode is executable for anyone, and
// otherwise 0644; on the disk, the umask may reduce it. add does not close content.
//
// add returns a *finding if the name is not allowed, if the tree has a file of this name, or if count exceeds the rest
// of the limit. It returns an error of the file system if the file cannot be created or written, for example because
// the directory contained it before newTree. It returns the error of content, and an error that wraps
// io.ErrUnexpectedEOF if content does not have exactly count bytes. It also returns an error if ctx ends. After an
// error that occurs while content is copied, an incomplete file remains in the tree.
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

// addFile writes a copy of an open file to the tree, under a slash-separated name and with mode 0755 or 0644; see add
// for both. It does not close the file. It returns a *finding if the name is not allowed, if a file of this name was
// added before, or if the file is larger than the rest of the limit. Other errors are that the directory contained a
// file of this name before newTree, that the file cannot be inspected or read, that the copy cannot be written, and
// that ctx ends.
func (t *tree) addFile(ctx context.Context, name string, mode fs.FileMode, file fs.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return t.add(ctx, name, mode, info.Size(), file)
}

// names returns the sorted, slash-separated paths of the files that were added to the tree, relative to its directory.
// It returns nil if there are none.
func (t *tree) names() []string { return value.Keys(t.files) }

// cleanName returns the path of an entry of an archive in its shortest form: with slashes instead of backslashes, and
// without "." and empty elements. It returns a *finding if the path is absolute, contains the element "..", is empty or
// the root itself, or contains a byte 0.
func cleanName(name string) (string, error) {
	slashes := strings.ReplaceAll(name, `\`, "/")
	clean := path.Clean(slashes)
	if path.IsAbs(slashes) || slices.Contains(strings.Split(slashes, "/"), "..") ||
		!filepath.IsLocal(filepath.FromSlash(clean)) || clean == "." || strings.ContainsRune(clean, 0) {
		return "", findingf("archive", "the archive contains a file %q, which leads outside of it", name)
	}
	return clean, nil
}
