package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Files with these names contain a licence, or a notice that must be distributed with it. Sources of programs are
// excluded.
var (
	licenceName = regexp.MustCompile(`(?i)^(un)?licen[cs]e([-._].*)?$|^copying([-._].*)?$`)
	noticeName  = regexp.MustCompile(`(?i)^(notice|patents|copyright)([-._].*)?$`)
	sourceName  = regexp.MustCompile(`\.(go|s|c|h|py|sh|rb|js)$`)
)

// A module is a Go module, or the standard library.
type module struct {
	Path    string
	Version string
	Dir     string
	Main    bool // whether this is the module of the programs
	// Replace is the module of a replace directive of go.mod, or nil.
	Replace *struct{ Path, Version string }
}

// A goPackage is the part of the output of `go list -json` that concerns licences.
type goPackage struct {
	ImportPath string
	Dir        string
	Standard   bool   // whether the package belongs to the standard library
	Root       string // for the standard library, its directory
	Module     *module
}

// linked returns the packages that are linked into programs for a platform: those that patterns name, in the module of
// the directory dir, and all of their dependencies. The module of each package is not nil. linked returns an error with
// the message of the command go if the packages cannot be listed, for instance because a module cannot be downloaded.
func linked(ctx context.Context, dir, goos, goarch string, patterns []string) ([]goPackage, error) {
	environment := append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	version, err := goCommand(ctx, dir, environment, "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	list, err := goCommand(ctx, dir, environment,
		append([]string{"list", "-deps", "-json=ImportPath,Dir,Standard,Root,Module", "--"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(list)); ; {
		var next goPackage
		if err := decoder.Decode(&next); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		if next.Standard {
			standard := "The Go standard library"
			next.Module = &module{Path: standard, Version: strings.TrimSpace(string(version)), Dir: next.Root}
		}
		if next.Module == nil {
			return nil, fmt.Errorf("the package %s belongs to no module", next.ImportPath)
		}
		packages = append(packages, next)
	}
}

// goCommand runs the command go in a directory and returns its standard output. The error contains the message of the
// command.
func goCommand(ctx context.Context, dir string, environment []string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir, command.Env = dir, environment
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("running go %s: %w: %s", arguments[0], err, strings.TrimSpace(stderr.String()))
	}
	return output, nil
}

// A component is the standard library or a module of which a package is linked.
type component struct {
	Name, Version string
	root          string // the directory of the component
	// files are the paths of the files with licences and notices, relative to root.
	files map[string]bool
}

// newComponent returns the component of a module, without files.
func newComponent(from *module) *component {
	c := &component{Name: from.Path, Version: from.Version, root: from.Dir, files: map[string]bool{}}
	if from.Replace != nil {
		c.Version = strings.TrimSpace(c.Version + " => " + from.Replace.Path + " " + from.Replace.Version)
	}
	return c
}

// componentsOf returns the components of packages, sorted by name. Those of the main module are left out. A component
// has the files of the directories of its packages and of the directories above them, up to its root. componentsOf
// returns an error that names all packages for which there is no licence in these directories, or the error of reading
// a directory.
func componentsOf(packages []goPackage) ([]*component, error) {
	all := map[string]*component{}
	var missing []string
	for _, item := range packages {
		if item.Module.Main {
			continue
		}
		c := all[item.Module.Path]
		if c == nil {
			c = newComponent(item.Module)
			all[c.Name] = c
		}
		licensed, err := c.collect(item.Dir)
		if err != nil {
			return nil, fmt.Errorf("finding the licence of %s: %w", item.ImportPath, err)
		}
		if !licensed {
			missing = append(missing, strings.TrimSpace(item.ImportPath+" "+c.Version))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, fmt.Errorf("no licence was found, so the program must not be distributed with: %s",
			strings.Join(missing, ", "))
	}
	return slices.SortedFunc(maps.Values(all), func(a, b *component) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// collect adds the files with licences and notices in a directory of the component, and in the directories above it, to
// c.files. It reports whether one of them contains a licence. It returns an error if a directory cannot be read or is
// not below c.root.
func (c *component) collect(dir string) (licensed bool, err error) {
	below, err := filepath.Rel(c.root, dir)
	if err != nil || !filepath.IsLocal(below) {
		return false, fmt.Errorf("the package is in %s, which is not below %s", dir, c.root)
	}
	for ; ; below = filepath.Dir(below) {
		entries, err := os.ReadDir(filepath.Join(c.root, below))
		if err != nil {
			return false, err
		}
		for _, entry := range entries {
			name := entry.Name()
			isLicence := licenceName.MatchString(name)
			if entry.IsDir() || sourceName.MatchString(name) || !isLicence && !noticeName.MatchString(name) {
				continue
			}
			c.files[filepath.ToSlash(filepath.Join(below, name))] = true
			licensed = licensed || isLicence
		}
		if below == "." {
			return licensed, nil
		}
	}
}

// introduction is the beginning of the text.
const introduction = `THIRD-PARTY LICENCES

The programs distributed with this file contain the following components. Each is listed with the files that
contain its licence and notices. The licences apply to these components, and not to the programs as a whole.

`

// write writes the text with all components. It returns an error if a file cannot be read, is empty, or cannot be
// written.
func write(out io.Writer, components []*component) error {
	var text strings.Builder
	text.WriteString(introduction)
	for _, c := range components {
		fmt.Fprintf(&text, "  %s\n", c.title())
	}
	for _, c := range components {
		fmt.Fprintf(&text, "\n%s\n%s\n", strings.Repeat("=", 80), c.title())
		for _, name := range slices.Sorted(maps.Keys(c.files)) {
			content, err := os.ReadFile(filepath.Join(c.root, filepath.FromSlash(name)))
			if err != nil {
				return fmt.Errorf("reading the licence of %s: %w", c.title(), err)
			}
			trimmed := strings.TrimSpace(strings.ReplaceAll(string(content), "\r\n", "\n"))
			if trimmed == "" {
				return fmt.Errorf("reading the licence of %s: the file %s is empty", c.title(), name)
			}
			fmt.Fprintf(&text, "\n%s %s\n\n%s\n", strings.Repeat("-", 8), name, trimmed)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// title returns the name and the version of a component.
func (c *component) title() string { return strings.TrimSpace(c.Name + " " + c.Version) }
