package brokerpak

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/go-version"

	"service-adapter/internal/ctxio"
	"service-adapter/internal/durable"
	"service-adapter/internal/value"
)

// Executables are the binaries of a pak for one platform, as files that can be executed.
type Executables struct {
	// Tofu maps the versions of the bundled OpenTofu binaries, as they are written in the manifest, to files.
	Tofu map[string]string
	// Providers are the bundled providers.
	Providers []ProviderFile
	// Path is the directory of the other binaries; "" if there are none.
	Path string
}

// A ProviderFile is the executable of a provider. Version has the form of Binary.FileVersion.
type ProviderFile struct {
	FQN     string // HOST/NAMESPACE/TYPE
	Version string
	File    string // absolute path
}

// Executables returns the pak's binaries below bin/OS/ARCH. The binaries of a zip are unpacked into a directory in
// cacheDir, unless this has already been done for the same content; of existing files, only the sizes are checked (see
// RepairExecutables). cacheDir is created if it does not exist, must be on a file system that allows execution, and is
// not used for a pak that is a directory. The paths in the result are absolute.
//
// Executables returns an error if the context is cancelled while binaries are unpacked, if they cannot be unpacked, if
// the pak has no binaries for the platform, or if the file of an OpenTofu or a provider in the manifest is missing or
// ambiguous; the error names all of these. The files of other binaries can have any name and are not checked.
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
	unpacked := &Executables{Tofu: map[string]string{}}
	var failed []error
	for _, binary := range p.Manifest.Binaries {
		if binary.Kind() == OtherBinary { // its files can have any name
			unpacked.Path = filepath.Join(root, dir)
			continue
		}
		file, err := binary.Find(os.DirFS(root), dir)
		switch file = filepath.Join(root, file); {
		case err != nil:
			failed = append(failed, fmt.Errorf("%s %s: %w", binary.Name, binary.Version, err))
		case binary.Kind() == Tofu:
			unpacked.Tofu[binary.Version] = file
		default:
			provider := ProviderFile{FQN: binary.ProviderFQN, Version: binary.FileVersion(), File: file}
			unpacked.Providers = append(unpacked.Providers, provider)
		}
	}
	if err := errors.Join(failed...); err != nil {
		return nil, fmt.Errorf("pak %s lacks binaries for %s: %w", p.Path, platform, err)
	}
	return unpacked, nil
}

// checkPlatform returns an error if the pak has no directory bin/OS/ARCH for a platform. The error distinguishes a
// platform that the manifest does not list from a pak that has not been built.
func (p *Pak) checkPlatform(platform Platform) error {
	dir := path.Join("bin", platform.OS, platform.Arch)
	if info, err := fs.Stat(p.files, dir); err == nil && info.IsDir() {
		return nil
	}
	if !slices.Contains(p.Manifest.Platforms, platform) {
		names := value.Convert(p.Manifest.Platforms, Platform.String)
		list := strings.Join(names, ", ")
		return fmt.Errorf("pak %s has no binaries for %s; it is made for %s", p.Path, platform, list)
	}
	return fmt.Errorf("pak %s has no binaries for %s: there is no directory %s in it; was it built?", p.Path, platform,
		dir)
}

// FileVersion returns the version as it is written in file names, by download servers and by OpenTofu: 1.6.0 for 1.6.
// The version of an OtherBinary, and a text that is not a version, are returned unchanged.
func (b Binary) FileVersion() string {
	parsed, err := version.NewVersion(b.Version)
	if b.Kind() == OtherBinary || err != nil {
		return b.Version
	}
	return parsed.String()
}

// FileName returns the name of the binary's file. The file of a provider may have a suffix such as "_x5" in addition;
// that of another binary may have any suffix.
func (b Binary) FileName() string {
	if b.Kind() == Provider {
		return b.Name + "_v" + b.FileVersion()
	}
	return b.Name
}

// IsFile reports whether a file with this name can be the executable of the binary: the name must be FileName, for a
// provider also followed by ".exe" or by "_" and any text, and for an OtherBinary followed by any text. The name
// contains no directory.
func (b Binary) IsFile(name string) bool {
	rest, ok := strings.CutPrefix(name, b.FileName())
	return ok && (rest == "" || b.Kind() == OtherBinary || b.Kind() == Provider && (rest[0] == '_' || rest == ".exe"))
}

