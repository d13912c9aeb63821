package brokerpak_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
)

// link returns a change that adds a symbolic link to a zip.
func link(name, target string) func(*zip.Writer) {
	return func(writer *zip.Writer) {
		GinkgoHelper()
		header := &zip.FileHeader{Name: name}
		header.SetMode(fs.ModeSymlink | 0o777)
		file, err := writer.CreateHeader(header)
		Expect(err).NotTo(HaveOccurred())
		_, err = file.Write([]byte(target))
		Expect(err).NotTo(HaveOccurred())
	}
}

// crowd returns a change that adds the given number of empty files to a zip.
func crowd(count int) func(*zip.Writer) {
	return func(writer *zip.Writer) {
		GinkgoHelper()
		for i := range count {
			_, err := writer.Create(fmt.Sprintf("notes/%030d", i))
			Expect(err).NotTo(HaveOccurred())
		}
	}
}

// claims returns a change that adds an empty file whose header declares the given unpacked size.
func claims(name string, size uint64) func(*zip.Writer) {
	return func(writer *zip.Writer) {
		GinkgoHelper()
		_, err := writer.CreateRaw(&zip.FileHeader{Name: name, UncompressedSize64: size})
		Expect(err).NotTo(HaveOccurred())
	}
}

var _ = Describe("the zip of a pak", func() {
	It("is accepted with the maximum number of files and the maximum size of the binaries of each platform", func() {
		name := zipped(newPak(nil), crowd(brokerpak.MaxFiles-10), claims("bin/linux/amd64/a", 4<<30),
			claims("bin/darwin/arm64/a", 4<<30), entry("bin/linux/note", ""))
		Expect(open(name).Service("mail")).NotTo(BeNil())
	})

	It("is opened without reading its binaries", func() {
		dir := newPak(nil)
		marker := []byte("the binary begins here")
		name := zipped(dir, func(writer *zip.Writer) {
			const provider = "bin/linux/amd64/terraform-provider-x_v1.0.0"
			file, err := writer.CreateHeader(&zip.FileHeader{Name: provider, Method: zip.Store})
			Expect(err).NotTo(HaveOccurred())
			for _, block := range [][]byte{marker, make([]byte, 1<<20)} {
				_, err = file.Write(block)
				Expect(err).NotTo(HaveOccurred())
			}
		})
		data, err := os.ReadFile(name)
		Expect(err).NotTo(HaveOccurred())
		start := bytes.Index(data, marker)
		Expect(start).To(BeNumerically(">", 0))
		for i := range 1 << 19 { // invalidates the checksum and the content of the binary
			data[start+i] ^= 0xA5
		}
		Expect(os.WriteFile(name, data, 0o600)).To(Succeed())

		Expect(outcome(name)).To(Equal(outcome(dir)))
	})

	It("may contain names with a leading ./", func() {
		name := filepath.Join(GinkgoT().TempDir(), "dots.brokerpak")
		file, err := os.Create(name)
		Expect(err).NotTo(HaveOccurred())
		writer := zip.NewWriter(file)
		for _, inside := range []string{"manifest.yml", "service.yml"} {
			text, err := os.ReadFile(filepath.Join(basePak, inside))
			Expect(err).NotTo(HaveOccurred())
			entry("./"+inside, string(text))(writer)
		}
		Expect(writer.Close()).To(Succeed())
		Expect(file.Close()).To(Succeed())
		Expect(open(name).Service("mail")).NotTo(BeNil())
	})

	It("is named in errors about its files", func() {
		_, err := brokerpak.Open(zipped(newPak(map[string]string{"service.yml": "version: 1\nname: [a]\n"})))
		Expect(err).To(MatchError(ContainSubstring("test.brokerpak!/service.yml:2:7: name must be a string")))
	})

	DescribeTable("is rejected", func(prepare func() string, message string) {
		pak, err := brokerpak.Open(prepare())
		Expect(err).To(MatchError(ContainSubstring(message)))
		Expect(pak).To(BeNil())
	},
		Entry("when it is a text file", func() string {
			name := filepath.Join(GinkgoT().TempDir(), "text.brokerpak")
			write(name, "not a zip")
			return name
		}, "it is neither a directory nor a brokerpak zip"),
		Entry("when it is empty", func() string {
			name := filepath.Join(GinkgoT().TempDir(), "empty.brokerpak")
			write(name, "")
			return name
		}, "it is neither a directory nor a brokerpak zip"),
		Entry("when it is truncated", func() string {
			name := zipped(newPak(nil))
			Expect(os.Truncate(name, 400)).To(Succeed())
			return name
		}, "it is neither a directory nor a brokerpak zip"),
		Entry("when it does not exist", func() string { return filepath.Join(GinkgoT().TempDir(), "none") },
			"no such file or directory"),
		Entry("without a manifest", func() string { return zipped(newPak(map[string]string{"manifest.yml": ""})) },
			"test.brokerpak: manifest.yml cannot be read: file does not exist"),
		Entry("with a file above its root", func() string { return zipped(newPak(nil), entry("../manifest.yml", "x")) },
			`the zip contains a file "../manifest.yml", whose path leads outside of the pak`),
		Entry("with .. in the middle of a path", func() string {
			return zipped(newPak(nil), entry("bin/linux/amd64/../../../../evil", "x"))
		}, "whose path leads outside of the pak"),
		Entry("with .. between backslashes", func() string { return zipped(newPak(nil), entry(`bin\..\..\evil`, "x")) },
			"whose path leads outside of the pak"),
		Entry("with an absolute path", func() string { return zipped(newPak(nil), entry("/etc/passwd", "x")) },
			"whose path leads outside of the pak"),
		Entry("with a duplicate file",
			func() string { return zipped(newPak(nil), entry("service.yml", "name: other")) },
			`the zip contains two files named "service.yml"`),
		Entry("with a duplicate file whose path is spelled differently", func() string {
			return zipped(newPak(nil), entry("./bosh//mail.yml", "x"))
		}, `the zip contains two files named "bosh/mail.yml"`),
		Entry("when its manifest is a link", func() string {
			without := newPak(map[string]string{"manifest.yml": ""})
			return zipped(without, entry("real.yml", "packversion: 1"), link("manifest.yml", "real.yml"))
		}, "manifest.yml cannot be read: it is not a regular file"),
		Entry("when a definition is a link", func() string {
			return zipped(newPak(map[string]string{"service.yml": ""}), link("service.yml", "/etc/passwd"))
		}, `service definition "service.yml" cannot be read: it is not a regular file`),
		Entry("when a text file unpacks to more than its limit", func() string {
			return zipped(newPak(map[string]string{"service.yml": ""}),
				entry("service.yml", strings.Repeat("#\n", 4<<20)))
		}, "the file is larger than 4 MB"),
		Entry("with too many files", func() string { return zipped(newPak(nil), crowd(brokerpak.MaxFiles)) },
			"test.brokerpak: the zip contains 10007 files; a pak may contain at most 10000"),
		Entry("with a central directory that is too large", func() string { return zipped(newPak(nil), crowd(60_000)) },
			"test.brokerpak: the central directory of the zip is larger than 4 MB; a pak may contain at most 10000 "+
				"files"),
		Entry("with a large central directory that declares to be small", func() string {
			name := zipped(newPak(nil), crowd(60_000))
			data, err := os.ReadFile(name)
			Expect(err).NotTo(HaveOccurred())
			// The record at the end of the zip contains the number of entries, and the length and offset of the central
			// directory. The values written here are small, so that the reader does not look for the zip64 record.
			end := data[len(data)-22:]
			copy(end[8:], []byte{1, 0, 1, 0, 1, 0, 0, 0})
			at := bytes.Index(data, []byte("PK\x01\x02"))
			copy(end[16:], []byte{byte(at), byte(at >> 8), byte(at >> 16), byte(at >> 24)})
			Expect(os.WriteFile(name, data, 0o600)).To(Succeed())
			return name
		}, "the zip is larger than 4 MB"),
		Entry("when its binaries for a platform are too large", func() string {
			return zipped(newPak(nil), claims("bin/linux/amd64/a", 3<<30), claims("bin/darwin/arm64/a", 3<<30),
				claims("./bin/linux/amd64/1.12.6/tofu", 1<<30+1))
		}, "test.brokerpak: the binaries for linux/amd64 unpack to more than 4 GB"),
		Entry("when the sum of the sizes of its binaries overflows", func() string {
			return zipped(newPak(nil), claims("bin/linux/amd64/a", 1<<63), claims("bin/linux/amd64/b", 1<<63))
		}, "the binaries for linux/amd64 unpack to more than 4 GB"),
		Entry("when a text file does not match its checksum", func() string {
			name := zipped(newPak(map[string]string{"service.yml": ""}), func(writer *zip.Writer) {
				file, err := writer.CreateHeader(&zip.FileHeader{Name: "service.yml", Method: zip.Store})
				Expect(err).NotTo(HaveOccurred())
				_, err = file.Write([]byte("# changed later\n"))
				Expect(err).NotTo(HaveOccurred())
			})
			data, err := os.ReadFile(name)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(name, bytes.Replace(data, []byte("changed"), []byte("CHANGED"), 1),
				0o600)).To(Succeed())
			return name
		}, "checksum error"),
	)
})

