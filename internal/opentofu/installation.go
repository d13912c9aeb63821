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

// Installation is an OpenTofu with the providers it may use, all executable files.
type Installation struct {
	Binary    string // absolute path of tofu
	Version   string // its version, such as "1.12.6"
	Providers []Provider
	Path      []string // directories put before the system's on the PATH of OpenTofu
}

// Provider is a provider's executable. A provider of registry.terraform.io is found under registry.opentofu.org as well,
// and the other way round. As JSON it says which one it is, and not where.
type Provider struct {
	FQN     string `json:"fqn"` // host/namespace/type
	Version string `json:"version"`
	File    string `json:"-"` // absolute path
}

// Is tells whether a provider is this one, of whatever version.
func (p Provider) Is(other Provider) bool {
	names, err := p.Names()
	return err == nil && slices.Contains(names, other.FQN)
}

// The registries whose providers are the same.
const (
	terraformRegistry = "registry.terraform.io"
	opentofuRegistry  = "registry.opentofu.org"
)

// Names returns the addresses under which the provider is installed.
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

// Mirror makes a filesystem mirror of the installation's providers: symlinks only, because the cache may be noexec.
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

// Excludes tells whether this OpenTofu has the option -exclude.
func (i Installation) Excludes() bool { return i.AtLeast(1, 9) }

// lightProviders is the size in bytes of the providers of an installation up to which their schemas take little memory.
const lightProviders = 100 << 20

// light tells whether the providers are small.
func (i Installation) light() bool {
	var size int64
	for _, p := range i.Providers {
		info, err := os.Stat(p.File)
		if err != nil {
			return false
		}
		size += info.Size()
	}
	return size <= lightProviders
}

// AtLeast tells whether this OpenTofu is of a version or a newer one; pre-releases count as their release.
func (i Installation) AtLeast(major, minor int) bool {
	return slices.Compare(minorOf(i.Version), []int{major, minor}) >= 0
}

// minorOf is the major and the minor number of a version; nil for what is none.
func minorOf(text string) []int {
	parsed, err := version.NewVersion(text)
	if err != nil {
		return nil
	}
	return parsed.Segments()[:2]
}

// Tested tells whether the version lies between the oldest and the newest that the tests run, patches aside.
func (i Installation) Tested() bool {
	all := Tested()
	if slices.Contains(all, i.Version) { // as nearly always; it is asked for each of thousands of states
		return true
	}
	return i.AtLeast(1, 0) && !Older(i.Version, all[0]) && slices.Compare(minorOf(i.Version), minorOf(all[len(all)-1])) <= 0
}

// Executable is what identifies an executable file without reading it.
type Executable struct {
	Path     string
	Size     int64
	Modified int64 // nanoseconds since 1970
}

// InspectExecutable refuses a file that cannot be executed by this process.
func InspectExecutable(what, path string) (Executable, error) {
	const execute = 0x1
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || !filepath.IsAbs(path)) {
		err = fmt.Errorf("%q is no absolute path of a regular file", path)
	}
	if err != nil {
		return Executable{}, fmt.Errorf("looking for %s: %w", what, err)
	}
	// Access says no for a file on a noexec file system, too.
	if err := syscall.Access(path, execute); err != nil {
		return Executable{}, fmt.Errorf("%s %q cannot be executed: %w; it must be an executable file on a file system that is not mounted noexec",
			what, path, err)
	}
	return Executable{Path: path, Size: info.Size(), Modified: info.ModTime().UnixNano()}, nil
}

// Tested returns the versions of OpenTofu that the tests run, oldest first.
func Tested() []string { return []string{"1.6.2", "1.10.10", "1.12.6"} }

// Compare orders versions of OpenTofu or of a provider; what is no version is as old as any.
func Compare(a, b string) int {
	first, err := version.NewVersion(a)
	second, otherErr := version.NewVersion(b)
	if err != nil || otherErr != nil {
		return 0
	}
	return first.Compare(second)
}

// Older tells whether a version is older than another one; what is no version is not.
func Older(a, b string) bool { return Compare(a, b) < 0 }
