package build

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/bill"
)

// maxBinary is the default of Options.MaxBinary. The largest providers have some hundred megabytes, and programs that
// read paks accept no larger files.
const maxBinary = 4 << 30

// binaries fetches every entry of terraform_binaries for every platform of the build, by a download or from a local
// file, and unpacks it below bin/OS/ARCH of the stage directory. A finding, which is an error that the author of the
// pak must correct, is added to b.diags and does not end the loop, so that one build reports all of them. binaries
// returns nil if all errors are findings, and otherwise the first error that is not; see binary.
func (b *builder) binaries(ctx context.Context) error {
	for _, platform := range b.platforms {
		for _, entry := range b.pak.Manifest.Binaries {
			if err := b.collect(entry, platform.String(), b.binary(ctx, entry, platform)); err != nil {
				return err
			}
		}
	}
	return nil
}

// A finding is an error that the author of the pak must correct, with the rule that it violates, such as "checksum".
// The build reports it at the position of the entry in the manifest, and continues in order to report others. Any other
// error, such as a server that does not respond, ends the build. Functions return it as *finding, which
// wraps the embedded error.
type finding struct {
	rule string // such as "checksum"
	error
}

// Unwrap returns the embedded error.
func (f *finding) Unwrap() error { return f.error }

// findingf returns a new *finding, which is never nil, with a rule such as "checksum" and a message that is formatted
// as by fmt.Errorf. The finding wraps the error that %w formats.
func findingf(rule, format string, args ...any) error {
	return &finding{rule, fmt.Errorf(format, args...)}
}

// collect adds an error that is or wraps a *finding to b.diags, at the position of the entry in the manifest, and
// returns nil. It also returns nil for nil. It returns any other error wrapped, with the name and version of the entry
// and with where in its text. where is the platform, such as "linux/amd64", or "src" for source code; the message of a
// finding contains both as well.
func (b *builder) collect(entry brokerpak.Binary, where string, err error) error {
	var f *finding
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		b.diags.Errorf(entry.Pos, f.rule, "%s for %s: %s", label(entry), where, err)
		return nil
	default:
		return fmt.Errorf("%s for %s: %w", label(entry), where, err)
	}
}

// label returns the name and the version of an entry, such as "tofu 1.9.0", which identify the entry in messages.
func label(entry brokerpak.Binary) string { return entry.Name + " " + entry.Version }

// locate returns the location of an entry of terraform_binaries for a platform, from where it will be fetched. The
// location is the first of these that is set:
//   - the URL or path in Options.Binaries
//   - the url_template of the entry
//   - the path that Options.Installed returns, if the platform is that of this machine; it is not set if
//     Options.Installed is nil or returns ""
//   - the default URL, on github.com for OpenTofu and on releases.hashicorp.com for every other entry
//
// Parameters such as ${os} are replaced in all of them; see expand. A relative path in url_template is relative to the
// pak or, if no such file exists there, to the working directory. Any other relative path is relative to the working
// directory. ctx is only passed to Options.Installed.
//
// A location of Options.Binaries or Options.Installed has the name of the entry's executable, whatever the name of its
// file, and the origin of a local file is its name without the directory. Such a location is not compared with b.lock.
// If b.lock is set, which it is not while a lock is written, any other location gets the digest of the lock as its
// checksum, unless it has a checksum.
//
// locate returns a finding if the location is invalid, if a local file does not exist or is not a regular file, or if
// b.lock lacks the entry or contradicts its checksum, and another error if the file system fails.
func (b *builder) locate(
	ctx context.Context, entry brokerpak.Binary, platform brokerpak.Platform,
) (location, error) {
	template, dirs := entry.URLTemplate, []string{b.pak.Path, "."}
	override, overridden := b.Binaries[entry.Name]
	if !overridden && template == "" && b.Installed != nil && platform.OS == runtime.GOOS &&
		platform.Arch == runtime.GOARCH {
		override = b.Installed(ctx, entry)
		overridden = override != ""
	}
	if overridden {
		template, dirs = override, []string{"."}
	}
	if template == "" {
		template = providerURL
		if entry.Kind() == brokerpak.Tofu {
			template = tofuURL
		}
	}
	text, err := expand(template, entry, platform)
	if err != nil {
		return location{}, err
	}
	from, err := parseLocation(text, dirs...)
	if err != nil {
		return location{}, err
	}
	if !overridden {
		return b.pin(from, entry, platform.String())
	}
	from.name = entry.FileName() // a file that is not an archive is the executable
	if from.url == nil {
		from.origin = bill.PublicReference(filepath.Base(from.path)) // its directory is that of one machine
	}
	return from, nil
}

