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

// Executables are the binaries of a pak for one platform, as files on the disk that can be executed: the OpenTofu
// binaries by version, as the manifest contains it, the providers, and the directory of all other programs, which is
// "" if the manifest lists none. All paths are absolute. Pak.Executables returns them.
type Executables struct {
	// Tofu maps the versions of the bundled OpenTofu binaries, as they are written in the manifest, to files.
	Tofu map[string]string
	// Providers are the bundled providers.
	Providers []ProviderFile
	// Path is the directory of the other binaries; "" if there are none.
	Path string
}

// A ProviderFile is the file of a provider's executable, as an absolute path, with the full name of the provider, such
// as registry.terraform.io/hashicorp/random, and its version in the form of file names, such as 3.6.0 for 3.6.
type ProviderFile struct {
	FQN     string // HOST/NAMESPACE/TYPE
	Version string
	File    string // absolute path
}

// Executables returns the pak's binaries for a platform, which are the files below bin/OS/ARCH. The binaries of a zip
// are first unpacked into a subdirectory of cacheDir, unless this has already been done for the same content; of
// existing files, only the sizes are checked (see RepairExecutables). cacheDir is created if it does not exist, and
// must be on a file system that allows execution. For a pak that is a directory, cacheDir is not used, and the result
// refers to the files in the pak. The paths in the result are absolute.
//
// Executables returns nil and an error in these cases:
//   - The pak has no directory for the platform.
//   - The binaries cannot be unpacked, or the context is cancelled while they are unpacked.
//   - The path of the binaries cannot be made absolute.
//   - The file of an OpenTofu or a provider in the manifest is missing or ambiguous. The error lists all such files.
//
// The files of other binaries can have any name and are not checked.
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

// checkPlatform returns an error if the pak has no directory bin/OS/ARCH for the platform, and nil if it has, whether
// the manifest lists the platform or not. The text of the error distinguishes a platform that the manifest does not
// list from a listed one, for which the pak has probably not been built.
func (p *Pak) checkPlatform(platform Platform) error {
	dir := path.Join("bin", platform.OS, platform.Arch)
	if info, err := fs.Stat(p.files, dir); err == nil && info.IsDir() {
		return nil
	}
	if !slices.Contains(p.Manifest.Platforms, platform) {
		names := value.Convert(p.Manifest.Platforms, Platform.String)
		list := strings.Join(names, ", ")
		return fmt.Errorf("pak %s has no binaries for %s; its platforms are %s", p.Path, platform, list)
	}
	return fmt.Errorf("pak %s has no binaries for %s: it has no directory %s; "+
		"build the pak with service-adapter pak build", p.Path, platform, dir)
}

// FileVersion returns the version of the binary in the form that file names, download servers and OpenTofu use: "1.6.0"
// if the manifest contains "1.6". It returns the version unchanged for an OtherBinary, and if it is not a valid
// version.
func (b Binary) FileVersion() string {
	parsed, err := version.NewVersion(b.Version)
	if b.Kind() == OtherBinary || err != nil {
		return b.Version
	}
	return parsed.String()
}

// FileName returns the name of the binary's executable file, without a directory: "tofu", or for a provider its name
// and version, such as "terraform-provider-random_v3.6.0", or for an OtherBinary its name. The file in a pak may have a
// longer name; see IsFile.
func (b Binary) FileName() string {
	if b.Kind() == Provider {
		return b.Name + "_v" + b.FileVersion()
	}
	return b.Name
}

// IsFile reports whether a file with this name can be the executable of the binary. The name contains no directory. It
// must be equal to FileName. For a provider, FileName may be followed by ".exe" or by "_" and any text, as in
// terraform-provider-random_v3.6.0_x5; for an OtherBinary, it may be followed by any text.
func (b Binary) IsFile(name string) bool {
	rest, ok := strings.CutPrefix(name, b.FileName())
	return ok && (rest == "" || b.Kind() == OtherBinary || b.Kind() == Provider && (rest[0] == '_' || rest == ".exe"))
}

