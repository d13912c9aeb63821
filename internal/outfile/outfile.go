// Package outfile writes the file that a user names for the product of a command.
//
// A path that names a regular file, or nothing, gets a new file, which is complete and on the disk before it replaces
// the old one under its name. Symbolic links are followed. Anything else, such as a device, a pipe or /dev/stdout, is a
// stream: it is written to as it is, and never replaced by a file.
package outfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"service-adapter/internal/ctxio"
	"service-adapter/internal/durable"
)

// An Output is the destination of a command's product: a regular file, which need not exist yet and is replaced as a
// whole, or a stream, such as a device or a pipe, which is written to in place. Resolve returns one; the zero value
// cannot be used.
type Output struct {
	path   string // as the user named it
	target string // path with its links followed; path itself for a stream
	stream bool
}

// Resolve inspects a path, which may be relative to the working directory, and returns it as an Output. It follows a
// symbolic link at the path, also one whose target does not exist, and creates no file. A path that leads to a regular
// file, or to no file, is the path of a file. Any other path is a stream, such as that of a device or a pipe, and so is
// the path of a descriptor, such as /dev/stdout. Resolve returns nil and an error, which names the path, if the path
// cannot be inspected or its links cannot be followed. A missing directory does not cause an error, but writing fails
// then. A directory is taken for a stream, and writing to it fails.
func Resolve(path string) (*Output, error) {
	output, err := resolve(path)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return output, nil
}

// resolve inspects a path and follows a symbolic link at the path, as Resolve does. A path without a file is not an
// error. resolve returns the same errors as Resolve, without the words "writing PATH": the path cannot be inspected,
// or its links cannot be followed. The Output that is returned with an error is nil or must not be used.
func resolve(path string) (*Output, error) {
	// The kernel follows the links first: it rejects loops, and the links that other users planted in /tmp.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return &Output{path: path, target: path, stream: true}, nil
	}
	target, descriptor, err := follow(path)
	if descriptor {
		target = path
	}
	return &Output{path: path, target: target, stream: descriptor}, err
}

// follow returns the path at the end of the symbolic links that begin at path. No file needs to exist at the end of
// the links. A path that is not a link, or at which no file exists, is returned unchanged; links among its
// directories are not resolved. descriptor reports whether one of the links is in the file system of processes, such
// as /proc/self/fd/1, the link of a descriptor. Its text need not be the path of a file; target is "" then. The error
// is syscall.ELOOP after 40 links, or the error of reading a link or its directory.
func follow(path string) (target string, descriptor bool, err error) {
	const most = 40 // as the kernel
	for range most {
		next, err := os.Readlink(path)
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrNotExist) {
			return path, false, nil // it is not a link
		}
		if err != nil {
			return "", false, err
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(path)) // "../file" is relative to the real directory
		switch {
		case err != nil:
			return "", false, err
		case isProc(dir):
			return "", true, nil
		case !filepath.IsAbs(next):
			next = filepath.Join(dir, next)
		}
		path = next
	}
	return "", false, syscall.ELOOP
}

// isProc reports whether the directory at the path dir belongs to the file system of processes, which is normally
// mounted at /proc. It returns false if the file system cannot be determined, for example because the directory does
// not exist.
func isProc(dir string) bool {
	const magic = 0x9fa0 // PROC_SUPER_MAGIC of statfs(2)
	var disk syscall.Statfs_t
	return syscall.Statfs(dir, &disk) == nil && disk.Type == magic
}

// IsStream reports whether the output is written to in place: it is neither a regular file nor the path of a new one,
// or it is a descriptor such as /dev/stdout.
func (o *Output) IsStream() bool { return o.stream }

// Target returns the path of the regular file that is replaced or created. It is the path that Resolve received if that
// is not a symbolic link, and otherwise the path at the end of the links. For a stream it is always the path that
// Resolve received.
func (o *Output) Target() string { return o.target }

// Write resolves a path, as Resolve does, and writes the product of a command to it: directly to a stream, and else to
// a new file that then replaces the old one. The new file has exactly this mode, whatever the umask and the mode of the
// old file are; a stream does not use the mode. The function write produces the content by writing it to its parameter.
// Write returns an error that names the path if the path cannot be resolved or written; the error wraps that of the
// function write.
//
// If write or a later step fails, the old file is unchanged, except that it is already replaced if only the last sync
// of its directory fails. A stream keeps the output that was already written.
//
// If the context ends while Write writes to a stream, for example while it waits for the reader of a pipe, Write
// returns an error that wraps the context's. The function write may then still be running, or be called later. The
// context does not interrupt the writing of a file.
func Write(ctx context.Context, path string, mode fs.FileMode, write func(to io.Writer) error) error {
	output, err := Resolve(path)
	if err != nil {
		return err
	}
	return output.Write(ctx, mode, write)
}

// Write writes the product of a command to the output: directly to a stream, and else to a new file of exactly this
// mode that then replaces the old one. A stream does not use the mode. The function write produces the content by
// writing it to its parameter. Write returns an error if write fails, if the output cannot be written, or if ctx ends
// while it writes to a stream; write may then still be running, or be called later. After an error the old file is
// unchanged, except that it is already replaced if only the last sync of its directory fails. A stream keeps the output
// that was already written.
func (o *Output) Write(ctx context.Context, mode fs.FileMode, write func(to io.Writer) error) error {
	if o.stream {
		return o.writeStream(ctx, write)
	}
	staged, err := o.Stage(mode, write)
	if err != nil {
		return err
	}
	defer staged.Discard()
	return o.Publish(ctx, staged)
}

