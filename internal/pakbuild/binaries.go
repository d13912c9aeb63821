package pakbuild

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"service-adapter/brokerpak"
)

// maxBinary bounds a download, and what one archive unpacks to, in bytes: the largest providers have some hundred megabytes,
// and readers of paks take no more.
const maxBinary = 4 << 30

// binaries fetches every entry for every platform into its place below bin/OS/ARCH. Findings are collected, so that one build finds them all.
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

// finding is what the author must mend: it is reported with its place, and the build goes on to find others. Other errors, such
// as a server that is down, end the build.
type finding struct {
	rule string // such as "checksum"
	error
}

func findingf(rule, format string, args ...any) error {
	return &finding{rule, fmt.Errorf(format, args...)}
}

// collect makes a finding a diagnostic at the entry. Other errors are returned.
func (b *builder) collect(entry brokerpak.Binary, where string, err error) error {
	var found *finding
	switch {
	case err == nil:
		return nil
	case errors.As(err, &found):
		b.diags.Errorf(entry.Pos, found.rule, "%s for %s: %s", label(entry), where, err)
		return nil
	default:
		return fmt.Errorf("%s for %s: %w", label(entry), where, err)
	}
}

func label(entry brokerpak.Binary) string { return entry.Name + " " + entry.Version }

// locate finds where an entry comes from. An override is relative to the working directory.
func (b *builder) locate(entry brokerpak.Binary, platform brokerpak.Platform) (location, error) {
	template, dirs := entry.URLTemplate, []string{b.pak.Path, "."}
	override, overridden := b.Binaries[entry.Name]
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
	from, err := locate(text, dirs...)
	if overridden {
		from.name = entry.FileName() // whoever names the file says what it is
	}
	return from, err
}

// binary fetches one entry for one platform, unpacks it aside, and moves it into its place.
func (b *builder) binary(ctx context.Context, entry brokerpak.Binary, platform brokerpak.Platform) (err error) {
	from, err := b.locate(entry, platform)
	if err != nil {
		return err
	}
	file, err := b.fetch(ctx, label(entry)+" "+platform.String(), from)
	if err != nil {
		return err
	}
	aside, err := os.MkdirTemp(b.stage, ".unpack-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
	content, err := newTree(aside, b.MaxBinary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.close()) }()
	if err := unpack(ctx, from.name, file, from.plain, content); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	executables := executables(entry, content)
	if len(executables) != 1 && (entry.Kind() != brokerpak.OtherBinary || len(executables) == 0) {
		return findingf("binary-name", "%s has no single file named %s, but: %s", from, entry.FileName(), some(content.names()))
	}
	return b.place(entry, platform, aside, content, executables)
}

// executables finds the files that readers of paks will take for an entry's executable.
func executables(entry brokerpak.Binary, content *tree) []string {
	return slices.DeleteFunc(content.names(), func(name string) bool { return strings.Contains(name, "/") || !entry.IsFile(name) })
}

// some lists names, but not too many.
func some(names []string) string {
	const most = 10
	if len(names) == 0 {
		return "nothing"
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// place moves the unpacked files below bin/OS/ARCH. Files such as LICENSE replace those of entries before, executables of
// other entries never.
func (b *builder) place(entry brokerpak.Binary, platform brokerpak.Platform, aside string, content *tree, executables []string) error {
	dir := path.Join("bin", platform.OS, platform.Arch)
	if entry.Kind() == brokerpak.Tofu {
		dir = path.Join(dir, entry.FileVersion())
	}
	for _, name := range executables {
		file := filepath.Join(aside, filepath.FromSlash(name))
		if err := checkMachine(file, platform); err != nil {
			return err
		}
		content.files[name] = 0o755
		if target := path.Join(dir, name); b.owners[target] == "" {
			b.owners[target] = label(entry)
		}
	}
	for _, name := range content.names() {
		target := path.Join(dir, name)
		if owner := b.owners[target]; owner != "" && owner != label(entry) {
			return findingf("duplicate", "it brings another %s, which belongs to %s", target, owner)
		}
		source, full := filepath.Join(aside, filepath.FromSlash(name)), filepath.Join(b.stage, filepath.FromSlash(target))
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

// machines are the ELF numbers of architectures.
var machines = map[uint16]string{3: "386", 40: "arm", 62: "amd64", 183: "arm64"} //nolint:gochecknoglobals // a constant table

// checkMachine refuses an executable that was made for another architecture, where it tells.
func checkMachine(file string, platform brokerpak.Platform) error {
	const machineAt, header = 18, 20
	opened, err := os.Open(file) //nolint:gosec // it was just unpacked
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }() // opened for reading: closing cannot lose anything
	head := make([]byte, header)
	if _, err := io.ReadFull(opened, head); err != nil || string(head[:4]) != "\x7fELF" {
		return nil // a script, or a format of another system
	}
	if found := machines[binary.LittleEndian.Uint16(head[machineAt:])]; found != "" && found != platform.Arch {
		return findingf("binary-platform", "%s is made for %s", filepath.Base(file), found)
	}
	return nil
}

// sources fetches the source code of the entries that name it into src/.
func (b *builder) sources(ctx context.Context) error {
	names := map[string]int{}
	for _, entry := range b.pak.Manifest.Binaries {
		names[entry.Name]++
	}
	for _, entry := range b.pak.Manifest.Binaries {
		name := entry.Name
		if names[entry.Name] > 1 {
			name += "-" + entry.FileVersion() // several versions
		}
		if err := b.collect(entry, "src", b.source(ctx, entry, "src/"+name+".zip")); err != nil {
			return err
		}
	}
	return nil
}

func (b *builder) source(ctx context.Context, entry brokerpak.Binary, target string) (err error) {
	if entry.Source == "" {
		b.say("%s: no source is named", label(entry))
		return nil
	}
	from, err := locate(entry.Source, b.pak.Path, ".")
	if err != nil {
		return err
	}
	file, err := b.fetch(ctx, label(entry)+" source", from)
	if err != nil {
		return err
	}
	source, err := os.Open(file) //nolint:gosec // what was downloaded, or the author names
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // opened for reading: closing cannot lose anything
	if found, err := kindOf(source); err != nil || found != zipArchive {
		return errors.Join(err, findingf("archive", "%s must be a zip", from))
	}
	into, err := newTree(b.stage, maxPak)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, into.close()) }()
	return into.addFile(ctx, target, readable, source)
}