// Find returns the path of the binary's executable in files, whose directory dir is that of a platform. An OpenTofu is
// searched in a subdirectory that is named after its version first. Only regular files are considered. Find returns an
// error, which names the expected path, if the file does not exist, and an error if several files match a provider. If
// several files match an OtherBinary, it returns the first by name.
func (b Binary) Find(files fs.FS, dir string) (string, error) {
	dirs := []string{dir}
	if b.Kind() == Tofu {
		dirs = []string{path.Join(dir, b.Version), path.Join(dir, b.FileVersion()), dir}
	}
	for _, in := range dirs {
		var found []string
		entries, _ := fs.ReadDir(files, in) // a directory that cannot be read counts as empty
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

// DefaultVersion returns the version of the OpenTofu that runs the pak's templates: the binary that is marked as
// default, or else the only one. It returns an error if the pak bundles no OpenTofu, or several without a mark.
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
		return "", fmt.Errorf("pak %s bundles no default OpenTofu: terraform_binaries needs an entry named tofu",
			m.Name)
	}
	return versions[0], nil
}

// HasOtherBinaries reports whether the manifest lists executables that are neither OpenTofu nor providers.
func (m *Manifest) HasOtherBinaries() bool {
	return slices.ContainsFunc(m.Binaries, func(binary Binary) bool { return binary.Kind() == OtherBinary })
}

// HasExecutable reports whether the processes of OpenTofu find a program with this name among the other binaries of the
// pak for a platform. A file of a directory must be executable; those of a zip become executable when they are
// unpacked. It is false if the manifest lists no other binaries.
func (p *Pak) HasExecutable(platform Platform, name string) bool {
	info, err := fs.Stat(p.files, path.Join("bin", platform.OS, platform.Arch, name))
	return err == nil && info.Mode().IsRegular() && p.Manifest.HasOtherBinaries() &&
		(p.IsZip() || info.Mode()&0o111 != 0)
}

// RepairExecutables compares the binaries that Executables unpacked into cacheDir with the checksums of the zip, which
// reads them completely, and unpacks them again if one is damaged, missing or unreadable. It does nothing for a pak
// that is a directory, and if the binaries have not been unpacked. The result repaired is true if the binaries were
// damaged and were unpacked again; it is also true if unpacking them failed, which is an error. RepairExecutables also
// returns an error if the context is cancelled, if the directory of the binaries cannot be inspected, and if another
// user owns the damaged binaries, because that user could not execute the new ones.
func (p *Pak) RepairExecutables(ctx context.Context, platform Platform, cacheDir string) (repaired bool, err error) {
	if !p.IsZip() {
		return false, nil
	}
	binaries := p.zippedBinaries(platform, cacheDir)
	info, err := os.Stat(binaries.target)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || binaries.check(sameContent(ctx)) == nil || ctx.Err() != nil {
		return false, errors.Join(err, ctx.Err())
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return false, fmt.Errorf("the binaries in %s are damaged: remove the directory, or repeat the command as "+
			"its owner, user %d",
			binaries.target, stat.Uid)
	}
	return true, binaries.unpack(ctx, sameContent(ctx))
}

// binaryFiles are binaries in a zip, and the directory into which they are unpacked.
type binaryFiles struct {
	files  []*zip.File
	target string // named after the content of the files; it has the layout of the pak
}

// zippedBinaries returns the entries below bin/OS/ARCH of the zip, without directories and links, and the directory
// below cacheDir for them, whose name is a hash of the entries. It neither reads nor writes the file system, so the
// directory may not exist. The pak must be a zip.
func (p *Pak) zippedBinaries(platform Platform, cacheDir string) binaryFiles {
	prefix := path.Join("bin", platform.OS, platform.Arch) + "/"
	var files []*zip.File
	for _, file := range p.archive.File {
		if strings.HasPrefix(entryName(file), prefix) && file.Mode().IsRegular() {
			files = append(files, file)
		}
	}
	return binaryFiles{files: files, target: filepath.Join(cacheDir, "paks", contentKey(files))}
}

// unpackBinaries unpacks the binaries of the zip, unless files of the same sizes have already been unpacked. It returns
// the directory below which the binaries have the same paths as in the pak. The error is that of unpack; the directory
// must not be used then. The pak must be a zip.
func (p *Pak) unpackBinaries(ctx context.Context, platform Platform, cacheDir string) (string, error) {
	binaries := p.zippedBinaries(platform, cacheDir)
	if binaries.check(sameSize) == nil {
		return binaries.target, nil
	}
	return binaries.target, binaries.unpack(ctx, sameSize)
}