// Find searches for the binary's executable in the directory dir of files, such as "bin/linux/amd64", and returns its
// path, which begins with dir. Subdirectories are not searched, except that an OpenTofu is first searched for in the
// subdirectories named after its version. Only regular files whose names IsFile accepts are considered, and a directory
// that cannot be read counts as empty. At most one file in a directory matches an OpenTofu, because IsFile requires its
// exact name.
//
// Find returns "" and an error, which contains the expected path, if no file matches. It also returns "" and an error
// if several files match a provider. If several files match an OtherBinary, it returns the first by name.
func (b Binary) Find(files fs.FS, dir string) (string, error) {
	dirs := []string{dir}
	if b.Kind() == Tofu {
		dirs = []string{path.Join(dir, b.Version), path.Join(dir, b.FileVersion()), dir}
	}
	for _, in := range dirs {
		var matches []string
		entries, _ := fs.ReadDir(files, in) // a directory that cannot be read counts as empty
		for _, entry := range entries {
			file := path.Join(in, entry.Name())
			if info, err := fs.Stat(files, file); err == nil && info.Mode().IsRegular() && b.IsFile(entry.Name()) {
				matches = append(matches, file)
			}
		}
		switch {
		case len(matches) > 1 && b.Kind() != OtherBinary:
			return "", fmt.Errorf("several files for %s: %s", b.FileName(), strings.Join(matches, ", "))
		case len(matches) > 0:
			return matches[0], nil
		}
	}
	return "", fmt.Errorf("no file %s", path.Join(dirs[0], b.FileName()))
}

// DefaultVersion returns the version of the OpenTofu that runs the pak's templates, as the manifest contains it: that
// of the first OpenTofu binary that is marked as default, or else that of the only one. It returns "" and an error if
// the manifest lists no OpenTofu, or several without a mark.
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

// HasOtherBinaries reports whether terraform_binaries in the manifest has an entry of the kind OtherBinary, which is
// neither OpenTofu nor a provider.
func (m *Manifest) HasOtherBinaries() bool {
	return slices.ContainsFunc(m.Binaries, func(binary Binary) bool { return binary.Kind() == OtherBinary })
}

// HasExecutable reports whether the pak contains a program for a platform that the processes of OpenTofu find on their
// PATH. name is the file name of the program, such as "curl". The result is true if bin/OS/ARCH/name is a regular file
// and the manifest lists an OtherBinary, without which the directory is not on the PATH. In a pak that is a directory,
// the file must also be executable; the files of a zip become executable when they are unpacked. A file that cannot be
// inspected counts as missing.
func (p *Pak) HasExecutable(platform Platform, name string) bool {
	info, err := fs.Stat(p.files, path.Join("bin", platform.OS, platform.Arch, name))
	return err == nil && info.Mode().IsRegular() && p.Manifest.HasOtherBinaries() &&
		(p.IsZip() || info.Mode()&0o111 != 0)
}

// RepairExecutables compares the binaries that Executables unpacked into cacheDir with the checksums in the zip, for
// which it reads the unpacked files completely. If one of them is damaged, missing or unreadable, it unpacks all
// binaries of the platform again and replaces the directory. It returns false and nil if the binaries are undamaged or
// have not been unpacked, and if the pak is a directory.
//
// repaired is true if the binaries were damaged and RepairExecutables unpacked them again. It is also true if that
// failed; err is the reason, and the directory may have the damaged or the new binaries or be missing (see unpack).
// RepairExecutables returns false and an error, and changes nothing, if the context is cancelled before the comparison
// ends, if the directory of the binaries cannot be inspected, and if another user owns the damaged binaries, because
// that user could not execute the new ones.
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

// binaryFiles are the binaries of one platform in a zip, as the entries of the zip, and the target: the directory into
// which they are unpacked. The files do not have to be unpacked yet.
type binaryFiles struct {
	files  []*zip.File
	target string // named after the content of the files; it has the layout of the pak
}

// zippedBinaries returns the files below bin/OS/ARCH of a zip, without directories and links, and the target directory
// for them, which is cacheDir/paks/HASH. HASH is the result of contentKey for the files. zippedBinaries neither reads
// nor writes the file system, so the target may not exist. The list of files is empty if the zip has none for the
// platform. The pak must be a zip.
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

