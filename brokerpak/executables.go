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
	dir := filepath.Join(root, "bin", platform.OS, platform.Arch)
	found := &Executables{Tofu: map[string]string{}}
	var failed []error
	for _, binary := range p.Manifest.Binaries {
		failed = append(failed, found.add(dir, binary))
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
		names := make([]string, len(p.Manifest.Platforms))
		for i, known := range p.Manifest.Platforms {
			names[i] = known.String()
		}
		return fmt.Errorf("pak %s has no binaries for %s; it is made for %s", p.Path, platform, strings.Join(names, ", "))
	}
	return fmt.Errorf("pak %s has no binaries for %s: there is no directory %s in it; was it built?", p.Path, platform, dir)
}

func (e *Executables) add(dir string, binary Binary) error {
	switch binary.Kind() {
	case Tofu:
		for _, sub := range []string{binary.Version, normalVersion(binary.Version), ""} {
			if file := filepath.Join(dir, sub, "tofu"); isFile(file) {
				e.Tofu[binary.Version] = file
				return nil
			}
		}
		return fmt.Errorf("tofu %s: no file %s", binary.Version, filepath.Join(dir, binary.Version, "tofu"))
	case Provider:
		file, err := oneFile(dir, binary.Name+"_v"+normalVersion(binary.Version))
		if err != nil {
			return err
		}
		e.Providers = append(e.Providers, ProviderFile{FQN: binary.ProviderFQN, Version: normalVersion(binary.Version), File: file})
		return nil
	default:
		e.Path = dir // its archive decides how the files are called
		return nil
	}
}

// normalVersion writes a version as file names and OpenTofu do: 1.6 is 1.6.0.
func normalVersion(text string) string {
	parsed, err := version.NewVersion(text)
	if err != nil {
		return text
	}
	return parsed.String()
}

// oneFile finds the file of a name, which may carry a suffix such as "_x5" or ".exe" but no further version digits.
func oneFile(dir, name string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	var found []string
	for _, entry := range entries {
		rest, ok := strings.CutPrefix(entry.Name(), name)
		if ok && isFile(filepath.Join(dir, entry.Name())) && (rest == "" || rest[0] == '_' || rest == ".exe") {
			found = append(found, filepath.Join(dir, entry.Name()))
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", fmt.Errorf("no file %s", filepath.Join(dir, name))
	default:
		return "", fmt.Errorf("several files for %s: %s", name, strings.Join(found, ", "))
	}
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// DefaultVersion is the version of OpenTofu that runs the pak's templates.
func (m *Manifest) DefaultVersion() (string, error) {
	tofu, ok := m.DefaultTofu()
	if !ok {
		return "", fmt.Errorf("pak %s bundles no default OpenTofu: terraform_binaries needs an entry named tofu", m.Name)
	}
	return tofu.Version, nil
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
	if info, err := os.Stat(target); err == nil && info.IsDir() {
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
	if err := os.Rename(temporary, target); err != nil {
		// Another process was faster: what it unpacked is the same.
		if errors.Is(err, fs.ErrExist) || isDir(target) {
			return target, nil
		}
		return "", err
	}
	return target, nil
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// contentKey identifies the files by the zip's index: names, sizes and checksums.
func contentKey(files []*zip.File) string {
	lines := make([]string, len(files))
	for i, file := range files {
		lines[i] = fmt.Sprintf("%s %d %08x", file.Name, file.UncompressedSize64, file.CRC32)
	}
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
