package main_test

import (
	"context"
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

// boshVersion is the version of the BOSH CLI whose code the specs run. `make tools` builds it.
const boshVersion = "7.10.1"

// A bosh is the part of the BOSH CLI that works on release directories. Its home directory contains the archives.
type bosh struct{ home string }

// newBOSH returns a BOSH CLI with an empty home directory.
func newBOSH() bosh {
	GinkgoHelper()
	kit.Built(GinkgoT(), kit.Path("build", "releasedir", boshVersion, "releasedir"))
	return bosh{kit.Directory(GinkgoT())}
}

// run runs a command of the CLI, which must succeed.
func (b bosh) run(ctx context.Context, args ...string) {
	GinkgoHelper()
	command := exec.CommandContext(ctx, kit.Path("build", "releasedir", boshVersion, "releasedir"), args...)
	command.Env = append(os.Environ(), "HOME="+b.home)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
}

// create runs create-release --force and returns the directory of the unpacked tarball.
func (b bosh) create(ctx context.Context, dir, version string) string {
	GinkgoHelper()
	tarball := filepath.Join(kit.Directory(GinkgoT()), "release.tgz")
	b.run(ctx, "create-release", dir, version, tarball)
	return unpack(ctx, tarball)
}

// vendorGo runs vendor-package for a release that contains a small golang-1-linux.
func (b bosh) vendorGo(ctx context.Context, dir string) {
	GinkgoHelper()
	source := kit.Directory(GinkgoT())
	writeFile("name: golang\nblobstore: {provider: local, options: {blobstore_path: "+kit.Directory(GinkgoT())+"}}\n",
		source, "config", "final.yml")
	writeFile("--- {}\n", source, "config", "blobs.yml")
	writeFile("name: golang-1-linux\nfiles: [bosh/*]\n", source, "packages", "golang-1-linux", "spec")
	writeFile("cp -r bosh ${BOSH_INSTALL_TARGET}\n", source, "packages", "golang-1-linux", "packaging")
	writeFile("export GOROOT=none\n", source, "src", "bosh", "compile.env")
	Expect(os.MkdirAll(filepath.Join(source, "jobs"), 0o755)).To(Succeed())
	b.create(ctx, source, "1")
	b.run(ctx, "vendor-package", dir, "golang-1-linux", source)
}

// operatorsCopy returns a copy of those parts of this repository of which a release consists. Its blobstore is a
// directory.
func operatorsCopy() string {
	GinkgoHelper()
	root := kit.Directory(GinkgoT())
	for _, name := range []string{
		"go.mod", "go.sum", "config", "jobs", "packages", "cmd", "adapter", "binding",
		"brokerpak", "internal", "manifestgen", "schemas",
	} {
		if info, err := os.Stat(kit.Path(name)); err == nil && info.IsDir() {
			Expect(os.CopyFS(filepath.Join(root, name), os.DirFS(kit.Path(name)))).To(Succeed())
		} else {
			writeFile(readFile(kit.Path(name)), root, name)
		}
	}
	writeFile("name: service-adapter\nblobstore: {provider: local, options: {blobstore_path: "+kit.Directory(GinkgoT())+
		"}}\n", root, "config", "final.yml")
	return root
}

// fingerprints returns the fingerprints of all jobs and packages of an unpacked tarball, by name.
func fingerprints(dir string) map[string]string {
	GinkgoHelper()
	var manifest releaseMF
	Expect(yaml.Unmarshal([]byte(readFile(dir, "release.MF")), &manifest)).To(Succeed())
	found := map[string]string{}
	for _, item := range append(manifest.Jobs, manifest.Packages...) {
		found[item.Name] = item.Fingerprint
	}
	return found
}

// packaged returns the content of a file in a package of an unpacked tarball.
func packaged(ctx context.Context, dir, name, file string) string {
	GinkgoHelper()
	return run(ctx, dir, "tar", "-xzOf", filepath.Join("packages", name+".tgz"), "./"+file)
}

var _ = Describe("The release directory", func() {
	It("makes the BOSH CLI create the same release as make release, repeatedly", func(ctx context.Context) {
		cli, pak, program := newBOSH(), smallPak("redis.brokerpak"), filepath.Join(kit.Directory(GinkgoT()), "program")
		writeFile("#!/bin/sh\n", program)
		tarball, dir := makeRelease(ctx, maker.Content{Binary: program, Paks: []string{pak}})
		for _, version := range []string{"1.2.3", "1.2.4"} {
			unpacked := cli.create(ctx, dir, version)
			Expect(fingerprints(unpacked)).To(Equal(fingerprints(unpack(ctx, tarball))))
			Expect(packaged(ctx, unpacked, "service-adapter-paks",
				"brokerpaks/redis.brokerpak") == readFile(pak)).To(BeTrue(), "the release contains another pak")
		}
	})

	It("makes the BOSH CLI create a release of the source with the operator's Go",
		kit.Slow(), func(ctx context.Context) {
			cli, pak, root := newBOSH(), smallPak("redis.brokerpak"), operatorsCopy()
			cli.vendorGo(ctx, root)
			dir := filepath.Join(kit.Directory(GinkgoT()), "dir")
			Expect(maker.Stage(ctx, maker.Content{
				Repository: root, Licences: licences(), Paks: []string{pak}, Arch: runtime.GOARCH,
			}, dir)).To(Succeed())
			unpacked := cli.create(ctx, dir, "1.2.3")
			Expect(fingerprints(unpacked)).To(And(HaveLen(len(jobs())+3),
				HaveKey("golang-1-linux"), HaveKey("service-adapter")))
			Expect(packaged(ctx, unpacked, "golang-1-linux", "bosh/compile.env")).To(Equal("export GOROOT=none\n"))
			Expect(packaged(ctx, unpacked, "service-adapter-paks",
				"brokerpaks/redis.brokerpak") == readFile(pak)).To(BeTrue(),
				"another pak")
			Expect(packaged(ctx, unpacked, "odb-service-adapter",
				"service-adapter/go.mod")).To(ContainSubstring("module service-adapter"))
		})

	Context("of a copy with a blob", func() {
		var root, blob, dir string

		stage := func(ctx context.Context, paks ...string) error {
			program := filepath.Join(kit.Directory(GinkgoT()), "program")
			writeFile("#!/bin/sh\n", program)
			return maker.Stage(ctx, maker.Content{
				Repository: root, Binary: program, Licences: licences(), Paks: paks, Arch: runtime.GOARCH,
			}, dir)
		}
		listed := func() string { return readFile(dir, "config", "blobs.yml") }

		BeforeEach(func(ctx context.Context) {
			root, dir = kit.Directory(GinkgoT()), filepath.Join(kit.Directory(GinkgoT()), "dir")
			for _, name := range []string{"jobs", "packages", "config"} {
				Expect(os.CopyFS(filepath.Join(root, name), os.DirFS(kit.Path(name)))).To(Succeed())
			}
			blob = filepath.Join(root, "blobs", "brokerpaks", "redis.brokerpak")
			writeFile(readFile(smallPak("redis.brokerpak")), blob)
			Expect(stage(ctx)).To(Succeed())
			// This is the entry that bosh upload-blobs writes.
			writeFile(strings.Replace(listed(), "    sha:", "    object_id: 0123-abc\n    sha:", 1), root, "config",
				"blobs.yml")
		})

		It("keeps the blob's entry", func(ctx context.Context) {
			Expect(stage(ctx)).To(Succeed())
			Expect(listed()).To(ContainSubstring("object_id: 0123-abc"))
		})

		It("lists the new pak that replaces it", func(ctx context.Context) {
			pak := filepath.Join(kit.Directory(GinkgoT()), "redis.brokerpak")
			makePak(filepath.Join("testdata", "pak"), pak,
				map[string]string{"bin/linux/" + runtime.GOARCH +
					"/other": filepath.Join("testdata", "pak", "manifest.yml")})
			Expect(stage(ctx, pak)).To(Succeed())
			Expect(listed()).NotTo(ContainSubstring("object_id"))
			unpacked := newBOSH().create(ctx, dir, "1.2.3")
			Expect(packaged(ctx, unpacked, "service-adapter-paks",
				"brokerpaks/redis.brokerpak") == readFile(pak)).To(BeTrue(), "the release contains another pak")
		})

		It("rejects a blob that is missing or differs from its entry", func(ctx context.Context) {
			other := filepath.Join(filepath.Dir(blob), "other.brokerpak")
			Expect(os.Rename(blob, other)).To(Succeed())
			Expect(stage(ctx)).To(MatchError(ContainSubstring("run `bosh sync-blobs`")))
			writeFile("another one", blob)
			Expect(stage(ctx)).To(
				MatchError(ContainSubstring("blob brokerpaks/redis.brokerpak is not the one of config/blobs.yml")))
		})
	})
})
