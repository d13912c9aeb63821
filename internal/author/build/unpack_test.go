package build_test

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/build"
)

var _ = Describe("unpacking", func() {
	linux, mac := brokerpak.Platform{OS: "linux", Arch: "amd64"}, brokerpak.Platform{OS: "darwin", Arch: "arm64"}
	var built string

	// pak returns the path of a zip with the files of a complete pak and further entries.
	pak := func(more ...entry) string {
		GinkgoHelper()
		dir := newPak("name: tofu, version: 1.6.0")
		return write(filepath.Join(GinkgoT().TempDir(), "mail.brokerpak"), zipOf(append([]entry{
			{"manifest.yml", read(filepath.Join(dir, "manifest.yml")), 0o600},
			{"mail.yml", service, 0o600},
			{"bin/linux/amd64/1.6.0/tofu", script, 0o644},
			{"bin/darwin/arm64/1.6.0/tofu", script, 0o644},
		}, more...)...))
	}
	BeforeEach(func() {
		built = pak(entry{"bin/linux/amd64/", "", fs.ModeDir | 0o755}, entry{"src/tofu.zip", "x", 0o600})
	})

	unpack := func(dir string, platform *brokerpak.Platform) error {
		return build.Unpack(context.Background(), built, dir, platform)
	}

	It("creates a pak directory that all users can read, with executable binaries, whatever the umask", func() {
		umask := syscall.Umask(0o077)
		DeferCleanup(func() { syscall.Umask(umask) })
		dir := filepath.Join(GinkgoT().TempDir(), "new", "mail")
		Expect(unpack(dir, nil)).To(Succeed())
		Expect(model(dir)).To(Equal(model(built)))
		opened, err := brokerpak.Open(dir)
		Expect(err).NotTo(HaveOccurred())
		for _, platform := range []brokerpak.Platform{linux, mac} {
			found, err := opened.Executables(context.Background(), platform, "")
			Expect(err).NotTo(HaveOccurred())
			info, err := os.Stat(found.Tofu["1.6.0"])
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Mode().Perm()).To(Equal(fs.FileMode(0o755)))
		}
		for name, mode := range map[string]fs.FileMode{
			"": 0o755, "bin": 0o755, "manifest.yml": 0o644,
			"src/tofu.zip": 0o644,
		} {
			info, err := os.Stat(filepath.Join(dir, name))
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Mode().Perm()).To(Equal(mode), "others than who unpacks it read %q", name)
		}
		Expect(filepath.Glob(filepath.Join(dir, "..", ".*"))).To(BeEmpty(), "no leftovers")
	})

	It("leaves out the binaries of other platforms", func() {
		dir := filepath.Join(GinkgoT().TempDir(), "mail")
		Expect(unpack(dir, &linux)).To(Succeed())
		Expect(filepath.Glob(filepath.Join(dir, "bin/*"))).To(Equal([]string{filepath.Join(dir, "bin/linux")}))
		Expect(unpack(filepath.Join(dir, "../other"), &brokerpak.Platform{OS: "linux", Arch: "arm"})).To(
			MatchError(ContainSubstring("it contains no binaries for linux/arm")))
		Expect(filepath.Join(dir, "../other")).NotTo(BeADirectory())
	})

	It("fills an empty directory, also behind a link, as BOSH packages have it", func() {
		parent := GinkgoT().TempDir()
		Expect(os.Mkdir(filepath.Join(parent, "empty"), 0o700)).To(Succeed())
		Expect(os.Symlink("empty", filepath.Join(parent, "link"))).To(Succeed())
		Expect(unpack(filepath.Join(parent, "link"), nil)).To(Succeed())
		Expect(filepath.Join(parent, "empty/manifest.yml")).To(BeAnExistingFile())
		Expect(os.Readlink(filepath.Join(parent, "link"))).To(Equal("empty"))
	})

	It("does not change a directory that is not empty", func() {
		dir := GinkgoT().TempDir()
		write(filepath.Join(dir, "file"), "mine")
		Expect(unpack(dir, nil)).To(MatchError(dir + " is not empty; name a directory that is empty or does not exist"))
		Expect(unpack(filepath.Join(dir, "file"), nil)).To(MatchError(ContainSubstring("not a directory")))
		Expect(filepath.Glob(filepath.Join(dir, "*"))).To(HaveLen(1))
	})

	DescribeTable("rejects", func(prepare func() string, message string) {
		built = prepare()
		parent := GinkgoT().TempDir()
		Expect(unpack(filepath.Join(parent, "mail"), nil)).To(MatchError(ContainSubstring(message)))
		Expect(os.ReadDir(parent)).To(BeEmpty())
	},
		Entry("a file above it", func() string {
			return pak(entry{"../evil", "x", 0o644})
		}, `"../evil", whose path leads outside of the pak`),
		Entry("a file twice", func() string {
			return pak(entry{"./mail.yml", "x", 0o644})
		}, `two files named "mail.yml"`),
		Entry("a link", func() string { return pak(entry{"bin/linux/amd64/tofu", "/bin/sh", fs.ModeSymlink | 0o777}) },
			`"bin/linux/amd64/tofu" is a symbolic link; only plain files are allowed`),
		Entry("a wrong checksum", func() string {
			file := pak()
			var right [4]byte
			binary.LittleEndian.PutUint32(right[:], crc32.ChecksumIEEE([]byte(script)))
			return write(file, strings.ReplaceAll(read(file), string(right[:]), "\x00\x00\x00\x01"))
		}, "bin/darwin/arm64/1.6.0/tofu: zip: checksum error"),
		Entry("a zip that was cut off", func() string {
			file := pak()
			Expect(os.Truncate(file, 700)).To(Succeed())
			return file
		}, "it is neither a directory nor a brokerpak zip"),
		Entry("a directory", func() string { return newPak("name: tofu, version: 1.6.0") }, "is a directory already"),
	)

	It("removes only the temporary directories that a killed run left next to the target", func() {
		parent := GinkgoT().TempDir()
		write(filepath.Join(parent, ".service-adapter-unpack-1/pak/manifest.yml"), "cut")
		write(filepath.Join(parent, ".unpack-1/file"), "of somebody else")
		Expect(unpack(filepath.Join(parent, "mail"), &linux)).To(Succeed())
		Expect(filepath.Glob(filepath.Join(parent, ".*"))).To(Equal([]string{filepath.Join(parent, ".unpack-1")}))
	})

	It("stops when its context ends, and leaves no files", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		parent := GinkgoT().TempDir()
		Expect(build.Unpack(ctx, built, filepath.Join(parent, "mail"), nil)).To(MatchError(context.Canceled))
		Expect(os.ReadDir(parent)).To(BeEmpty())
	})
})

