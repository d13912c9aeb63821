package acceptance_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// A site is the machine of one spec. All of its files are below one directory.
type site struct {
	dir string
	// pak is the path of the pak in the configuration. A spec may configure further paks.
	pak string
	// entries is the directory in which the provider "directory" stores its resources.
	entries string
	// config is the configuration of the adapter. Changes take effect when save writes it.
	config map[string]any
	// working is the working directory of the adapter, and temporary its TMPDIR.
	working, temporary string
	// env contains further environment variables of the broker as NAME=value.
	env []string
}

// newSite returns a new site with a copy of a pak: a directory below testdata/paks, or "redis", the pak of spec/parity.
// At the end of the spec, the processes of the site are killed and its files are removed.
func newSite(pak string) *site {
	GinkgoHelper()
	dir, err := os.MkdirTemp("", "acc-") // short, because OpenTofu creates sockets below it
	Expect(err).NotTo(HaveOccurred())
	s := &site{
		dir: dir, pak: filepath.Join(dir, "pak"), entries: filepath.Join(dir, "entries"), working: dir,
		temporary: dir,
	}
	DeferCleanup(s.remove)
	source := filepath.Join("testdata", "paks", pak)
	if pak == "redis" {
		source = kit.Path("spec", "parity", "pak")
	}
	Expect(os.CopyFS(s.pak, os.DirFS(source))).To(Succeed())
	s.link(kit.OpenTofuPath(kit.Newest), s.bin(kit.Newest, "tofu"))
	s.link(kit.Provider(GinkgoT(), "directory"), s.bin("terraform-provider-directory_v1.0.0"))
	Expect(os.Mkdir(s.entries, 0o700)).To(Succeed())
	s.config = map[string]any{
		"paks": []string{s.pak}, "secure_manifests": true, "cache_dir": s.cache(),
		"state":    map[string]any{"config": map[string]any{"dir": s.state()}},
		"services": map[string]any{"entries": map[string]any{"bind_defaults": map[string]any{"path": s.entries}}},
	}
	s.save()
	return s
}

// cache and state return the directories of the adapter's cache and of its states.
func (s *site) cache() string { return filepath.Join(s.dir, "cache") }
func (s *site) state() string { return filepath.Join(s.dir, "state") }

// bin returns the path of a binary in the pak.
func (s *site) bin(elements ...string) string {
	return filepath.Join(append([]string{s.pak, "bin", runtime.GOOS, runtime.GOARCH}, elements...)...)
}

// link creates a symbolic link at the path to, and its parent directories.
func (s *site) link(from, to string) {
	GinkgoHelper()
	Expect(os.MkdirAll(filepath.Dir(to), 0o755)).To(Succeed())
	Expect(os.Symlink(from, to)).To(Succeed())
}

// write writes a file of the pak.
func (s *site) write(name, text string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(s.pak, name), []byte(text), 0o644)).To(Succeed())
}

// configFile returns the path of the adapter's configuration.
func (s *site) configFile() string { return filepath.Join(s.dir, "service-adapter.yml") }

// save writes the configuration as JSON, which is valid YAML.
func (s *site) save() {
	GinkgoHelper()
	text, err := json.Marshal(s.config)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(s.configFile(), text, 0o600)).To(Succeed())
}

// set replaces keys of the configuration and writes it.
func (s *site) set(keys map[string]any) {
	GinkgoHelper()
	maps.Copy(s.config, keys)
	s.save()
}

// encrypted enables the encryption of the site's states.
func (s *site) encrypted() {
	GinkgoHelper()
	s.set(map[string]any{"state": map[string]any{
		"config": map[string]any{"dir": s.state()}, "encryption": map[string]any{"key": bytes.Repeat([]byte("k"), 32)},
	}})
}

// environment returns the environment that the broker gives to the adapter.
func (s *site) environment() []string {
	return append([]string{"SERVICE_ADAPTER_CONFIG=" + s.configFile(), "TMPDIR=" + s.temporary}, s.env...)
}

// list returns the sorted names in a directory. It returns an empty list if the directory does not exist.
func list(dir string) []string {
	GinkgoHelper()
	entries, err := os.ReadDir(dir)
	if !os.IsNotExist(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// resources returns the names of the resources that the provider "directory" has created.
func (s *site) resources() []string {
	GinkgoHelper()
	names := []string{}
	for _, name := range list(s.entries) {
		if !strings.HasPrefix(name, ".") {
			names = append(names, name)
		}
	}
	return names
}

// expectNothingLeft asserts that no resource, state, scratch directory or process is left.
func (s *site) expectNothingLeft() {
	GinkgoHelper()
	Expect(s.resources()).To(BeEmpty(), "resources")
	Expect(list(filepath.Join(s.state(), "workspaces"))).To(BeEmpty(), "states")
	Expect(list(filepath.Join(s.cache(), "runs"))).To(BeEmpty(), "scratch directories")
	s.expectNoProcesses()
}

// expectNoProcesses waits until no process runs in the site. A provider ends shortly after its OpenTofu.
func (s *site) expectNoProcesses() {
	GinkgoHelper()
	Eventually(s.processes).Should(BeEmpty(), "processes")
}

// processes returns the processes whose working directory is in the site.
func (s *site) processes() []process.Process { return process.Below(s.dir) }

// remove kills the processes of the site and removes its files.
func (s *site) remove() error {
	process.End(s.dir)
	return os.RemoveAll(s.dir)
}

// clear kills the processes of a failed spec and removes its resources and states, for the next spec on the same site.
func (s *site) clear() {
	GinkgoHelper()
	process.End(s.dir)
	for _, dir := range []string{
		s.entries, s.control(), filepath.Join(s.state(), "workspaces"),
		filepath.Join(s.cache(), "runs"),
	} {
		for _, name := range list(dir) {
			Expect(os.RemoveAll(filepath.Join(dir, name))).To(Succeed())
		}
	}
}

// modes returns the modes of all files and directories below dir that users other than the owner may access, by path.
func modes(dir string) map[string]string {
	GinkgoHelper()
	open := map[string]string{}
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			open[path] = fmt.Sprintf("%04o", info.Mode().Perm())
		}
		return err
	})).To(Succeed())
	return open
}

// ownBinaries replaces the links to the pak's binaries with files, which zips and users who cannot follow the links
// need.
func (s *site) ownBinaries() {
	GinkgoHelper()
	Expect(filepath.WalkDir(s.bin(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink == 0 {
			return err
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return err
		}
		if os.Link(target, path) == nil { // a hard link takes no time, but is limited to one file system
			return nil
		}
		content, err := os.ReadFile(target)
		if err != nil {
			return err
		}
		return os.WriteFile(path, content, 0o755)
	})).To(Succeed())
}

// unexecutable replaces a binary of the pak with a file that is not executable.
func (s *site) unexecutable(elements ...string) {
	GinkgoHelper()
	Expect(os.Remove(s.bin(elements...))).To(Succeed())
	Expect(os.WriteFile(s.bin(elements...), nil, 0o644)).To(Succeed())
}