var _ = Describe("the directory of a pak", func() {
	It("is rejected without a manifest", func() {
		dir := newPak(map[string]string{"manifest.yml": ""})
		_, err := brokerpak.Open(dir)
		Expect(err).To(MatchError("opening pak " + dir + ": manifest.yml cannot be read: no such file or directory"))
	})

	It("is rejected with a text file that is too large", func() {
		_, err := brokerpak.Open(newPak(map[string]string{"service.yml": strings.Repeat("#\n", 4<<20)}))
		Expect(err).To(MatchError(ContainSubstring("the file is larger than 4 MB")))
	})

	It("returns services by name, and plans by name or id", func() {
		pak := open(newPak(nil, "testdata/ok/service-everything"))
		service := pak.Service("everything.mail-1")
		Expect(service.EnvName()).To(Equal("EVERYTHING_MAIL_1"))
		Expect(service.Plan("large")).To(BeIdenticalTo(service.Plan("3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e12")))
		Expect(service.Plan("")).To(BeNil())
		Expect(service.Plan("huge")).To(BeNil())
		Expect(pak.Service("mail")).To(BeNil())
	})

	It("returns the keys of variables that its expressions use", func() {
		service := open(newPak(nil, "testdata/ok/service-everything")).Service("everything.mail-1")
		keys, all := service.Bind.KeysRead("request.plan_properties")
		Expect(keys).To(Equal([]string{"size"}), "a condition of bind reads it")
		Expect(all).To(BeFalse())
		keys, all = service.Provision.KeysRead("request.default_labels")
		Expect(keys).To(BeEmpty())
		Expect(all).To(BeTrue())
		Expect(service.Provision.InputNames()).To(Equal([]string{
			"anything", "database", "hour", "labels", "port", "role", "since", "size", "unchecked",
		}))
	})
})
