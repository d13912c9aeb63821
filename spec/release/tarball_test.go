package main_test

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/spec/kit"
	"service-adapter/spec/release/maker"
)

// makePak writes a .brokerpak of a pak's source directory, with binaries at paths in the archive. The files are not
// compressed, to save time.
func makePak(source, target string, binaries map[string]string) {
	GinkgoHelper()
	file, err := os.Create(target)
	Expect(err).NotTo(HaveOccurred())
	archive := zip.NewWriter(file)
	add := func(name, from string, mode fs.FileMode) {
		header := &zip.FileHeader{Name: name, Method: zip.Store}
		header.SetMode(mode)
		into, err := archive.CreateHeader(header)
		Expect(err).NotTo(HaveOccurred())
		content, err := os.Open(from)
		Expect(err).NotTo(HaveOccurred())
		defer func() { Expect(content.Close()).To(Succeed()) }()
		_, err = io.Copy(into, content)
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			add(strings.TrimPrefix(path, source+"/"), path, 0o644)
		}
		return err
	})).To(Succeed())
	for name, from := range binaries {
		add(name, from, 0o755)
	}
	Expect(archive.Close()).To(Succeed())
	Expect(file.Close()).To(Succeed())
}

// smallPak returns the path of a .brokerpak with small files in place of its binaries.
func smallPak(name string) string {
	GinkgoHelper()
	path := filepath.Join(kit.Directory(GinkgoT()), name)
	makePak(filepath.Join("testdata", "pak"), path, map[string]string{
		"bin/linux/" + runtime.GOARCH + "/small": filepath.Join("testdata", "pak", "bind.tf"),
	})
	return path
}

// licences returns the path of a file that replaces the licences of third parties.
func licences() string {
	GinkgoHelper()
	path := filepath.Join(kit.Directory(GinkgoT()), "licences")
	writeFile("the licence of a module\n", path)
	return path
}

// label returns the name, version and commit of the releases in the specs.
func label() maker.Label {
	return maker.Label{Name: "service-adapter", Version: "1.2.3", Commit: "0123abc"}
}

// makeRelease stages a release in a directory and writes its tarball. It returns both paths.
func makeRelease(ctx context.Context, content maker.Content) (tarball, dir string) {
	GinkgoHelper()
	parent := kit.Directory(GinkgoT())
	tarball, dir = filepath.Join(parent, "release.tgz"), filepath.Join(parent, "dir")
	content.Repository, content.Licences, content.Arch = kit.Path(), licences(), runtime.GOARCH
	Expect(maker.Stage(ctx, content, dir)).To(Succeed())
	Expect(maker.Write(dir, label(), tarball)).To(Succeed())
	return tarball, dir
}

// run runs a program in a directory and returns its output. The program must succeed.
func run(ctx context.Context, dir, name string, args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
	return string(output)
}

// unpack unpacks a tarball into a new directory and returns the directory.
func unpack(ctx context.Context, tarball string) string {
	GinkgoHelper()
	dir := kit.Directory(GinkgoT())
	run(ctx, dir, "tar", "-xzf", tarball)
	return dir
}

// releaseMF is the manifest of a release tarball, release.MF.
type releaseMF struct {
	Name       string `yaml:"name"`
	Version    string `yaml:"version"`
	CommitHash string `yaml:"commit_hash"`
	Dirty      bool   `yaml:"uncommitted_changes"`
	Jobs       []part `yaml:"jobs"`
	Packages   []part `yaml:"packages"`
}

// part is a job or a package in a release manifest.
type part struct {
	Name         string   `yaml:"name"`
	Fingerprint  string   `yaml:"fingerprint"`
	Digest       string   `yaml:"sha1"`
	Packages     []string `yaml:"packages"`
	Dependencies []string `yaml:"dependencies"`
}

