// Package build creates brokerpaks. It generates the source directory of a new pak from a skeleton, an example or a
// BOSH manifest, builds the .brokerpak file with all binaries from a source directory, and unpacks a .brokerpak file.
//
// Binaries are fetched by a small client of its own for http, https and local files, and unpacked from zip and tar
// archives. Downloads and archives are treated as hostile: their sizes, paths and file types are checked.
package build

import (
	"archive/zip"
	"cmp"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/bill"
	"service-adapter/internal/ctxio"
	"service-adapter/internal/diag"
	"service-adapter/internal/outfile"
	"service-adapter/internal/value"
)

// manifestName is the name of the manifest in the root of a pak.
const manifestName = "manifest.yml"

// Options are the options of Build and Lock: the source directory of the pak, the output, the platforms, replacements
// for binaries, the directory that keeps downloads, and the functions and the stream that a build uses. Unpacked
// creates a directory instead of a .brokerpak file, and IncludeSource adds the source code of binaries. Dir and
// Progress must be set, and for Build also Getenv if Output is "", because the default of Output may contain the
// value of a variable. Every other field may have its zero value, whose meaning is stated at the field.
type Options struct {
	// Dir is the source directory of the pak.
	Dir string
	// Output is the file to write. "" means <name>-<version>.brokerpak in the working directory.
	Output string
	// Unpacked makes a directory that can be used as the file can: with the executables, and with the definitions and
	// the files that they refer to as they are in Dir, so that positions in errors are those of the source. That takes
	// less time than a file. The directory has no bill of materials and no lock, and the lock of the source is only
	// compared with downloads. The directory Output must not exist.
	Unpacked bool
	// Platform replaces the platforms of the manifest. nil builds for all platforms of the manifest.
	Platform *brokerpak.Platform
	// IncludeSource adds the source code of the binaries, for entries of terraform_binaries that have a source.
	IncludeSource bool
	// CacheDir is the directory that keeps downloads for later builds. "" keeps none.
	CacheDir string
	// Binaries maps names of entries of terraform_binaries to URLs or paths that replace their url_template. Paths are
	// relative to the working directory. A file that is not an archive is the executable, whatever its name.
	Binaries map[string]string
	// Installed returns the path of an executable that this machine has for an entry without a url_template that is not
	// in Binaries, or "" if there is none. A nil Installed finds none. It is called for the platform of this machine
	// only.
	Installed func(ctx context.Context, entry brokerpak.Binary) string
	// Getenv looks up environment variables. If the version in the manifest is the name of a variable, the value of the
	// variable replaces it in the default of Output.
	Getenv func(name string) (string, bool)
	// Progress receives one line for each fetched file, each repeated attempt of a download, each entry without a
	// source if IncludeSource is set, and the .brokerpak file. Lock also writes a line for each difference from the
	// existing lock. Write errors are ignored. Progress must not be nil.
	Progress io.Writer
	// Client sends the requests. nil means a default client with timeouts.
	Client *http.Client
	// Pause waits between download attempts. nil waits for the real duration.
	Pause func(ctx context.Context, duration time.Duration) error
	// MaxBinary is the maximum size of a download, and of the unpacked content of an archive, in bytes. 0 means 4 GB.
	MaxBinary int64
}

// ParsePlatform parses a platform of the form OS/ARCH, such as "linux/amd64"; ARCH is everything after the first slash.
// The text "current" is the platform of this process. ParsePlatform returns the zero Platform and an error if any other
// text has no slash, or if one side of its first slash is empty. It does not check whether such a platform exists.
func ParsePlatform(text string) (brokerpak.Platform, error) {
	if text == "current" {
		return brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, nil
	}
	os, arch, ok := strings.Cut(text, "/")
	if !ok || os == "" || arch == "" {
		return brokerpak.Platform{}, fmt.Errorf(
			"platform %q must have the form OS/ARCH, such as linux/amd64, or be \"current\"", text)
	}
	return brokerpak.Platform{OS: os, Arch: arch}, nil
}

