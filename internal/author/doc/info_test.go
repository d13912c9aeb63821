package doc_test

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/doc"
)

// zipped writes a zip of a pak's directory and returns its path.
func zipped(dir string) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "test.brokerpak")
	file, err := os.Create(path)
	Expect(err).NotTo(HaveOccurred())
	archive := zip.NewWriter(file)
	Expect(archive.AddFS(os.DirFS(dir))).To(Succeed())
	Expect(archive.Close()).To(Succeed())
	Expect(file.Close()).To(Succeed())
	return path
}

func summary(path string) doc.Info {
	GinkgoHelper()
	info, err := doc.NewInfo(openPak(path))
	Expect(err).NotTo(HaveOccurred())
	return info
}

var _ = Describe("the summary", func() {
	DescribeTable("equals its golden file", func(path, name string) {
		info := summary(path)
		var text strings.Builder
		Expect(info.WriteText(&text)).To(Succeed())
		expectGolden(name+".info.txt", text.String())
		encoded, err := json.MarshalIndent(info, "", "  ")
		Expect(err).NotTo(HaveOccurred())
		expectGolden(name+".info.json", string(encoded)+"\n")
	},
		Entry("for the pak with everything", everything, "everything"),
		Entry("for redis", parityPak(), "redis"),
	)

	It("lists the files of a zip", func() {
		info := summary(zipped(everything))
		Expect(info.Contents).To(ContainElement(And(
			HaveField("Name", "manifest.yml"), HaveField("Mode", HavePrefix("-r")),
			HaveField("Size", BeNumerically(">", 500)),
		)))
		var text strings.Builder
		Expect(info.WriteText(&text)).To(Succeed())
		Expect(text.String()).To(MatchRegexp(`(?m)^Contents\n  MODE +SIZE +NAME\n`))
	})

	It("has lists, never null, in JSON", func() {
		encoded, err := json.Marshal(summary(parityPak()))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(encoded)).NotTo(ContainSubstring("null"))
		empty, err := doc.NewInfo(&brokerpak.Pak{})
		Expect(err).NotTo(HaveOccurred())
		encoded, err = json.Marshal(empty)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(encoded)).NotTo(ContainSubstring("null"))
	})

	It("shows no control characters of the pak", func() {
		info := doc.Info{Name: "red\x1b[31m", Version: "1\n2"}
		var text strings.Builder
		Expect(info.WriteText(&text)).To(Succeed())
		Expect(text.String()).To(ContainSubstring("red[31m\n"))
		Expect(text.String()).To(ContainSubstring("1 2\n"))
	})

	It("returns the error of the writer", func() {
		Expect(summary(everything).WriteText(full{})).To(MatchError(errFull))
	})
})

var errFull = errors.New("no space left")

// full is a writer on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