var _ = Describe("make release", func() {
	It("writes a tarball that the Director accepts", func(ctx context.Context) {
		tarball, _ := makeRelease(ctx,
			maker.Content{Binary: adapterBinary, Paks: []string{smallPak("redis.brokerpak")}})
		dir := unpack(ctx, tarball)
		var manifest releaseMF
		Expect(yaml.Unmarshal([]byte(readFile(dir, "release.MF")), &manifest)).To(Succeed())
		Expect(manifest.Name + " " + manifest.Version + " " +
			manifest.CommitHash).To(Equal("service-adapter 1.2.3 0123abc"))
		Expect(manifest.Dirty).To(BeFalse())
		found := map[string][]string{}
		for _, job := range manifest.Jobs {
			found[job.Name] = job.Packages
			expectDigest(job.Digest, dir, "jobs", job.Name+".tgz")
			listing := run(ctx, dir, "tar", "-tzf", filepath.Join("jobs", job.Name+".tgz"))
			Expect(strings.Split(listing, "\n")).To(ContainElements("./job.MF", "./monit", "./properties_schema.json"),
				job.Name)
		}
		Expect(found).To(Equal(map[string][]string{
			"service-adapter":   {"odb-service-adapter", "service-adapter-paks"},
			"destroy-instances": {"odb-service-adapter"},
			"upgrade-bindings":  {"odb-service-adapter"}, "rotate-encryption-key": {"odb-service-adapter"},
			"preview-upgrade":     {"odb-service-adapter"},
			"drift":               {"odb-service-adapter"},
			"bbr-service-adapter": {"odb-service-adapter"},
			"apply-instance":      {"odb-service-adapter", "service-adapter-paks"},
			"destroy-instance":    {"odb-service-adapter", "service-adapter-paks"},
		}))
		needed := map[string][]string{}
		for _, item := range manifest.Packages {
			needed[item.Name] = item.Dependencies
			expectDigest(item.Digest, dir, "packages", item.Name+".tgz")
		}
		Expect(needed).To(Equal(map[string][]string{
			"odb-service-adapter":  {},
			"service-adapter-paks": {"odb-service-adapter"},
		}))
	})

	It("writes the same bytes again in another directory and later", func(ctx context.Context) {
		// This spec uses a small program instead of the adapter.
		pak, program := smallPak("redis.brokerpak"), filepath.Join(kit.Directory(GinkgoT()), "program")
		writeFile("#!/bin/sh\n", program)
		first, _ := makeRelease(ctx, maker.Content{Binary: program, Paks: []string{pak}})
		second, dir := makeRelease(ctx, maker.Content{Binary: program, Paks: []string{pak}})
		Expect(readFile(first) == readFile(second)).To(BeTrue(), "the tarballs differ")
		// The times and modes of the files of a checkout must not affect the release.
		touched := filepath.Join(dir, "jobs", "service-adapter", "spec")
		Expect(os.Chmod(filepath.Dir(touched), 0o700)).To(Succeed())
		Expect(os.Chmod(touched, 0o600)).To(Succeed())
		third := filepath.Join(kit.Directory(GinkgoT()), "release.tgz")
		Expect(maker.Write(dir, label(), third)).To(Succeed())
		Expect(readFile(first) == readFile(third)).To(BeTrue(), "the tarballs differ")
		writeFile("# changed\n", touched)
		Expect(maker.Write(dir, label(), third)).To(MatchError(ContainSubstring("service-adapter")),
			"the spec is no job any more")
	})

	It("includes blobs of the repository", func(ctx context.Context) {
		root := kit.Directory(GinkgoT())
		for _, name := range []string{"jobs", "packages", "config"} {
			Expect(os.CopyFS(filepath.Join(root, name), os.DirFS(kit.Path(name)))).To(Succeed())
		}
		pak := smallPak("x.brokerpak")
		Expect(os.MkdirAll(filepath.Join(root, "blobs", "brokerpaks"), 0o755)).To(Succeed())
		Expect(os.Rename(pak, filepath.Join(root, "blobs", "brokerpaks", "blob.brokerpak"))).To(Succeed())
		dir := filepath.Join(kit.Directory(GinkgoT()), "dir")
		Expect(maker.Stage(ctx, maker.Content{
			Repository: root, Binary: adapterBinary, Licences: licences(), Arch: runtime.GOARCH,
		}, dir)).To(Succeed())
		Expect(filepath.Join(dir, "blobs", "brokerpaks", "blob.brokerpak")).To(BeARegularFile())
	})

	DescribeTable("rejects", func(ctx context.Context, change func(*maker.Content, *maker.Label), wanted string) {
		content := maker.Content{
			Repository: kit.Path(), Binary: adapterBinary, Licences: licences(),
			Paks: []string{smallPak("redis.brokerpak")}, Arch: runtime.GOARCH,
		}
		named := label()
		change(&content, &named)
		dir := filepath.Join(kit.Directory(GinkgoT()), "dir")
		err := maker.Stage(ctx, content, dir)
		if err == nil {
			err = maker.Write(dir, named, filepath.Join(dir, "release.tgz"))
		}
		Expect(err).To(MatchError(ContainSubstring(wanted)))
		Expect(err.Error()).NotTo(ContainSubstring("\n"))
	},
		Entry("a release without a pak", func(c *maker.Content, _ *maker.Label) {
			c.Paks = nil
		}, "the release has no pak: add one with `bosh add-blob"),
		Entry("a pak that is not a .brokerpak", func(c *maker.Content, _ *maker.Label) {
			c.Paks = []string{"redis"}
		}, "must be a .brokerpak file"),
		Entry("a file that is not a pak", func(c *maker.Content, _ *maker.Label) {
			c.Paks = []string{filepath.Join(kit.Directory(GinkgoT()), "text.brokerpak")}
			Expect(os.WriteFile(c.Paks[0], []byte("text"), 0o600)).To(Succeed())
		}, "checking the pak text.brokerpak: "),
		Entry("a pak for other stemcells", func(c *maker.Content, _ *maker.Label) { c.Arch = "riscv64" },
			"checking the pak redis.brokerpak: it has no binaries for linux/riscv64"),
		Entry("a pak that is not there", func(c *maker.Content, _ *maker.Label) {
			c.Paks = []string{"/x.brokerpak"}
		}, "no such file"),
		Entry("a program that is not there", func(c *maker.Content, _ *maker.Label) {
			c.Binary = "/x"
		}, "no such file"),
		Entry("licences that are not there", func(c *maker.Content, _ *maker.Label) {
			c.Licences = "/x"
		}, "staging the licences, which make build/THIRD_PARTY_LICENSES writes: "),
		Entry("a version that is none", func(_ *maker.Content, l *maker.Label) {
			l.Version = "a b"
		}, `reading version "a b"`),
	)
})

// expectDigest asserts that a file has this digest, in BOSH's notation.
func expectDigest(wanted string, path ...string) {
	GinkgoHelper()
	sum := sha256.Sum256([]byte(readFile(path...)))
	Expect(wanted).To(Equal("sha256:" + hex.EncodeToString(sum[:])))
}