// Build builds a .brokerpak file from the source directory Options.Dir and returns its path, which is Options.Output or
// the default name in the working directory. It downloads the binaries that are not in the cache. The file is written
// only after Build has fetched every binary for every platform of the build and has opened the finished file; until
// then, an existing file is kept. The same sources, binaries and options result in the same bytes. If Options.Unpacked
// is set, Build creates a directory instead of the file; that directory must not exist.
//
// If the source has a lock, the lock must list every file fetched from a url_template, a default location or a source,
// and the file must have the digest in the lock, unless its location has a SHA-512 checksum, which is then compared
// instead. Files of Options.Binaries and Options.Installed are not compared in this way. Unless Options.Unpacked is
// set, each file below bin and src of the built pak must also have the digest in the lock, whatever its origin. The
// built file contains a lock and a bill of materials of its own files.
//
// The error is, or wraps, a diag.Errors if the author must correct the pak or its lock. It contains all findings about
// binaries, not only the first. Other errors are that Options.Dir, a file of the pak or a local binary cannot be read,
// that Options.Dir is a pak file, that Options.Binaries contains an unknown name, that the default of Options.Output is
// not a file name, that an executable is missing from the built pak, that temporary files or the output cannot be
// written, that a download fails, and that ctx ends.
//
// The path is "" if there is an error. The output then does not exist or is unchanged, except that an output that is a
// stream, such as a pipe, may have received a part, and that the output is complete if only the last sync of its
// directory or the removal of temporary files failed. Build removes its temporary files, also after an error.
func Build(ctx context.Context, options Options) (string, error) {
	b, err := newBuilder(options)
	if err != nil {
		return "", err
	}
	defer func() { _ = b.pak.Close() }() // opened for reading only, so that closing loses no data
	if b.lock, err = b.pak.Lock(); err != nil {
		return "", err
	}
	output, err := outputName(b.pak, options)
	if err != nil {
		return "", err
	}
	parent := "" // the default directory for temporary files
	if options.Unpacked {
		parent = filepath.Dir(output) // a directory can only be renamed within a file system
	}
	if err := b.inTemporary(parent, func() error { return b.build(ctx, output) }); err != nil {
		return "", err
	}
	return output, nil
}

// newBuilder opens the source of the pak in Options.Dir, and returns a builder whose options have their defaults,
// except Output and CacheDir. It does not read the lock of the pak, so the lock of the builder is nil; inTemporary sets
// the stage directory, and CacheDir if it is "". The caller must close the pak of the builder. newBuilder returns nil
// and an error if the pak is invalid (a diag.Errors), cannot be read, or is a .brokerpak file instead of a directory,
// or if Options.Binaries contains a name that no entry of terraform_binaries has.
func newBuilder(options Options) (*builder, error) {
	pak, err := brokerpak.Open(options.Dir)
	if err != nil {
		return nil, err
	}
	b := &builder{
		Options: options, pak: pak, platforms: pak.Manifest.Platforms, executables: map[string]bill.Executable{},
		diags: &diag.List{},
	}
	if options.Platform != nil {
		b.platforms = []brokerpak.Platform{*options.Platform}
	}
	b.Client, b.MaxBinary = cmp.Or(b.Client, newClient()), cmp.Or(b.MaxBinary, maxBinary)
	if b.Pause == nil {
		b.Pause = pause
	}
	if pak.IsZip() {
		err = fmt.Errorf("%s is built already; name the directory of its source", options.Dir)
	}
	for _, name := range value.Keys(options.Binaries) {
		hasName := func(entry brokerpak.Binary) bool { return entry.Name == name }
		if err == nil && !slices.ContainsFunc(pak.Manifest.Binaries, hasName) {
			err = fmt.Errorf("terraform_binaries of %s has no entry named %q", pak.Display(manifestName), name)
		}
	}
	if err != nil {
		_ = pak.Close() // opened for reading only, so that closing loses no data
		return nil, err
	}
	return b, nil
}

// inTemporary creates a new temporary directory below parent, calls work, and removes the directory with its content
// afterwards, whatever work returns. A parent of "" is the default directory for temporary files. Before the call,
// inTemporary sets b.stage to a path in the temporary directory, and b.CacheDir as well if it is "". It creates
// neither of these two directories, and does not reset the fields when it removes the temporary directory. A cache
// directory that was set is used as it is, and kept.
//
// inTemporary returns the errors of work and of removing the directory, joined. If the temporary directory cannot be
// created, it returns that error and does not call work.
func (b *builder) inTemporary(parent string, work func() error) error {
	dir, err := os.MkdirTemp(parent, "pak-build-")
	if err != nil {
		return fmt.Errorf("creating a directory for the build: %w", err)
	}
	b.CacheDir, b.stage = cmp.Or(b.CacheDir, filepath.Join(dir, "downloads")), filepath.Join(dir, "pak")
	return errors.Join(work(), os.RemoveAll(dir))
}

