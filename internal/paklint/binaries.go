package paklint

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"

	"service-adapter/brokerpak"
)

// binaries checks that the pak holds its binaries for each of its platforms. The source of a pak has none: they come into it
// when it is built.
func (l *linter) binaries() {
	l.engine()
	if !l.pak.IsZip() && !l.built() {
		l.notes = append(l.notes, "there is no bin/ for the platforms: the binaries are not checked")
		return
	}
	for _, platform := range l.pak.Manifest.Platforms {
		for _, binary := range l.pak.Manifest.Binaries {
			wanted, ok := l.find(path.Join("bin", platform.OS, platform.Arch), binary)
			switch {
			case ok:
			case l.pak.IsZip():
				l.diags.Errorf(binary.Pos, "binary", "the pak has no %s %s for %s: there is no file %s", binary.Name, binary.Version, platform, wanted)
			default:
				l.diags.Warnf(binary.Pos, "binary", "there is no %s %s for %s: no file %s", binary.Name, binary.Version, platform, wanted)
			}
		}
	}
}

// engine checks that there is an OpenTofu for the providers and the templates.
func (l *linter) engine() {
	needed := ""
	for _, service := range l.pak.Services {
		if len(service.Provision.Templates)+len(service.Bind.Templates) > 0 {
			needed = "the templates of service " + strconv.Quote(service.Name)
		}
	}
	for _, binary := range l.pak.Manifest.Binaries {
		switch binary.Kind() {
		case brokerpak.Tofu:
			return
		case brokerpak.Provider:
			needed = binary.Name
		}
	}
	if needed != "" && len(l.pak.Manifest.Binaries) > 0 {
		l.diags.Errorf(l.pak.Manifest.Binaries[0].Pos, "required", "terraform_binaries must list an OpenTofu, named tofu, which runs %s", needed)
	}
}

// built tells whether the directory has binaries for at least one platform. Authors keep other things in bin/ as well.
func (l *linter) built() bool {
	return slices.ContainsFunc(l.pak.Manifest.Platforms, func(platform brokerpak.Platform) bool {
		info, err := fs.Stat(l.pak.Files(), path.Join("bin", platform.OS, platform.Arch))
		return err == nil && info.IsDir()
	})
}

// find looks for a binary in the directory of a platform, and returns where it should be.
func (l *linter) find(dir string, binary brokerpak.Binary) (wanted string, ok bool) {
	name := binary.Name
	switch binary.Kind() {
	case brokerpak.Tofu:
		wanted = path.Join(dir, binary.Version, "tofu")
		return wanted, l.isFile(wanted) || l.isFile(path.Join(dir, "tofu"))
	case brokerpak.Provider:
		text := binary.Version
		if parsed, err := version.NewVersion(text); err == nil {
			text = parsed.String()
		}
		name += "_v" + text
	}
	entries, err := fs.ReadDir(l.pak.Files(), dir)
	if err != nil {
		return path.Join(dir, name), false
	}
	for _, entry := range entries {
		rest, found := strings.CutPrefix(entry.Name(), name)
		if found && !entry.IsDir() && (rest == "" || rest[0] == '_' || rest == ".exe") {
			return path.Join(dir, name), true
		}
	}
	return path.Join(dir, name), false
}

func (l *linter) isFile(name string) bool {
	info, err := fs.Stat(l.pak.Files(), name)
	return err == nil && info.Mode().IsRegular()
}