// binary fetches one entry for a platform, notes the file in b.fetched (see record), unpacks it in a temporary
// directory below the stage directory, and moves its files into bin/OS/ARCH of the stage directory, with its
// executables recorded in b.executables; see install. The temporary directory is removed, also after an error.
//
// It returns the findings of locate, fetch, unpack and install, for example for a local file that does not exist, a
// location that the lock of the source lacks or contradicts, a status such as 404, a wrong checksum, or an archive that
// is not acceptable. It also returns a finding if the archive does not contain the executable or, for OpenTofu and
// providers, contains several. Other errors are that a download fails, whose message then also names the option
// --binary, that a file cannot be read or written, and that ctx ends. After an error of install, the stage directory
// may contain some of the files.
func (b *builder) binary(ctx context.Context, entry brokerpak.Binary, platform brokerpak.Platform) (err error) {
	from, err := b.locate(ctx, entry, platform)
	if err != nil {
		return err
	}
	file, err := b.fetch(ctx, label(entry)+" "+platform.String(), from)
	if err != nil && from.url != nil && !errors.As(err, new(*finding)) {
		return fmt.Errorf("%w; --binary %s=FILE reads it from a file", err, entry.Name)
	}
	if err != nil {
		return err
	}
	owner := bill.Executable{Entry: entry, Platform: platform}
	if owner.Origin, err = b.record(ctx, from, file, entry, platform.String()); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.stage, ".unpack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	content, err := newTree(dir, b.MaxBinary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.close()) }()
	if err := unpack(ctx, from.name, file, from.plain, content); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	executables := executables(entry, content)
	if len(executables) != 1 && (entry.Kind() != brokerpak.OtherBinary || len(executables) == 0) {
		return findingf("binary-name", "%s must contain exactly one file named %s; it contains: %s",
			from, entry.FileName(), summarize(content.names()))
	}
	return b.install(owner, dir, content, executables)
}

// executables returns the sorted names of those files in the root of content that can be the executable of the entry:
// "tofu" for OpenTofu, names such as "terraform-provider-x_v1.0.0" or "terraform-provider-x_v1.0.0_x5" for a provider,
// and all names that begin with the name of any other entry; see Binary.IsFile. The result is empty if there are none.
func executables(entry brokerpak.Binary, content *tree) []string {
	return slices.DeleteFunc(content.names(), func(name string) bool {
		return strings.Contains(name, "/") || !entry.IsFile(name)
	})
}

// summarize returns a list of names for a message, separated by commas. Of more than ten names it shows ten and the
// number of the others: "a, b and 3 more". For an empty list it returns "nothing".
func summarize(names []string) string {
	const maxNames = 10
	if len(names) == 0 {
		return "nothing"
	}
	if len(names) > maxNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return strings.Join(names, ", ")
}

// install moves the files of an entry, which are in the directory unpacked, to bin/OS/ARCH of the stage directory, or
// to bin/OS/ARCH/VERSION for OpenTofu. owner describes the entry and the platform. content contains the names and modes
// of the files; the moved files get these modes, whatever the umask. executables are the names of those that are the
// entry's executables; install sets their mode to 0755 in content, and records owner for each of them in b.executables,
// unless the path has an owner already.
//
// A file such as LICENSE replaces that of an earlier entry. It is a finding if an executable is an ELF file for another
// architecture, which is checked before any file is moved, or if a file would replace the executable of an entry with
// another name or version. Any other error is one of the file system. Files that were moved, and owners that were
// recorded, before an error remain.
func (b *builder) install(owner bill.Executable, unpacked string, content *tree, executables []string) error {
	entry, platform := owner.Entry, owner.Platform
	dir := path.Join("bin", platform.OS, platform.Arch)
	if entry.Kind() == brokerpak.Tofu {
		dir = path.Join(dir, entry.FileVersion())
	}
	for _, name := range executables {
		file := filepath.Join(unpacked, filepath.FromSlash(name))
		if err := checkMachine(file, platform); err != nil {
			return err
		}
		content.files[name] = executable
		target := path.Join(dir, name)
		if _, owned := b.executables[target]; !owned {
			b.executables[target] = owner
		}
	}
	for _, name := range content.names() {
		target := path.Join(dir, name)
		if first, owned := b.executables[target]; owned && label(first.Entry) != label(entry) {
			return findingf("duplicate", "it contains another %s, which belongs to %s", target, label(first.Entry))
		}
		source := filepath.Join(unpacked, filepath.FromSlash(name))
		full := filepath.Join(b.stage, filepath.FromSlash(target))
		if err := os.Chmod(source, content.files[name]); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			return err
		}
		if err := os.Rename(source, full); err != nil {
			return err
		}
	}
	return nil
}