var _ = Describe("a new pak", func() {
	It("opens, builds and is named after its directory", func() {
		dir := filepath.Join(GinkgoT().TempDir(), "My Mail")
		files, err := build.Init(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(files).To(Equal([]string{
			"bosh/manifest.yml", "manifest.yml", "my-mail.yml", "terraform/bind.tf",
			"tests/bind.yml", "tests/defaults.yml", "tests/life.yml", "tests/refused.yml", "tests/server.yml",
		}))
		pak, err := brokerpak.Open(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(pak.Warnings).To(BeEmpty())
		Expect(pak.Manifest.Name).To(Equal("my-mail"))
		Expect(pak.Service("my-mail").Plan(pak.Services[0].Examples[0].PlanID)).NotTo(BeNil())
		built, _ := mustBuild(dir, from("tofu", write(filepath.Join(GinkgoT().TempDir(), "x"), script)))
		Expect(model(built)).To(Equal(model(dir)))
	})

	It("has new ids", func() {
		parent := GinkgoT().TempDir()
		ids := map[string]bool{}
		for _, name := range []string{"a", "b"} {
			_, err := build.Init(filepath.Join(parent, name))
			Expect(err).NotTo(HaveOccurred())
			pak, err := brokerpak.Open(filepath.Join(parent, name))
			Expect(err).NotTo(HaveOccurred())
			ids[pak.Services[0].ID], ids[pak.Services[0].Plans[0].ID] = true, true
		}
		Expect(ids).To(HaveLen(4))
	})

	DescribeTable("gets a name that is allowed", func(directory, name string) {
		dir := filepath.Join(GinkgoT().TempDir(), directory)
		_, err := build.Init(dir)
		Expect(err).NotTo(HaveOccurred())
		pak, err := brokerpak.Open(dir)
		Expect(err).NotTo(HaveOccurred())
		Expect(pak.Services[0].Name).To(Equal(name))
	},
		Entry("for a name without letters", "---", "my-service"),
		Entry("for that of the manifest", "manifest", "my-service"),
		Entry("for a word of YAML", "null", "my-service"),
		Entry("never for a number", "123", "123"),
	)

	It("is rejected if the directory is not empty", func() {
		dir := GinkgoT().TempDir()
		write(filepath.Join(dir, ".hidden"), "mine")
		_, err := build.Init(dir)
		Expect(err).To(MatchError(ContainSubstring("is not empty")))
		Expect(os.ReadDir(dir)).To(HaveLen(1))
	})
})
