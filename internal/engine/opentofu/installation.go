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

// Installation is an OpenTofu of one version, with the providers that its runs may use and the directories of further
// programs. All paths are absolute. The zero value has no executable and cannot be run.
type Installation struct {
	Binary    string     // the absolute path of the executable tofu
	Version   string     // the version of OpenTofu, such as "1.12.6"
	Providers []Provider // all providers; OpenTofu never downloads any
	Path      []string   // directories that precede the system's in the PATH of OpenTofu
}

// Executables returns the paths of OpenTofu and of the providers, in this order and unchecked, followed by those of the
// other executables in the directories of Path. Only regular files with an execute permission, and links to them, count
// as such; subdirectories are not searched, and a path that is already in the result is not repeated. A directory that
// cannot be read has none.
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

// Provider is the executable of one version of a provider: its name as host/namespace/type, its version and its path. A
// provider of registry.terraform.io is also available under registry.opentofu.org, and vice versa. The JSON form lacks
// the path, so that File is "" in a decoded Provider. The zero value names no provider.
type Provider struct {
	FQN     string `json:"fqn"` // host/namespace/type
	Version string `json:"version"`
	File    string `json:"-"` // the absolute path of the executable
}

// SameProvider reports whether other is the same provider as the receiver, of any version and at any path. The hosts
// registry.terraform.io and registry.opentofu.org count as the same. It returns false if the FQN of the receiver does
// not have the form host/namespace/type.
func (p Provider) SameProvider(other Provider) bool {
	names, err := p.Names()
	return err == nil && slices.Contains(names, other.FQN)
}

// These registries offer the same providers.
const (
	terraformRegistry = "registry.terraform.io"
	opentofuRegistry  = "registry.opentofu.org"
)

// Names returns the addresses, as host/namespace/type, under which the provider is installed. A provider of
// registry.terraform.io or registry.opentofu.org has two, the one of registry.terraform.io first. Any other provider
// has its FQN only. Names returns nil and an error if the FQN does not have three parts separated by slashes, or if a
// part is empty, "." or "..".
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

// Mirror creates a filesystem mirror of the installation's providers, from which OpenTofu installs them, in the
// directory dir, which it creates with its parents if it is missing. For each name of a provider it creates the
// symbolic link dir/HOST/NAMESPACE/TYPE/VERSION/OS_ARCH/terraform-provider-TYPE_vVERSION to the provider's file. Links
// are used because the file system of dir may be mounted noexec. Mirror does not check that the files exist. Without
// providers, Mirror does nothing. It returns an error if a provider has an invalid name or version, if one of the links
// exists, or if a directory or link cannot be created. After an error the mirror is incomplete.
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

// Excludes reports whether this version of OpenTofu supports the option -exclude, which is so since version 1.9. It
// returns false if the version is not valid.
func (i Installation) Excludes() bool { return i.AtLeast(1, 9) }

// smallProviders is the total size of an installation's providers, in bytes, up to which their schemas need little
// memory.
const smallProviders = 100 << 20

// hasSmallProviders reports whether the providers' files have a total size of at most 100 MiB. It returns true without
// providers, and false if a file cannot be inspected.
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

// AtLeast reports whether the version of OpenTofu is at least major.minor. The patch number is ignored, and a
// pre-release counts as its release. AtLeast returns false if the version is not valid.
func (i Installation) AtLeast(major, minor int) bool {
	return slices.Compare(minorOf(i.Version), []int{major, minor}) >= 0
}

// minorOf returns the major and the minor number of a version, such as 1 and 12 for "1.12.6", or nil if the text is not
// a version. A missing minor number is 0.
func minorOf(text string) []int {
	parsed, err := version.NewVersion(text)
	if err != nil {
		return nil
	}
	return parsed.Segments()[:2]
}

// Tested reports whether the version of OpenTofu is in the tested range, from the first to the last result of the
// function Tested, including both. A newer patch release of the newest one is also in the range. Tested returns false
// if the version is not valid.
func (i Installation) Tested() bool {
	all := Tested()
	if slices.Contains(all, i.Version) { // avoids parsing, because Tested is called for thousands of states
		return true
	}
	newest := all[len(all)-1]
	return i.AtLeast(1, 0) && !Older(i.Version, all[0]) && slices.Compare(minorOf(i.Version), minorOf(newest)) <= 0
}

// Executable identifies the content of an executable file without reading it, by its path, size and modification time.
// Two equal values identify the same content, provided that a replaced file differs in its size or modification time.
// The zero value identifies no file.
type Executable struct {
	Path     string
	Size     int64 // bytes
	Modified int64 // nanoseconds since 1970
}

// InspectExecutable returns the identity of the executable file at a path. The parameter what is the name of the
// program for errors, such as "OpenTofu". InspectExecutable returns a zero Executable and an error if the path is not
// absolute, if the file is missing, cannot be inspected or is not a regular file, or if this process cannot execute it,
// for example because its file system is mounted noexec. It does not run the file.
func InspectExecutable(what, path string) (Executable, error) {
	const execute = 0x1
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || !filepath.IsAbs(path)) {
		err = fmt.Errorf("%q is not the absolute path of a regular file", path)
	}
	if err != nil {
		return Executable{}, fmt.Errorf("finding %s: %w", what, err)
	}
	// Unlike the permissions of the file, Access considers whether the file system is mounted noexec.
	if err := syscall.Access(path, execute); err != nil {
		return Executable{}, fmt.Errorf("%s %q cannot be executed: %w; "+
			"it must be an executable file on a file system that is not mounted noexec", what, path, err)
	}
	return Executable{Path: path, Size: info.Size(), Modified: info.ModTime().UnixNano()}, nil
}

// Compare compares two versions of OpenTofu or of a provider, such as "1.12.6". It returns a negative number if a is
// older than b, a positive number if a is newer, and 0 if both are equal. It also returns 0 if one of them is not a
// version. A pre-release is older than its release.
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
