// Package pakbuild makes brokerpaks: a new one from a skeleton, the .brokerpak file from an author's directory with all its
// binaries, and a directory from a .brokerpak file.
//
// It has a small fetcher of its own, for http, https, files, zip and tar. What it fetches and unpacks is taken for hostile.
package pakbuild

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
	"service-adapter/internal/ctxio"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// manifestName is the file every pak has in its root.
const manifestName = "manifest.yml"

// Options say what to build and how.
type Options struct {
	// Dir is the author's directory.
	Dir string
	// Output is the file to write; "" is <name>-<version>.brokerpak in the working directory.
	Output string
	// Unpacked makes Output a directory with what the file would hold, which takes less time; it must not exist.
	Unpacked bool
	// Platform replaces the platforms of the manifest; nil builds for all of them.
	Platform *brokerpak.Platform
	// IncludeSource adds the source code that terraform_binaries name.
	IncludeSource bool
	// CacheDir keeps downloads for the next build; "" keeps none.
	CacheDir string
	// Binaries say where an entry of terraform_binaries comes from, by its name, instead of the manifest: like url_template,
	// but relative to the working directory. A plain file is taken for the executable, whatever its name.
	Binaries map[string]string
	// Getenv looks up the environment: where it has a variable named as the manifest's version, the file is named by its value.
	Getenv func(name string) (string, bool)
	// Progress gets one line for each download.
	Progress io.Writer
	// Client makes the requests; nil is an ordinary client.
	Client *http.Client
	// Pause waits between attempts; nil is the clock.
	Pause func(ctx context.Context, duration time.Duration) error
	// MaxBinary bounds downloads, and what one archive unpacks to, in bytes; 0 is 4 GB.
	MaxBinary int64
}

// ParsePlatform reads "linux/amd64", or "current".
func ParsePlatform(text string) (brokerpak.Platform, error) {
	if text == "current" {
		return brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, nil
	}
	os, arch, ok := strings.Cut(text, "/")
	if !ok || os == "" || arch == "" {
		return brokerpak.Platform{}, fmt.Errorf("platform %q must have the form OS/ARCH, such as linux/amd64, or be \"current\"", text)
	}
	return brokerpak.Platform{OS: os, Arch: arch}, nil
}

// Build writes a .brokerpak file and returns its path. The error is a diag.Errors where the author has to mend something.
// Without an error the file opens, has every binary for every platform, and describes the same services as the directory.
func Build(ctx context.Context, options Options) (string, error) {
	pak, err := brokerpak.Open(options.Dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = pak.Close() }() // opened for reading: closing cannot lose anything
	if pak.IsZip() {
		return "", fmt.Errorf("%s is built already; name the directory of its source", options.Dir)
	}
	for _, name := range value.Keys(options.Binaries) {
		if !slices.ContainsFunc(pak.Manifest.Binaries, func(entry brokerpak.Binary) bool { return entry.Name == name }) {
			return "", fmt.Errorf("terraform_binaries of %s has no entry named %q", pak.Display(manifestName), name)
		}
	}
	output, err := outputName(pak, options)
	if err != nil {
		return "", err
	}
	b := &builder{Options: options, pak: pak, platforms: pak.Manifest.Platforms, owners: map[string]string{}, diags: &diag.List{}}
	if options.Platform != nil {
		b.platforms = []brokerpak.Platform{*options.Platform}
	}
	place := ""
	if options.Unpacked {
		place = filepath.Dir(output) // from where it can be moved
	}
	dir, err := os.MkdirTemp(place, "pak-build-")
	if err != nil {
		return "", fmt.Errorf("making a directory for the build: %w", err)
	}
	b.Client, b.MaxBinary = cmp.Or(b.Client, newClient()), cmp.Or(b.MaxBinary, maxBinary)
	b.CacheDir, b.stage = cmp.Or(b.CacheDir, filepath.Join(dir, "downloads")), filepath.Join(dir, "pak")
	if b.Pause == nil {
		b.Pause = pause
	}
	if err := errors.Join(b.build(ctx, output), os.RemoveAll(dir)); err != nil {
		return "", err
	}
	return output, nil
}

// builder is the work on one pak, with all options.
type builder struct {
	Options

	pak       *brokerpak.Pak
	platforms []brokerpak.Platform
	stage     string            // the directory that becomes the zip
	owners    map[string]string // path of an executable below the stage → the entry it belongs to
	diags     *diag.List
}

// say tells of progress; there may be nobody to tell.
func (b *builder) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.Progress, format+"\n", args...)
}

func (b *builder) build(ctx context.Context, output string) error {
	if err := writeTexts(b.pak, b.platforms, b.stage); err != nil {
		return err
	}
	staged, err := brokerpak.Open(b.stage) // before anything is downloaded
	if err != nil {
		return unusable(err, b.stage)
	}
	if err := os.MkdirAll(b.CacheDir, 0o700); err != nil {
		return fmt.Errorf("making the directory for downloads: %w", err)
	}
	if err := b.binaries(ctx); err != nil {
		return err
	}
	if b.IncludeSource {
		if err := b.sources(ctx); err != nil {
			return err
		}
	}
	if err := b.diags.Err(); err != nil {
		return err
	}
	for _, platform := range b.platforms { // what the adapter will do
		if _, err := staged.Executables(ctx, platform, ""); err != nil {
			return unusable(err, b.stage)
		}
	}
	if b.Unpacked {
		return os.Rename(b.stage, output)
	}
	return writeZip(ctx, b.stage, output, func(file string) error {
		built, err := brokerpak.Open(file)
		if err != nil {
			return unusable(err, file)
		}
		b.say("%s: %s", output, fileSize(file))
		return built.Close()
	})
}

// unusable is the error of reading what was built, which is in a temporary place: findings name the files of the pak.
func unusable(err error, place string) error {
	var found diag.Errors
	if errors.As(err, &found) {
		found = slices.Clone(found)
		for i := range found {
			found[i].Pos.File = strings.TrimLeft(strings.TrimPrefix(found[i].Pos.File, place), "!/")
		}
		err = found
	}
	return fmt.Errorf("the built pak is not usable: %w", err)
}

// outputName is the path of the file to write.
func outputName(pak *brokerpak.Pak, options Options) (string, error) {
	if options.Output != "" {
		return options.Output, nil
	}
	version := pak.Manifest.Version
	if found, ok := options.Getenv(version); ok {
		version = found
	}
	name := pak.Manifest.Name + "-" + version + ".brokerpak"
	if filepath.Base(name) != name {
		return "", fmt.Errorf("%q can be no file name; use --output", name)
	}
	return name, nil
}

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
