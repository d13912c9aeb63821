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

// binaries fetches every entry of terraform_binaries for every platform of the build and unpacks it below bin/OS/ARCH
// of the stage. Findings are added to b.diags, so that one build reports all of them. It returns the first error that
// is not a finding; see binary.
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

// A finding is an error that the author of the pak must correct. It is reported with its position, and the build
// continues to report others. Any other error, such as a server that does not respond, ends the build.
type finding struct {
	rule string // such as "checksum"
	error
}

// findingf returns a finding of a rule with a formatted message. %w wraps an error.
func findingf(rule, format string, args ...any) error {
	return &finding{rule, fmt.Errorf(format, args...)}
}

// collect adds a finding in err to b.diags, at the position of the entry, and returns nil. It returns any other error
// with the entry and where in its text, and nil for nil. where is the platform, or "src" for source code.
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

// label returns the name and the version of an entry, which identify it in messages.
func label(entry brokerpak.Binary) string { return entry.Name + " " + entry.Version }

// locate returns the location of an entry for a platform: that of Options.Binaries, else of its url_template, else the
// path of Options.Installed, else the default location of OpenTofu, or of providers for every other entry. A relative
// path in Options.Binaries is relative to the working directory, and one in url_template to the pak or else to the
// working directory. locate returns a finding if the location is invalid or if a local file does not exist, and another
// error if the file system fails.
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

// binary fetches an entry for a platform, unpacks it in a temporary directory, and moves its files into the stage; see
// install. It returns a finding if the archive does not contain the executable or, for OpenTofu and providers, contains
// several. See locate, fetch, unpack and install for other findings and errors; that of a failed download also names
// the option --binary. The temporary directory is removed in any case.
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
		return findingf("binary-name", "%s has no single file named %s, but: %s",
			from, entry.FileName(), summarize(content.names()))
	}
	return b.install(owner, dir, content, executables)
}

// executables returns the sorted names of the files that programs which read paks will consider to be the entry's
// executable. See Binary.IsFile for their names. Only files in the root of content are considered.
func executables(entry brokerpak.Binary, content *tree) []string {
	return slices.DeleteFunc(content.names(), func(name string) bool {
		return strings.Contains(name, "/") || !entry.IsFile(name)
	})
}

// summarize returns a list of names for a message, of which it shows at most ten. An empty list is "nothing".
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

// install moves the files of an entry, which are in the directory unpacked, to bin/OS/ARCH of the stage, or to
// bin/OS/ARCH/VERSION for OpenTofu. owner describes the entry's executables. content contains the names and modes of
// the files; executables are the names of those that are the entry's executables, which get mode 0755. A file such as
// LICENSE replaces that of an earlier entry. A file that would replace the executable of another entry is a finding,
// and so is an executable for another architecture. Any other error is one of the file system. Files that were moved
// before an error remain. install records the owner of each executable in b.executables.
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
			return findingf("duplicate", "it brings another %s, which belongs to %s", target, label(first.Entry))
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

// checkMachine returns a finding if an ELF file was built for another known architecture than that of the platform. It
// accepts any other file, such as a script, because the architecture is not known. It returns another error if the file
// cannot be opened.
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
		return findingf("binary-platform", "%s is made for %s", filepath.Base(file), arch)
	}
	return nil
}

// sources fetches the source code of the entries as src/NAME.zip of the stage, or src/NAME-VERSION.zip if several
// entries have the name. Findings are added to b.diags. It returns the first error that is not a finding; see source.
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

// source fetches the source code of an entry and writes it to target, a slash-separated path below the stage that must
// not exist. For an entry without a source, it only writes a progress line. A source that is not a zip file is a
// finding. See parseLocation, fetch and tree.add for other findings and errors.
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
	if kind, err := kindOf(source); err != nil || kind != zipArchive {
		return errors.Join(err, findingf("archive", "%s must be a zip", from))
	}
	into, err := newTree(b.stage, maxPak)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.close()) }()
	return into.addFile(ctx, target, readable, source)
}
