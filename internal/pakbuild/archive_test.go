package pakbuild_test

import (
	"encoding/binary"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/pakbuild"
)

// elf is the beginning of an executable for a machine.
func elf(machine uint16) string {
	head := make([]byte, 64)
	copy(head, "\x7fELF")
	binary.LittleEndian.PutUint16(head[18:], machine)
	return string(head)
}

var _ = Describe("an archive", func() {
	const limit = 1 << 20
	link := entry{"tofu", "/bin/sh", fs.ModeSymlink | 0o777}
	tofu := entry{"tofu", script, 0o755}
	noise := entry{"noise", strings.Repeat("0123456789abcdef", 256), 0o644}

	// buildWith builds with an archive as the only entry.
	buildWith := func(name, data string) error {
		GinkgoHelper()
		dir := newPak("name: tofu, version: 1.6.0, url_template: " + name)
		write(filepath.Join(dir, name), data)
		_, _, err := build(dir, func(o *pakbuild.Options) { o.MaxBinary = limit })
		return err
	}

	DescribeTable("is unpacked", func(data func() string) {
		Expect(buildWith("file", data())).To(Succeed())
	},
		Entry("zip", func() string { return zipOf(entry{"dir/", "", fs.ModeDir | 0o755}, tofu, noise) }),
		Entry("zip without modes", func() string { return zipOf(entry{"tofu", script, 0}) }),
		Entry("tar", func() string { return tarOf(tofu, noise) }),
		Entry("tar.gz", func() string { return gzipped(tarOf(tofu, noise)) }),
		Entry("tar.bz2", func() string { return read("testdata/tofu.tar.bz2") }),
		Entry("a plain file named tofu in a zip of its own", func() string { return zipOf(tofu) }),
	)

	DescribeTable("is refused", func(name string, data func() string, message string) {
		Expect(buildWith(name, data())).To(MatchError(And(
			ContainSubstring("manifest.yml:8:3: tofu 1.6.0 for linux/amd64: "), ContainSubstring(message))))
	},
		Entry("zip with a file above it", "x.zip", func() string { return zipOf(tofu, entry{"../evil", "x", 0o644}) },
			`x.zip: the archive holds a file "../evil", which leads outside of it [archive]`),
		Entry("zip with backslashes", "x.zip", func() string { return zipOf(tofu, entry{`a\..\..\evil`, "x", 0o644}) }, "leads outside of it"),
		Entry("zip with an absolute file", "x.zip", func() string { return zipOf(tofu, entry{"/evil", "x", 0o644}) }, "leads outside of it"),
		Entry("zip with a link", "x.zip", func() string { return zipOf(link) }, `"tofu" is a symbolic link; only plain files are allowed [archive]`),
		Entry("zip with a file twice", "x.zip", func() string { return zipOf(tofu, entry{"./tofu", "evil", 0o755}) }, `the archive holds two files "tofu"`),
		Entry("zip that is a bomb", "x.zip", func() string { return zipOf(tofu, entry{"zeros", strings.Repeat("\x00", 2*limit), 0o644}) },
			"it unpacks to more than 1.0 MB"),
		Entry("zip that is a bomb as a whole", "x.zip", func() string {
			return zipOf(tofu, entry{"a", strings.Repeat("\x00", limit/2), 0o644}, entry{"b", strings.Repeat("\x00", limit/2), 0o644})
		}, "it unpacks to more than 1.0 MB"),
		Entry("zip that lies about its sizes", "x.zip", func() string {
			data := zipOf(tofu, entry{"zeros", strings.Repeat("\x00", 2*limit), 0o644})
			var right, wrong [4]byte
			binary.LittleEndian.PutUint32(right[:], 2*limit)
			binary.LittleEndian.PutUint32(wrong[:], 10)
			return strings.ReplaceAll(data, string(right[:]), string(wrong[:]))
		}, "the archive is broken or not complete"),
		Entry("zip that was cut off", "x.zip", func() string { return zipOf(tofu, noise)[:120] }, "the archive is broken or not complete"),
		Entry("zip with a wrong checksum", "x.zip", func() string {
			var right [4]byte
			binary.LittleEndian.PutUint32(right[:], crc32.ChecksumIEEE([]byte(script)))
			return strings.ReplaceAll(zipOf(tofu), string(right[:]), "\x00\x00\x00\x01")
		}, "the archive is broken: tofu: zip: checksum error"),
		Entry("tar with a file above it", "x.tar", func() string { return tarOf(tofu, entry{"../evil", "x", 0o644}) }, "leads outside of it"),
		Entry("tar with a link", "x.tar", func() string { return tarOf(link) }, `"tofu" is a symbolic link`),
		Entry("tar with a file twice", "x.tar", func() string { return tarOf(tofu, tofu) }, `the archive holds two files "tofu"`),
		Entry("tar that is a bomb", "x.tgz", func() string { return gzipped(tarOf(tofu, entry{"zeros", strings.Repeat("\x00", 2*limit), 0o644})) },
			"it unpacks to more than 1.0 MB"),
		Entry("tar with a bomb behind its end", "x.tgz", func() string { return gzipped(tarOf(tofu) + strings.Repeat("\x00", 2*limit)) },
			"there is more than 1.0 MB behind the end of the archive"),
		Entry("tar that was cut off in a file", "x.tar", func() string { return tarOf(tofu, noise)[:2048] }, "the archive is broken or not complete"),
		Entry("tar that was cut off between files", "x.tar", func() string { return tarOf(tofu, noise)[:1024] }, "the end of the archive is missing"),
		Entry("tar.gz that was cut off", "x.tgz", func() string { data := gzipped(tarOf(tofu)); return data[:len(data)-6] },
			"the archive is broken or not complete"),
		Entry("tar.gz with a wrong checksum", "x.tgz", func() string {
			data := gzipped(tarOf(tofu))
			return data[:len(data)-8] + "\x00\x00\x00\x00" + data[len(data)-4:]
		}, "the archive is broken: gzip: invalid checksum"),
		Entry("xz", "x.tar.xz", func() string { return "\xfd7zXZ\x00" }, "xz archives are not supported; use zip, tar, tar.gz or tar.bz2"),
		Entry("zstd", "x.tar.zst", func() string { return "\x28\xb5\x2f\xfd" }, "zstd archives are not supported"),
		Entry("a page in place of it", "x.zip", func() string { return "<html>log in</html>" }, "it is no archive, in spite of its name"),
		Entry("without the binary", "x.zip", func() string { return zipOf(entry{"terraform", script, 0o755}, noise) },
			"x.zip has no single file named tofu, but: noise, terraform [binary-name]"),
		Entry("with the binary in a directory", "x.zip", func() string { return zipOf(entry{"tofu_1.6.0/tofu", script, 0o755}) },
			"has no single file named tofu, but: tofu_1.6.0/tofu"),
		Entry("with nothing", "x.zip", func() string { return zipOf() }, "has no single file named tofu, but: nothing"),
		Entry("with a binary for another machine", "x.zip", func() string { return zipOf(entry{"tofu", elf(183), 0o755}) },
			"tofu is made for arm64 [binary-platform]"),
		Entry("a plain file of another name", "terraform", func() string { return script }, "terraform has no single file named tofu, but: terraform"),
	)

	It("writes nothing outside of its place", func() {
		parent := GinkgoT().TempDir()
		dir := filepath.Join(parent, "in")
		Expect(os.Mkdir(dir, 0o700)).To(Succeed())
		file := write(filepath.Join(GinkgoT().TempDir(), "x"), zipOf(entry{"../evil", "x", 0o644}))
		_, err := pakbuild.UnpackFile(file, dir, limit)
		Expect(err).To(HaveOccurred())
		Expect(filepath.Glob(filepath.Join(parent, "*"))).To(Equal([]string{dir}))
	})

	DescribeTable("of a provider", func(name string, succeeds bool) {
		dir := newPak("name: tofu, version: 1.6.0", "name: terraform-provider-x, version: '1.0', url_template: x.zip")
		write(filepath.Join(dir, "x.zip"), zipOf(entry{name, elf(62), 0o644}))
		_, _, err := build(dir, from("tofu", write(filepath.Join(dir, "tofu"), script)))
		if succeeds {
			Expect(err).NotTo(HaveOccurred())
		} else {
			Expect(err).To(MatchError(ContainSubstring("x.zip has no single file named terraform-provider-x_v1.0.0, but: " + name)))
		}
	},
		Entry("may be named plainly", "terraform-provider-x_v1.0.0", true),
		Entry("may have the protocol in its name", "terraform-provider-x_v1.0.0_x5", true),
		Entry("must have its version in its name", "terraform-provider-x", false),
		Entry("must have this version in its name", "terraform-provider-x_v1.0.01", false),
	)

	It("may replace the texts of others, never their executables", func() {
		build3 := func(second string) error {
			dir := newPak("name: tofu, version: 1.6.0", "name: a, version: 1, url_template: a.zip", "name: b, version: 1, url_template: b.zip")
			write(filepath.Join(dir, "a.zip"), zipOf(entry{"a", script, 0o755}, entry{"LICENSE", "a", 0o755}))
			write(filepath.Join(dir, "b.zip"), zipOf(entry{"b", script, 0o755}, entry{second, "b", 0o755}))
			_, _, err := build(dir, from("tofu", write(filepath.Join(dir, "tofu"), script)))
			return err
		}
		Expect(build3("LICENSE")).To(Succeed())
		Expect(build3("a")).To(MatchError(ContainSubstring("b 1 for linux/amd64: it brings another bin/linux/amd64/a, which belongs to a 1 [duplicate]")))
	})
})