// machines maps the machine numbers of ELF files to architectures.
var machines = map[uint16]string{ //nolint:gochecknoglobals // a constant table
	3: "386", 40: "arm", 62: "amd64", 183: "arm64",
}

// checkMachine returns a finding if the file at a path is an ELF file, that is, an executable of Linux or BSD, and was
// built for another known architecture than that of the platform. It returns nil for any other file, such as a script,
// and for one that is too short or cannot be read, because the architecture is not known. It returns another error only
// if the file cannot be opened.
func checkMachine(file string, platform brokerpak.Platform) error {
	const machineAt, header = 18, 20
	opened, err := os.Open(file) //nolint:gosec // it was just unpacked
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }() // opened for reading only, so that closing loses no data
	head := make([]byte, header)
	if _, err := io.ReadFull(opened, head); err != nil || string(head[:4]) != "\x7fELF" {
		return nil // a script, or an executable of another operating system
	}
	if arch := machines[binary.LittleEndian.Uint16(head[machineAt:])]; arch != "" && arch != platform.Arch {
		return findingf("binary-platform", "%s is an executable for %s", filepath.Base(file), arch)
	}
	return nil
}

// sources fetches the source code of those entries of terraform_binaries that have a source, as src/NAME.zip of the
// stage directory, or src/NAME-VERSION.zip if several entries have the name. Findings, which are errors that the author
// must correct, are added to b.diags and do not end the loop. sources returns nil if all errors are findings, and
// otherwise the first error that is not; see source.
func (b *builder) sources(ctx context.Context) error {
	names := map[string]int{}
	for _, entry := range b.pak.Manifest.Binaries {
		names[entry.Name]++
	}
	for _, entry := range b.pak.Manifest.Binaries {
		name := entry.Name
		if names[entry.Name] > 1 {
			name += "-" + entry.FileVersion() // the pak has several versions of the entry
		}
		if err := b.collect(entry, "src", b.source(ctx, entry, "src/"+name+".zip")); err != nil {
			return err
		}
	}
	return nil
}

// source fetches the source code of an entry and writes it to target, a slash-separated path below the stage directory,
// such as "src/tofu.zip", that must not exist. It notes the file in b.fetched; see record. For an entry without a
// source, it only writes a progress line and returns nil.
//
// It returns a finding, and does not create target, if the location is invalid or does not exist, if the lock lacks
// or contradicts it, if the server rejects the request, if the checksum is wrong, or if the file is too large or is
// not a zip file. Other errors are that a download fails, that a file cannot be read or written, also because target
// exists on the disk, and that ctx ends; an incomplete target may remain then.
func (b *builder) source(ctx context.Context, entry brokerpak.Binary, target string) (err error) {
	if entry.Source == "" {
		b.progressf("%s: its entry has no source", label(entry))
		return nil
	}
	from, err := parseLocation(entry.Source, b.pak.Path, ".")
	if err == nil {
		from, err = b.pin(from, entry, brokerpak.SourceCode)
	}
	if err != nil {
		return err
	}
	file, err := b.fetch(ctx, label(entry)+" source", from)
	if err != nil {
		return err
	}
	if _, err := b.record(ctx, from, file, entry, brokerpak.SourceCode); err != nil {
		return err
	}
	source, err := os.Open(file) //nolint:gosec // it was downloaded, or the author names it
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // opened for reading only, so that closing loses no data
	kind, err := kindOf(source)
	if err != nil {
		return err
	}
	if kind != zipArchive {
		return findingf("archive", "%s must be a zip", from)
	}
	into, err := newTree(b.stage, maxPak)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.close()) }()
	return into.addFile(ctx, target, readable, source)
}
