package lint_test

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/author/lint"
	"service-adapter/internal/author/release"
	"service-adapter/internal/diag"
)

// writePak writes the base pak with these files into a new directory and returns it. A text for service.yml or
// manifest.yml replaces only its own top-level keys; every other text replaces the whole file.
func writePak(files map[string]string) string {
	GinkgoHelper()
	root := GinkgoT().TempDir()
	Expect(os.CopyFS(root, os.DirFS("testdata/base"))).To(Succeed())
	for name, content := range files {
		path := filepath.Join(root, name)
		if name == "service.yml" || name == "manifest.yml" {
			base, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			content = overlay(string(base), content)
		}
		Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	}
	return root
}

// topLevel matches a line that begins a top-level key.
var topLevel = regexp.MustCompile(`(?m)^[^\s#-]|^---$`)

// overlay replaces the top-level keys of a YAML text that the content contains, and appends new keys. It works on
// lines, because the content of a test may be invalid YAML.
func overlay(base, content string) string {
	replaced := map[string]bool{}
	for _, section := range sections(content) {
		replaced[keyOf(section)] = true
	}
	var kept strings.Builder
	for _, section := range sections(base) {
		if !replaced[keyOf(section)] {
			kept.WriteString(section)
		}
	}
	return kept.String() + content
}

func sections(text string) []string {
	var all []string
	starts := topLevel.FindAllStringIndex(text, -1)
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		all = append(all, text[start[0]:end])
	}
	return all
}

func keyOf(section string) string {
	key, _, _ := strings.Cut(section, ":")
	return key
}

// lintPak returns the findings in a pak, without its path, and the whole report. It leaves out that nothing pins the
// binaries, because the base pak and the examples have no lock.
func lintPak(path string, releases ...*release.Release) ([]diag.Diagnostic, *lint.Report) {
	GinkgoHelper()
	found, report := lintAll(path, releases...)
	return slices.DeleteFunc(found, func(item diag.Diagnostic) bool { return item.Rule == "unpinned" }), report
}

// lintAll returns all findings in a pak, without its path, and the whole report.
func lintAll(path string, releases ...*release.Release) ([]diag.Diagnostic, *lint.Report) {
	GinkgoHelper()
	report, err := lint.Lint(GinkgoT().Context(), path, releases...)
	Expect(err).NotTo(HaveOccurred())
	found := make([]diag.Diagnostic, len(report.Diagnostics))
	for i, item := range report.Diagnostics {
		item.Pos.File = strings.TrimPrefix(strings.TrimPrefix(item.Pos.File, path), "/")
		item.Message = strings.ReplaceAll(item.Message, path+"/", "")
		found[i] = item
	}
	return found, report
}

// writeReleases writes the files of releases, whose paths begin with the names of the releases, and opens the releases.
func writeReleases(files map[string]string) []*release.Release {
	GinkgoHelper()
	root := GinkgoT().TempDir()
	var releases []*release.Release
	for name, content := range files {
		owner, _, _ := strings.Cut(name, "/")
		files := map[string]string{name: content, owner + "/config/final.yml": "name: " + owner + "\n"}
		for name, content := range files {
			path := filepath.Join(root, name)
			Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
			Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
		}
	}
	directories, err := os.ReadDir(root)
	Expect(err).NotTo(HaveOccurred())
	for _, directory := range directories {
		releases = append(releases, openRelease(filepath.Join(root, directory.Name())))
	}
	return releases
}

// openRelease opens a release.
func openRelease(path string) *release.Release {
	GinkgoHelper()
	opened, err := release.Open(GinkgoT().Context(), path, "")
	Expect(err).NotTo(HaveOccurred())
	return opened
}

// lintExcerpt returns the findings in a pak, of which the test only writes the part that matters. Whether something
// uses an input or a secret does not matter then.
func lintExcerpt(files map[string]string, releases ...*release.Release) []diag.Diagnostic {
	GinkgoHelper()
	found, _ := lintPak(writePak(files), releases...)
	return slices.DeleteFunc(found, func(item diag.Diagnostic) bool { return item.Rule == "unused" })
}

// lines renders findings as the command does, without snippets.
func lines(found []diag.Diagnostic) []string {
	all := []string{}
	for _, item := range found {
		all = append(all, item.String())
	}
	return all
}

// zipped packs a directory as a brokerpak.
func zipped(root string) string {
	GinkgoHelper()
	name := filepath.Join(GinkgoT().TempDir(), "x.brokerpak")
	file, err := os.Create(name)
	Expect(err).NotTo(HaveOccurred())
	archive := zip.NewWriter(file)
	Expect(archive.AddFS(os.DirFS(root))).To(Succeed())
	Expect(archive.Close()).To(Succeed())
	Expect(io.Closer(file).Close()).To(Succeed())
	return name
}
