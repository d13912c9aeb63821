package build_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/build"
)

// elf returns the beginning of an executable for a machine.
func elf(machine uint16) string {
	head := make([]byte, 64)
	copy(head, "\x7fELF")
	binary.LittleEndian.PutUint16(head[18:], machine)
	return string(head)
}

// canceler is a writer of progress that ends a context at the first message, which precedes the reading of the file
// that it names.
type canceler context.CancelFunc

func (c canceler) Write(text []byte) (int, error) {
	c()
	return len(text), nil
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
		_, _, err := buildPak(dir, func(o *build.Options) { o.MaxBinary = limit })
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

	DescribeTable("is rejected", func(name string, data func() string, message string) {
		Expect(buildWith(name, data())).To(MatchError(And(
			ContainSubstring("manifest.yml:8:3: tofu 1.6.0 for linux/amd64: "), ContainSubstring(message))))
	},
		Entry("zip with a file above it", "x.zip", func() string { return zipOf(tofu, entry{"../evil", "x", 0o644}) },
			`x.zip: the archive contains a file "../evil", which leads outside of it [archive]`),
		Entry("zip with backslashes", "x.zip", func() string {
			return zipOf(tofu, entry{`a\..\..\evil`, "x", 0o644})
		}, "leads outside of it"),
		Entry("zip with an absolute file", "x.zip", func() string {
			return zipOf(tofu, entry{"/evil", "x", 0o644})
		}, "leads outside of it"),
		Entry("zip with a link", "x.zip", func() string {
			return zipOf(link)
		}, `"tofu" is a symbolic link; only plain files are allowed [archive]`),
		Entry("zip with a file twice", "x.zip", func() string {
			return zipOf(tofu, entry{"./tofu", "evil", 0o755})
		}, `the archive contains two files "tofu"`),
		Entry("zip that is a bomb", "x.zip", func() string {
			return zipOf(tofu, entry{"zeros", strings.Repeat("\x00", 2*limit), 0o644})
		},
			"it unpacks to more than 1.0 MB"),
		Entry("zip that is a bomb as a whole", "x.zip", func() string {
			return zipOf(tofu, entry{"a", strings.Repeat("\x00", limit/2), 0o644},
				entry{"b", strings.Repeat("\x00", limit/2), 0o644})
		}, "it unpacks to more than 1.0 MB"),
		Entry("zip that lies about its sizes", "x.zip", func() string {
			data := zipOf(tofu, entry{"zeros", strings.Repeat("\x00", 2*limit), 0o644})
			var right, wrong [4]byte
			binary.LittleEndian.PutUint32(right[:], 2*limit)
			binary.LittleEndian.PutUint32(wrong[:], 10)
			return strings.ReplaceAll(data, string(right[:]), string(wrong[:]))
		}, "the archive is broken or not complete"),
		Entry("zip that was cut off", "x.zip", func() string {
			return zipOf(tofu, noise)[:120]
		}, "the archive is broken or not complete"),
		Entry("zip with a wrong checksum", "x.zip", func() string {
			var right [4]byte
			binary.LittleEndian.PutUint32(right[:], crc32.ChecksumIEEE([]byte(script)))
			return strings.ReplaceAll(zipOf(tofu), string(right[:]), "\x00\x00\x00\x01")
		}, "the archive is broken: tofu: zip: checksum error"),
		Entry("tar with a file above it", "x.tar", func() string {
			return tarOf(tofu, entry{"../evil", "x", 0o644})
		}, "leads outside of it"),
		Entry("tar with a link", "x.tar", func() string { return tarOf(link) }, `"tofu" is a symbolic link`),
		Entry("tar with a file twice", "x.tar", func() string {
			return tarOf(tofu, tofu)
		}, `the archive contains two files "tofu"`),
		Entry("tar that is a bomb", "x.tgz", func() string {
			return gzipped(tarOf(tofu, entry{"zeros", strings.Repeat("\x00", 2*limit), 0o644}))
		},
			"it unpacks to more than 1.0 MB"),
		Entry("tar with a bomb behind its end", "x.tgz", func() string {
			return gzipped(tarOf(tofu) + strings.Repeat("\x00", 2*limit))
		},
			"there is more than 1.0 MB after the end of the archive"),
		Entry("tar that was cut off in a file", "x.tar", func() string {
			return tarOf(tofu, noise)[:2048]
		}, "the archive is broken or not complete"),
		Entry("tar that was cut off between files", "x.tar", func() string {
			return tarOf(tofu, noise)[:1024]
		}, "the end of the archive is missing"),
		Entry("tar.gz that was cut off", "x.tgz", func() string {
			data := gzipped(tarOf(tofu))
			return data[:len(data)-6]
		},
			"the archive is broken or not complete"),
		Entry("tar.gz with a wrong checksum", "x.tgz", func() string {
			data := gzipped(tarOf(tofu))
			return data[:len(data)-8] + "\x00\x00\x00\x00" + data[len(data)-4:]
		}, "the archive is broken: gzip: invalid checksum"),
		Entry("xz", "x.tar.xz", func() string {
			return "\xfd7zXZ\x00"
		}, "xz archives are not supported; use zip, tar, tar.gz or tar.bz2"),
		Entry("zstd", "x.tar.zst", func() string { return "\x28\xb5\x2f\xfd" }, "zstd archives are not supported"),
		Entry("an HTML page instead of an archive", "x.zip", func() string {
			return "<html>log in</html>"
		}, "its name is that of an archive, but its content is not an archive"),
		Entry("without the binary", "x.zip", func() string { return zipOf(entry{"terraform", script, 0o755}, noise) },
			"x.zip must contain exactly one file named tofu; it contains: noise, terraform [binary-name]"),
		Entry("with the binary in a directory", "x.zip", func() string {
			return zipOf(entry{"tofu_1.6.0/tofu", script, 0o755})
		},
			"must contain exactly one file named tofu; it contains: tofu_1.6.0/tofu"),
		Entry("without any file", "x.zip", func() string {
			return zipOf()
		}, "must contain exactly one file named tofu; it contains: nothing"),
		Entry("with a binary for another machine", "x.zip", func() string {
			return zipOf(entry{"tofu", elf(183), 0o755})
		},
			"tofu is an executable for arm64 [binary-platform]"),
		Entry("a plain file of another name", "terraform", func() string {
			return script
		}, "terraform must contain exactly one file named tofu; it contains: terraform"),
	)

	It("writes no file outside of the directory of the pak", func() {
		parent := GinkgoT().TempDir()
		dir := filepath.Join(parent, "in")
		Expect(os.Mkdir(dir, 0o700)).To(Succeed())
		file := write(filepath.Join(GinkgoT().TempDir(), "x"), zipOf(entry{"../evil", "x", 0o644}))
		_, err := build.UnpackFile(file, dir, limit)
		Expect(err).To(HaveOccurred())
		Expect(filepath.Glob(filepath.Join(parent, "*"))).To(Equal([]string{dir}))
	})

	// directories returns a tar archive of directories, whose headers contain comments of this number of bytes.
	directories := func(count, comment int) string {
		GinkgoHelper()
		var out bytes.Buffer
		writer := tar.NewWriter(&out)
		header := &tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}
		if comment > 0 {
			header.PAXRecords = map[string]string{"comment": strings.Repeat("x", comment)}
		}
		for i := range count {
			header.Name = fmt.Sprintf("%d/", i)
			Expect(writer.WriteHeader(header)).To(Succeed())
		}
		Expect(writer.Close()).To(Succeed())
		return out.String()
	}

	DescribeTable("may have only limited headers and padding", func(name string, data func() string, message string) {
		Expect(buildWith(name, data())).To(MatchError(ContainSubstring(message)))
	},
		Entry("tar of directories", "x.tgz", func() string { return gzipped(directories(brokerpak.MaxFiles+1, 0)) },
			"the archive contains more than 10000 files and directories [archive]"),
		Entry("tar with large headers", "x.tgz", func() string {
			return gzipped(directories(70, 1_000_000))
		}, "it unpacks to more than 1.0 MB"),
		Entry("zip of directories", "x.zip", func() string {
			return zipOf(slices.Repeat([]entry{{"d/", "", fs.ModeDir | 0o755}}, brokerpak.MaxFiles+1)...)
		}, "the archive contains more than 10000 files and directories [archive]"),
	)

	// A wrong checksum and the lack of an executable are found only if all of the file is read.
	DescribeTable("is read no further when the context ends", func(reference string) {
		dir := newPak("name: tofu, version: 1.6.0, url_template: '" + reference + "'")
		write(filepath.Join(dir, "x.tgz"), gzipped(directories(brokerpak.MaxFiles, 0)))
		ctx, cancel := context.WithCancel(context.Background())
		_, err := build.Build(ctx, build.Options{
			Dir: dir, Output: filepath.Join(GinkgoT().TempDir(), "x"), Progress: canceler(cancel), Getenv: os.LookupEnv,
		})
		Expect(err).To(MatchError(context.Canceled))
	},
		Entry("while it is unpacked", "x.tgz"),
		Entry("while it is verified", "x.tgz?checksum=sha256:"+strings.Repeat("0", 64)),
	)

	DescribeTable("of a provider", func(name string, succeeds bool) {
		dir := newPak("name: tofu, version: 1.6.0", "name: terraform-provider-x, version: '1.0', url_template: x.zip")
		write(filepath.Join(dir, "x.zip"), zipOf(entry{name, elf(62), 0o644}))
		_, _, err := buildPak(dir, from("tofu", write(filepath.Join(dir, "tofu"), script)))
		if succeeds {
			Expect(err).NotTo(HaveOccurred())
		} else {
			Expect(err).To(
				MatchError(ContainSubstring("x.zip must contain exactly one file named terraform-provider-x_v1.0.0; " +
					"it contains: " +
					name)))
		}
	},
		Entry("may be named plainly", "terraform-provider-x_v1.0.0", true),
		Entry("may have the protocol in its name", "terraform-provider-x_v1.0.0_x5", true),
		Entry("must have its version in its name", "terraform-provider-x", false),
		Entry("must have this version in its name", "terraform-provider-x_v1.0.01", false),
	)

	It("may replace the text files of other entries, but not their executables", func() {
		build3 := func(second string) error {
			dir := newPak("name: tofu, version: 1.6.0", "name: a, version: 1, url_template: a.zip",
				"name: b, version: 1, url_template: b.zip")
			write(filepath.Join(dir, "a.zip"), zipOf(entry{"a", script, 0o755}, entry{"LICENSE", "a", 0o755}))
			write(filepath.Join(dir, "b.zip"), zipOf(entry{"b", script, 0o755}, entry{second, "b", 0o755}))
			_, _, err := buildPak(dir, from("tofu", write(filepath.Join(dir, "tofu"), script)))
			return err
		}
		Expect(build3("LICENSE")).To(Succeed())
		Expect(build3("a")).To(
			MatchError(ContainSubstring("b 1 for linux/amd64: it contains another bin/linux/amd64/a, which belongs " +
				"to a 1 [duplicate]")))
	})
})
