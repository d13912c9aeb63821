package opentofu

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/hashicorp/go-version"
)

// Installation is a version of OpenTofu with the providers that its runs may use.
type Installation struct {
	Binary    string     // the absolute path of the executable tofu
	Version   string     // the version of OpenTofu, such as "1.12.6"
	Providers []Provider // all providers; OpenTofu never downloads any
	Path      []string   // directories that precede the system's in the PATH of OpenTofu
}

// Executables returns the paths of OpenTofu and of the providers, in this order, followed by those of the other
// executables in the directories of Path. A directory that cannot be read has none.
func (i Installation) Executables() []string {
	paths := []string{i.Binary}
	for _, p := range i.Providers {
		paths = append(paths, p.File)
	}
	for _, dir := range i.Path {
		entries, _ := os.ReadDir(dir)
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			info, err := os.Stat(path)
			if err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// Provider is the executable of a version of a provider. A provider of registry.terraform.io is also available under
// registry.opentofu.org, and vice versa.
type Provider struct {
	FQN     string `json:"fqn"` // host/namespace/type
	Version string `json:"version"`
	File    string `json:"-"` // the absolute path of the executable
}

// SameProvider reports whether other is the same provider, of any version. Both registries count as the same host. It
// returns false if the FQN of the receiver does not have the form host/namespace/type.
func (p Provider) SameProvider(other Provider) bool {
	names, err := p.Names()
	return err == nil && slices.Contains(names, other.FQN)
}

// These registries offer the same providers.
const (
	terraformRegistry = "registry.terraform.io"
	opentofuRegistry  = "registry.opentofu.org"
)

// Names returns the addresses, as host/namespace/type, under which the provider is installed: one for
// registry.terraform.io and one for registry.opentofu.org if it is of one of them, and the FQN otherwise. It returns an
// error if the FQN does not have the form host/namespace/type.
func (p Provider) Names() ([]string, error) {
	parts := strings.Split(p.FQN, "/")
	if len(parts) != 3 || !filepath.IsLocal(p.FQN) || filepath.Clean(p.FQN) != p.FQN {
		return nil, fmt.Errorf("provider %q must be named host/namespace/type", p.FQN)
	}
	rest := parts[1] + "/" + parts[2]
	switch parts[0] {
	case terraformRegistry, opentofuRegistry:
		return []string{terraformRegistry + "/" + rest, opentofuRegistry + "/" + rest}, nil
	default:
		return []string{p.FQN}, nil
	}
}

// Mirror creates a filesystem mirror of the installation's providers, from which OpenTofu installs them, in a
// directory, which it creates if it is missing. The mirror consists of symbolic links, because the file system of the
// directory may be mounted noexec. Without providers, Mirror does nothing. It returns an error if a provider has an
// invalid name or version, if one of the links exists, or if a file cannot be created. After an error the mirror is
// incomplete.
func (i Installation) Mirror(dir string) error {
	platform := runtime.GOOS + "_" + runtime.GOARCH
	for _, p := range i.Providers {
		names, err := p.Names()
		if err != nil {
			return err
		}
		if _, err := version.NewSemver(p.Version); err != nil {
			return fmt.Errorf("provider %q: %w", p.FQN, err)
		}
		for _, name := range names {
			target := filepath.Join(dir, name, p.Version, platform)
			if err := os.MkdirAll(target, 0o700); err != nil {
				return err
			}
			link := filepath.Join(target, "terraform-provider-"+filepath.Base(name)+"_v"+p.Version)
			if err := os.Symlink(p.File, link); err != nil {
				return fmt.Errorf("installing provider %s %s: %w", name, p.Version, err)
			}
		}
	}
	return nil
}

// Excludes reports whether this version of OpenTofu supports the option -exclude.
func (i Installation) Excludes() bool { return i.AtLeast(1, 9) }

// smallProviders is the total size of an installation's providers, in bytes, up to which their schemas need little
// memory.
const smallProviders = 100 << 20

// hasSmallProviders reports whether the providers' files have a total size of at most smallProviders. It returns true
// without providers, and false if a file cannot be inspected.
func (i Installation) hasSmallProviders() bool {
	var size int64
	for _, p := range i.Providers {
		info, err := os.Stat(p.File)
		if err != nil {
			return false
		}
		size += info.Size()
	}
	return size <= smallProviders
}

// AtLeast reports whether OpenTofu has at least this version. A pre-release counts as its release. An invalid version
// is older than any other.
func (i Installation) AtLeast(major, minor int) bool {
	return slices.Compare(minorOf(i.Version), []int{major, minor}) >= 0
}

// minorOf returns the major and the minor number of a version, or nil if the text is not a version.
func minorOf(text string) []int {
	parsed, err := version.NewVersion(text)
	if err != nil {
		return nil
	}
	return parsed.Segments()[:2]
}

// Tested reports whether the version of OpenTofu is at least the oldest tested version and at most the newest one. A
// newer patch release of the newest one counts as tested. An invalid version does not.
func (i Installation) Tested() bool {
	all := Tested()
	if slices.Contains(all, i.Version) { // avoids parsing, because Tested is called for thousands of states
		return true
	}
	newest := all[len(all)-1]
	return i.AtLeast(1, 0) && !Older(i.Version, all[0]) && slices.Compare(minorOf(i.Version), minorOf(newest)) <= 0
}

// Executable identifies the content of an executable file without reading it: if the file is replaced, a field changes.
type Executable struct {
	Path     string
	Size     int64 // bytes
	Modified int64 // nanoseconds since 1970
}

// InspectExecutable returns the identity of an executable file. It returns an error if the path is not absolute, or if
// the file is missing, is not a regular file, or cannot be executed by this process. The error contains what, the name
// of the program.
func InspectExecutable(what, path string) (Executable, error) {
	const execute = 0x1
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || !filepath.IsAbs(path)) {
		err = fmt.Errorf("%q is not the absolute path of a regular file", path)
	}
	if err != nil {
		return Executable{}, fmt.Errorf("looking for %s: %w", what, err)
	}
	// Unlike the permissions of the file, Access considers whether the file system is mounted noexec.
	if err := syscall.Access(path, execute); err != nil {
		return Executable{}, fmt.Errorf("%s %q cannot be executed: %w; "+
			"it must be an executable file on a file system that is not mounted noexec", what, path, err)
	}
	return Executable{Path: path, Size: info.Size(), Modified: info.ModTime().UnixNano()}, nil
}

// Compare compares two versions of OpenTofu or of a provider. It returns a negative number if a is older than b, 0 if
// both are equal or one is not a version, and a positive number if a is newer.
func Compare(a, b string) int {
	first, err := version.NewVersion(a)
	second, otherErr := version.NewVersion(b)
	if err != nil || otherErr != nil {
		return 0
	}
	return first.Compare(second)
}

// Older reports whether version a is older than version b. It returns false if one of them is not a version.
func Older(a, b string) bool { return Compare(a, b) < 0 }