// A builder builds one pak or its lock. It contains the options with their defaults, the open source of the pak and its
// lock, the platforms for which binaries are fetched, the path of the stage directory, where the content of the built
// pak is assembled, the fetched files, the executables in the stage with the entries that own them, and the collected
// findings. The zero value is not usable; newBuilder returns one.
type builder struct {
	Options

	pak         *brokerpak.Pak
	platforms   []brokerpak.Platform
	stage       string                     // the directory with the content of the built pak
	executables map[string]bill.Executable // the executables in the stage, by their paths below it
	lock        *brokerpak.Lock            // nil if the pak has none, and while a lock is written
	fetched     []brokerpak.FetchedFile    // the files that were fetched so far
	diags       *diag.List
}

// progressf writes a text that is formatted as by fmt.Sprintf, and a line break, to Options.Progress. Write errors are
// ignored.
func (b *builder) progressf(format string, args ...any) {
	_, _ = fmt.Fprintf(b.Progress, format+"\n", args...)
}

// build assembles the content of the pak in the stage directory and writes the output, a path, from it: a .brokerpak
// file or a stream such as a pipe, or, if Options.Unpacked is set, a directory, which must not exist. It must be called
// by inTemporary, which sets the stage directory. It writes progress lines. If build returns an error, the output does
// not exist or is unchanged, except that a stream may have received a part, and that a file is complete if only the
// last sync of its directory failed.
//
// The error is, or wraps, a diag.Errors if the author must correct the pak, or if fetched files differ from its lock.
// Other errors are that an executable is missing, that a download fails, that a file cannot be read or written, and
// that ctx ends.
func (b *builder) build(ctx context.Context, output string) error {
	files, err := writeTexts(b.pak, b.platforms, b.stage)
	if err != nil {
		return err
	}
	staged, err := brokerpak.Open(b.stage) // so that an unusable definition is reported before the downloads
	if err != nil {
		return unusable(err, b.stage)
	}
	if err := b.fetchAll(ctx); err != nil {
		return err
	}
	for _, platform := range b.platforms { // the adapter will look up the executables in the same way
		if _, err := staged.Executables(ctx, platform, ""); err != nil {
			return unusable(err, b.stage)
		}
	}
	if b.Unpacked {
		if err := copyTexts(b.pak, files, b.stage); err != nil {
			return err
		}
		return os.Rename(b.stage, output)
	}
	if err := b.describe(ctx); err != nil {
		return err
	}
	return writeZip(ctx, b.stage, output, func(file string) error {
		built, err := brokerpak.Open(file)
		if err != nil {
			return unusable(err, file)
		}
		b.progressf("%s: %s", output, fileSize(file))
		return built.Close()
	})
}

// fetchAll fetches the binaries for the platforms of the build, and with Options.IncludeSource their source code, into
// the stage directory, which must exist. It creates the cache directory. It appends the fetched files to b.fetched, for
// the lock, unless Options.Unpacked is set, and records the executables in b.executables, for the bill of materials. If
// b.lock is not nil, a file that the lock lacks or contradicts is a finding; see locate and pin for the exceptions.
//
// A finding, which the author of the pak must correct, does not end fetchAll: after all entries, it returns a
// diag.Errors with all findings in b.diags, including those from before the call. Any other error ends it at once, and
// does not contain the findings so far, which remain in b.diags. Such errors are that the cache directory cannot be
// created, that a download fails, that a file cannot be read or written, and that ctx ends.
func (b *builder) fetchAll(ctx context.Context) error {
	if err := os.MkdirAll(b.CacheDir, 0o700); err != nil {
		return fmt.Errorf("creating the directory for downloads: %w", err)
	}
	if err := b.binaries(ctx); err != nil {
		return err
	}
	if b.IncludeSource {
		if err := b.sources(ctx); err != nil {
			return err
		}
	}
	return b.diags.Err()
}