// A compareFunc compares an unpacked file of the given name with the entry of the file in the index of the zip. It does
// not read the content in the zip. It returns nil if they are equal, errDamaged if they differ, the error of the file
// system if the unpacked file is missing or cannot be read, and possibly the error of a context.
type compareFunc func(file *zip.File, name string) error

// check compares all files with their unpacked copies. It returns the error of compare for the first one that differs,
// and nil if none does.
func (p binaryFiles) check(compare compareFunc) error {
	for _, file := range p.files {
		if err := compare(file, p.unpackedPath(p.target, file)); err != nil {
			return err
		}
	}
	return nil
}

// unpackedPath returns the path of a file of the zip below the directory root.
func (binaryFiles) unpackedPath(root string, file *zip.File) string {
	return filepath.Join(root, filepath.FromSlash(entryName(file)))
}

// unpack unpacks the files into a new directory, which then becomes the target. An existing target is kept if compare
// accepts its files, as it does if another process was faster; otherwise the new directory replaces it in one step,
// because other processes may be using the undamaged files. unpack also removes what killed processes left of their
// attempts. It returns an error, and leaves the target unchanged, if a file cannot be unpacked, if its checksum is
// wrong, or if the context is cancelled. It also returns an error if a directory cannot be created or renamed.
func (p binaryFiles) unpack(ctx context.Context, compare compareFunc) error {
	parent := filepath.Dir(p.target)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	temporary, remove, err := durable.TempDir(parent, ".unpack-")
	if err != nil {
		return err
	}
	defer func() { _ = remove() }() // a directory that stays is removed by the next call
	for _, file := range p.files {
		if err := unpackFile(ctx, file, p.unpackedPath(temporary, file)); err != nil {
			return fmt.Errorf("unpacking %s: %w", file.Name, err)
		}
	}
	err = durable.Rename(temporary, p.target)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if p.check(compare) == nil {
		return nil
	}
	return durable.Replace(temporary, p.target)
}

// errDamaged means that an unpacked file differs from the zip.
var errDamaged = errors.New("it differs from the zip")

// sameSize is a compareFunc that compares only the size of an unpacked file with the zip's index. It returns errDamaged
// if the sizes differ or if the unpacked file is not a regular file, and the error of the file system if the file is
// missing.
func sameSize(file *zip.File, name string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	size := uint64(info.Size()) //nolint:gosec // not negative
	if !info.Mode().IsRegular() || size != file.UncompressedSize64 {
		return errDamaged
	}
	return nil
}

// sameContent returns a compareFunc that compares the size and the checksum of an unpacked file with the zip's index.
// The function reads the whole file. It returns errDamaged if they differ, the error of the file system if the file
// cannot be read, and the context's error if that is cancelled.
func sameContent(ctx context.Context) compareFunc {
	return func(file *zip.File, name string) (err error) {
		if err := sameSize(file, name); err != nil {
			return err
		}
		unpacked, err := os.Open(name) //nolint:gosec // in the cache directory
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, unpacked.Close()) }()
		sum := crc32.NewIEEE()
		if _, err := io.Copy(sum, ctxio.Reader(ctx, unpacked)); err != nil {
			return err
		}
		if sum.Sum32() != file.CRC32 {
			return errDamaged
		}
		return nil
	}
}

// contentKey returns a hash of the names, sizes and checksums in the central directory of the zip, which identifies the
// content of the files. The order of the files does not matter. The content itself is not read.
func contentKey(files []*zip.File) string {
	lines := value.Convert(files, func(file *zip.File) string {
		return fmt.Sprintf("%s %d %08x", file.Name, file.UncompressedSize64, file.CRC32)
	})
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

// unpackFile writes a file of the zip to a new file with the given name, which only its owner can read and execute, and
// creates the directories above it. It returns an error if the file exists, if it cannot be written, if the checksum of
// the zip is wrong, or if the context is cancelled. After an error, an incomplete file may exist.
func unpackFile(ctx context.Context, file *zip.File, name string) (err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	source, err := file.Open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	const flags = os.O_CREATE | os.O_EXCL | os.O_WRONLY
	target, err := os.OpenFile(name, flags, 0o700) //nolint:gosec // an executable, for this user alone
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	// The reader ends after the size in the index, and there it verifies the checksum: it must be read to its end.
	_, err = io.Copy(target, ctxio.Reader(ctx, source)) //nolint:gosec // bounded by checkEntries
	return err
}
