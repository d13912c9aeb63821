package brokerpak

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-version"

	"service-adapter/internal/ctxio"
	"service-adapter/internal/value"
)

// Executables are the binaries of a pak for one platform, as files that can be executed.
type Executables struct {
	// Tofu maps the bundled versions of OpenTofu, as the manifest writes them, to files.
	Tofu map[string]string
	// Providers are the bundled providers.
	Providers []ProviderFile
	// Path is the directory of the other binaries; "" when there are none.
	Path string
}

// ProviderFile is a provider's executable.
type ProviderFile struct {
	FQN     string // host/namespace/type
	Version string
	File    string // absolute path
}

// Executables finds the pak's binaries below bin/OS/ARCH. Those of a zip are unpacked into a directory of cacheDir, once for
// each content; cacheDir must allow execution. The error names all binaries that are missing.
func (p *Pak) Executables(ctx context.Context, platform Platform, cacheDir string) (*Executables, error) {
	if err := p.checkPlatform(platform); err != nil {
		return nil, err
	}
	root := p.Path
	if p.IsZip() {
		var err error
		if root, err = p.unpackBinaries(ctx, platform, cacheDir); err != nil {
			return nil, fmt.Errorf("unpacking the binaries of pak %s: %w", p.Path, err)
		}
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("finding the binaries of pak %s: %w", p.Path, err)
	}
	dir := path.Join("bin", platform.OS, platform.Arch)
	found := &Executables{Tofu: map[string]string{}}
	var failed []error
	for _, binary := range p.Manifest.Binaries {
		if binary.Kind() == OtherBinary { // its archive decides how the files are called
			found.Path = filepath.Join(root, dir)
			continue
		}
		file, err := binary.Find(os.DirFS(root), dir)
		switch file = filepath.Join(root, file); {
		case err != nil:
			failed = append(failed, fmt.Errorf("%s %s: %w", binary.Name, binary.Version, err))
		case binary.Kind() == Tofu:
			found.Tofu[binary.Version] = file
		default:
			found.Providers = append(found.Providers, ProviderFile{FQN: binary.ProviderFQN, Version: binary.FileVersion(), File: file})
		}
	}
	if err := errors.Join(failed...); err != nil {
		return nil, fmt.Errorf("pak %s lacks binaries for %s: %w", p.Path, platform, err)
	}
	return found, nil
}

// checkPlatform tells what is wrong when the pak has no binaries for a platform at all.
func (p *Pak) checkPlatform(platform Platform) error {
	dir := path.Join("bin", platform.OS, platform.Arch)
	if info, err := fs.Stat(p.files, dir); err == nil && info.IsDir() {
		return nil
	}
	if !slices.Contains(p.Manifest.Platforms, platform) {
		names := value.Each(p.Manifest.Platforms, Platform.String)
		return fmt.Errorf("pak %s has no binaries for %s; it is made for %s", p.Path, platform, strings.Join(names, ", "))
	}
	return fmt.Errorf("pak %s has no binaries for %s: there is no directory %s in it; was it built?", p.Path, platform, dir)
}

// FileVersion is the version as file names, download servers and OpenTofu write it: 1.6 is 1.6.0. Versions of other binaries are free.
func (b Binary) FileVersion() string {
	parsed, err := version.NewVersion(b.Version)
	if b.Kind() == OtherBinary || err != nil {
		return b.Version
	}
	return parsed.String()
}

// FileName is how the file of a binary is called. That of a provider may have a suffix such as "_x5", that of another binary any.
func (b Binary) FileName() string {
	if b.Kind() == Provider {
		return b.Name + "_v" + b.FileVersion()
	}
	return b.Name
}

// IsFile tells whether a file of this name is the executable of the binary.
func (b Binary) IsFile(name string) bool {
	rest, ok := strings.CutPrefix(name, b.FileName())
	return ok && (rest == "" || b.Kind() == OtherBinary || b.Kind() == Provider && (rest[0] == '_' || rest == ".exe"))
}

// Find returns the path of the binary's executable in the directory of a platform, of several of another binary the first. The error
// says where it should be.
func (b Binary) Find(files fs.FS, dir string) (string, error) {
	dirs := []string{dir}
	if b.Kind() == Tofu {
		dirs = []string{path.Join(dir, b.Version), path.Join(dir, b.FileVersion()), dir}
	}
	for _, in := range dirs {
		var found []string
		entries, _ := fs.ReadDir(files, in) // what cannot be read has no file
		for _, entry := range entries {
			file := path.Join(in, entry.Name())
			if info, err := fs.Stat(files, file); err == nil && info.Mode().IsRegular() && b.IsFile(entry.Name()) {
				found = append(found, file)
			}
		}
		switch {
		case len(found) > 1 && b.Kind() != OtherBinary:
			return "", fmt.Errorf("several files for %s: %s", b.FileName(), strings.Join(found, ", "))
		case len(found) > 0:
			return found[0], nil
		}
	}
	return "", fmt.Errorf("no file %s", path.Join(dirs[0], b.FileName()))
}

// DefaultVersion is the version of the OpenTofu that runs the pak's templates: the one marked as default, or the only one.
func (m *Manifest) DefaultVersion() (string, error) {
	var versions []string
	for _, binary := range m.Binaries {
		if binary.Kind() == Tofu {
			if binary.Default {
				return binary.Version, nil
			}
			versions = append(versions, binary.Version)
		}
	}
	if len(versions) != 1 {
		return "", fmt.Errorf("pak %s bundles no default OpenTofu: terraform_binaries needs an entry named tofu", m.Name)
	}
	return versions[0], nil
}

// unpackBinaries unpacks bin/OS/ARCH of the zip and returns the directory that stands for the pak's root.
func (p *Pak) unpackBinaries(ctx context.Context, platform Platform, cacheDir string) (string, error) {
	prefix := path.Join("bin", platform.OS, platform.Arch) + "/"
	var wanted []*zip.File
	for _, file := range p.archive.File {
		if strings.HasPrefix(entryName(file), prefix) && file.Mode().IsRegular() { // no directories and links
			wanted = append(wanted, file)
		}
	}
	target := filepath.Join(cacheDir, "paks", contentKey(wanted))
	if isDir(target) {
		return target, nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return "", err
	}
	temporary, err := os.MkdirTemp(filepath.Dir(target), ".unpack-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temporary) }() // gone already after the rename
	for _, file := range wanted {
		if err := unpackFile(ctx, file, temporary); err != nil {
			return "", fmt.Errorf("unpacking %s: %w", file.Name, err)
		}
	}
	if err := os.Rename(temporary, target); err != nil && !isDir(target) {
		return "", err
	}
	return target, nil // also where another process was faster: what it unpacked is the same
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// contentKey identifies the files by the zip's index: names, sizes and checksums.
func contentKey(files []*zip.File) string {
	lines := value.Each(files, func(file *zip.File) string {
		return fmt.Sprintf("%s %d %08x", file.Name, file.UncompressedSize64, file.CRC32)
	})
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

func unpackFile(ctx context.Context, file *zip.File, root string) (err error) {
	name := filepath.Join(root, filepath.FromSlash(entryName(file)))
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	source, err := file.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	target, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o700) //nolint:gosec // executables, for us alone
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	// The reader ends after the size in the index, and there it verifies the checksum: it must be read to its end.
	_, err = io.Copy(target, ctxio.Reader(ctx, source)) //nolint:gosec // bounded by checkEntries
	return err
}