// unpackBinaries unpacks the binaries of a zip for one platform into a subdirectory of cacheDir, unless all of them
// are already there with the right sizes. It returns that subdirectory, in which the binaries have the same paths as
// in the pak, such as bin/linux/amd64/tofu. Several processes may unpack into the same cacheDir at once. If the zip
// has no binaries for the platform, unpackBinaries does nothing, and the directory may not exist. It returns an error
// if the binaries cannot be unpacked, if a checksum is wrong, or if the context is cancelled; the path that it
// returns with an error must not be used. The pak must be a zip.
func (p *Pak) unpackBinaries(ctx context.Context, platform Platform, cacheDir string) (string, error) {
	binaries := p.zippedBinaries(platform, cacheDir)
	if binaries.check(sameSize) == nil {
		return binaries.target, nil
	}
	return binaries.target, binaries.unpack(ctx, sameSize)
}

// A compareFunc compares an unpacked file with an entry of the zip, whose size or checksum it reads from the zip's
// central directory, not from the content. The parameter name is the path of the unpacked file. A compareFunc returns
// nil if the file is as expected, and errDamaged if it differs. It returns the error of the file system if the unpacked
// file is missing or cannot be read, and possibly the error of a context that ended.
type compareFunc func(file *zip.File, name string) error

// check compares the unpacked copies of all files, which are in the target directory, with the zip. It stops at the
// first one for which compare returns an error, and returns that error. The result is nil if all copies are as
// expected, or if there are no files.
func (p binaryFiles) check(compare compareFunc) error {
	for _, file := range p.files {
		if err := compare(file, p.unpackedPath(p.target, file)); err != nil {
			return err
		}
	}
	return nil
}

// unpackedPath returns the path at which a file of the zip is unpacked below the directory root:
// root/bin/linux/amd64/tofu for an entry of the zip named bin/linux/amd64/tofu. The result is absolute if root is.
func (binaryFiles) unpackedPath(root string, file *zip.File) string {
	return filepath.Join(root, filepath.FromSlash(entryName(file)))
}

// unpack unpacks the files into a temporary directory next to the target, which it then renames to the target. An
// existing target is kept if compare accepts all files in it, because another process was faster. Otherwise the new
// directory replaces it in one step, because other processes may be using the undamaged files. unpack creates the
// parent directory of the target, and removes from it the temporary directories that killed processes left.
//
// unpack returns an error if a file cannot be unpacked, if its checksum is wrong, or if the context is cancelled; the
// target is unchanged then. It also returns an error if a directory cannot be created, written to the disk, renamed or
// replaced; the target is then unchanged or the new directory. On a file system that cannot exchange directories, such
// as NFS, the target is missing for a moment during the replacement, and may be missing after an error; see
// durable.Replace.
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

// sameSize is a compareFunc that compares only the size of the unpacked file at the path name with the size of the
// entry in the zip. It returns nil if they are equal, errDamaged if they differ or if the unpacked file is not a
// regular file, and the error of the file system if the file is missing or cannot be inspected.
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

// sameContent returns a compareFunc that compares the size and the CRC-32 checksum of an unpacked file with those in
// the central directory of the zip. The function reads the whole unpacked file. It returns nil if both are equal,
// errDamaged if one differs or if the file is not a regular file, the error of the file system if the file is missing
// or cannot be read, and an error that wraps the context's if ctx ends.
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

// contentKey returns a hash of 32 hexadecimal digits that identifies the content of files of a zip. It is computed from
// the names, sizes and checksums in the central directory of the zip; the content itself is not read. The order of the
// files does not matter.
func contentKey(files []*zip.File) string {
	lines := value.Convert(files, func(file *zip.File) string {
		return fmt.Sprintf("%s %d %08x", file.Name, file.UncompressedSize64, file.CRC32)
	})
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:16])
}

// unpackFile writes the content of a zip entry to a new file at the path name, which only its owner can read, write and
// execute (mode 0700), and creates the directories above it with the same mode. It returns an error if a directory
// cannot be created, if the file exists or cannot be written, if the entry cannot be read or its checksum is wrong, or
// if the context is cancelled. After an error, an incomplete file may exist.
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