// writeStream opens the stream for appending, calls write with it and closes it. If the context ends first, writeStream
// returns an error that wraps the context's, even while opening blocks, as it does for a pipe without a reader; write
// may then still be running, or be called later. Otherwise it returns an error if the stream cannot be opened or closed
// or if write fails. The errors name the path of the output. A part of the content may already be written after an
// error.
func (o *Output) writeStream(ctx context.Context, write func(to io.Writer) error) error {
	_, err := ctxio.Await(ctx, func() (none struct{}, err error) {
		// Appending keeps the output that a shell redirected to the same file before.
		stream, err := os.OpenFile(o.path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return none, err
		}
		return none, errors.Join(write(stream), stream.Close())
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", o.path, err)
	}
	return nil
}

// A Staged is a complete product in a temporary file, which Output.Publish moves or copies to its destination.
// Output.Stage returns it, and the caller must call Discard, also after Publish. The zero value names no file.
type Staged struct{ name string }

// Name returns the path of the temporary file. Callers may read the file until it is published or discarded. The path
// is relative to the working directory if that of the output is relative.
func (s *Staged) Name() string { return s.name }

// Discard removes the temporary file, and ignores errors. It does nothing if Publish has moved the file to its
// destination, or after a previous call.
func (s *Staged) Discard() { _ = os.Remove(s.name) } // after a rename there is nothing to remove

// Stage writes the product to a new temporary file of exactly this mode and waits until it is on the disk. The function
// write produces the content by writing it to its parameter. The file is in the directory of the target, or for a
// stream in os.TempDir. The output itself is not changed. The caller must call Staged.Discard, also after Publish.
// Stage returns nil and an error, which names the path of the output, if the file cannot be created or written or if
// write fails; it has then removed the file.
func (o *Output) Stage(mode fs.FileMode, write func(to io.Writer) error) (*Staged, error) {
	dir := filepath.Dir(o.target)
	if o.stream {
		dir = ""
	}
	file, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", o.path, err)
	}
	err = errors.Join(write(file), file.Chmod(mode), file.Sync(), file.Close())
	if err != nil {
		_ = os.Remove(file.Name())
		return nil, fmt.Errorf("writing %s: %w", o.path, err)
	}
	return &Staged{name: file.Name()}, nil
}

// Publish moves a staged product to the destination of this output, where it replaces the old file in one step, and
// syncs the directory. The product must have been staged by this output, or by another with a target in the same
// directory. Publish returns an error if the file cannot be moved or the directory cannot be synced. In the second case
// the old file is already replaced; otherwise it is unchanged. For a file, ctx is not used.
//
// To a stream, Publish copies the product, and the temporary file stays until Discard. Publish returns an error if the
// product cannot be copied. If the context ends first, the error wraps the context's, and the copying may continue in
// the background. After an error, a part of the product may have been written to the stream.
func (o *Output) Publish(ctx context.Context, staged *Staged) error {
	if o.stream {
		return o.writeStream(ctx, func(to io.Writer) error {
			file, err := os.Open(staged.name)
			if err != nil {
				return err
			}
			defer file.Close() //nolint:errcheck // opened for reading: closing cannot lose anything
			_, err = io.Copy(to, file)
			return err
		})
	}
	err := os.Rename(staged.name, o.target)
	if err == nil {
		err = durable.SyncDir(filepath.Dir(o.target))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", o.path, err)
	}
	return nil
}

// KeepPrevious gives the present file of the output a second path, kept, so that Publish does not lose the file. A
// regular file at kept is replaced. kept must be on the file system of the target, and the output must not be a stream.
// If the file cannot have two paths, for example because the file system has no hard links or the file belongs to
// another user, KeepPrevious renames it to kept, so that the target is missing until Publish.
//
// KeepPrevious does nothing and returns nil if the output has no file yet, and also if the directory of kept does not
// exist. It returns an error, and changes nothing, if kept exists and is not a regular file, or if kept cannot be
// inspected. It also returns an error if the file, or a new link to it, cannot be renamed to kept; the target then
// stays.
func (o *Output) KeepPrevious(kept string) error {
	if err := keep(o.target, kept); err != nil {
		return fmt.Errorf("keeping the previous %s as %s: %w", o.path, kept, err)
	}
	return nil
}

// keep gives the file at path a second path, kept, or renames it to kept if it cannot have two. A regular file at
// kept is replaced. keep does nothing and returns nil if no file exists at path, or if the directory of kept does not
// exist. It returns an error if kept exists and is not a regular file or cannot be inspected, or if the file cannot
// be renamed to kept. Its errors lack the words "keeping the previous FILE as KEPT" that KeepPrevious adds.
func keep(path, kept string) error {
	info, err := os.Lstat(kept)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return errors.New("that is not a regular file")
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	// A second link, so that the file is never without its name.
	link := fmt.Sprintf("%s.%d", kept, os.Getpid())
	err = os.Link(path, link)
	switch {
	case err == nil:
		// The rename does nothing if both names are links of one file. After any other rename the link is gone.
		defer os.Remove(link) //nolint:errcheck // see above
		return os.Rename(link, kept)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default: // the file system has no links, or the file belongs to another user
		return os.Rename(path, kept)
	}
}
