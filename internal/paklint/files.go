package paklint

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
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
			_, err := binary.Find(l.pak.Files(), path.Join("bin", platform.OS, platform.Arch))
			switch {
			case err == nil:
			case l.pak.IsZip():
				l.diags.Errorf(binary.Pos, "binary", "the pak has no %s %s for %s: %s", binary.Name, binary.Version, platform, err)
			default:
				l.diags.Warnf(binary.Pos, "binary", "there is no %s %s for %s: %s", binary.Name, binary.Version, platform, err)
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

// unused warns of files that nothing uses: a YAML file or template in a folder that has others of its kind which are used, and beside
// the manifest a service definition. What else a pak holds, such as pages, tests and sources, is not for brokers.
func (l *linter) unused() error {
	kind := func(name string) string { return path.Dir(name) + "/*" + path.Ext(name) }
	kinds := map[string]bool{}
	for file := range l.files {
		kinds[kind(file)] = true
	}
	err := fs.WalkDir(l.pak.Files(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir // whoever needs a file in it says that it cannot be read
		}
		file := l.pak.Display(name)
		switch {
		case !entry.Type().IsRegular(), l.files[file], !kinds[kind(file)], !slices.Contains([]string{".yml", ".yaml", ".tf"}, path.Ext(name)):
			return nil
		case !strings.Contains(name, "/"):
			text, _ := fs.ReadFile(l.pak.Files(), name) // what cannot be read is no definition
			if !definition.Match(text) {
				return nil
			}
		}
		l.diags.Warnf(diag.Pos{File: file, Line: 1}, "unused-file", "nothing in the pak uses this file")
		return nil
	})
	if err != nil {
		return fmt.Errorf("looking for files that are not used: %w", err)
	}
	return nil
}

// definition finds the keys that a service definition has at its top.
var definition = regexp.MustCompile(`(?m)^(provision|bind|service_definitions):`)