// unusable wraps an error of reading the built pak, which must not be nil, in one that says that the built pak is not
// usable. If the error is or wraps a diag.Errors, only these findings are wrapped. path is the temporary directory or
// file of the built pak. It is removed from the positions of the findings, so that these name the files of the pak,
// such as "manifest.yml".
func unusable(err error, path string) error {
	var findings diag.Errors
	if errors.As(err, &findings) {
		findings = slices.Clone(findings)
		for i := range findings {
			findings[i].Pos.File = strings.TrimLeft(strings.TrimPrefix(findings[i].Pos.File, path), "!/")
		}
		err = findings
	}
	return fmt.Errorf("the built pak is not usable: %w", err)
}

// outputName returns Options.Output or, if that is "", the default name NAME-VERSION.brokerpak, a path relative to
// the working directory. NAME and VERSION are those of the manifest; but if the version in the manifest is the name
// of an environment variable that Options.Getenv finds, VERSION is the value of the variable, even if the value is
// "". Getenv must not be nil if Options.Output is "". outputName returns an error only if the default name contains a
// slash.
func outputName(pak *brokerpak.Pak, options Options) (string, error) {
	if options.Output != "" {
		return options.Output, nil
	}
	version := pak.Manifest.Version
	if override, ok := options.Getenv(version); ok {
		version = override
	}
	name := pak.Manifest.Name + "-" + version + ".brokerpak"
	if filepath.Base(name) != name {
		return "", fmt.Errorf("%q cannot be a file name; use --output", name)
	}
	return name, nil
}

// writeZip packs the files below the directory dir into a .brokerpak file at the path name, which may also be a stream
// such as a pipe. The same content results in the same bytes: the order of the names and the times are fixed, and modes
// are 0755 or 0644. An existing file is replaced.
//
// The complete archive is first written to a temporary file, which writeZip removes, and the function check, which
// must not be nil, is called with the path of that file. If check returns an error, writeZip returns the error, and
// the output is unchanged. writeZip also returns an error if dir cannot be read, if the output cannot be written, or
// if ctx ends. An existing file is unchanged then too, unless only the last sync of its directory failed; a stream
// may have received a part.
func writeZip(ctx context.Context, dir, name string, check func(file string) error) error {
	output, err := outfile.Resolve(name)
	if err != nil {
		return err
	}
	staged, err := output.Stage(readable, func(to io.Writer) error { return packAll(ctx, dir, to) })
	if err != nil {
		return err
	}
	defer staged.Discard()
	if err := check(staged.Name()); err != nil {
		return err
	}
	return output.Publish(ctx, staged)
}

// readable is the mode of files that all users may read, and executable that of programs that all users may run.
const readable, executable = 0o644, 0o755

// packAll writes a zip archive with all files below dir, but without directories, to target. The names of the entries
// are relative to dir, and their order is that of fs.WalkDir. See packOne for their modes and times. It returns an
// error if a file cannot be read, if target cannot be written, or if ctx ends. The archive in target is incomplete
// then, even if it is a valid zip file.
func packAll(ctx context.Context, dir string, target io.Writer) error {
	writer := zip.NewWriter(target)
	// The default level takes three times as long for OpenTofu, the largest part of a pak, and saves a seventh of the
	// size.
	writer.RegisterCompressor(zip.Deflate, func(to io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(to, flate.BestSpeed)
	})
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error { // sorted by name
		if err != nil || entry.IsDir() {
			return err
		}
		return packOne(ctx, writer, files, name)
	})
	return errors.Join(err, writer.Close())
}

// packOne adds the file with a slash-separated name in files to a zip archive, under the same name. The entry of a file
// that its owner may execute gets mode 0755, and any other entry 0644; the time is always the beginning of 1980.
// packOne returns an error if the file cannot be read, if the archive cannot be written, or if ctx ends.
func packOne(ctx context.Context, writer *zip.Writer, files fs.FS, name string) error {
	source, err := files.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // opened for reading only, so that closing loses no data
	info, err := source.Stat()
	if err != nil {
		return err
	}
	earliest := time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC) // the earliest time that a zip can represent
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: earliest}
	header.SetMode(readable)
	if info.Mode()&0o100 != 0 {
		header.SetMode(executable)
	}
	target, err := writer.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, ctxio.Reader(ctx, source))
	return err
}
