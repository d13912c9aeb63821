package paklint_test

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/diag"
	"service-adapter/internal/paklint"
)

// writePak makes a directory of the base pak with files laid over it: of the YAML files in its root only the given top-level
// keys are replaced, others are the given text.
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

// overlay replaces top-level keys of a YAML text; new ones are appended. It works on lines, because examples may be no YAML.
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

// lint returns the findings in a pak, without its path, and the whole report.
func lint(path string) ([]diag.Diagnostic, *paklint.Report) {
	GinkgoHelper()
	report, err := paklint.Lint(GinkgoT().Context(), path)
	Expect(err).NotTo(HaveOccurred())
	found := make([]diag.Diagnostic, len(report.Diagnostics))
	for i, item := range report.Diagnostics {
		item.Pos.File = strings.TrimPrefix(strings.TrimPrefix(item.Pos.File, path), "/")
		item.Message = strings.ReplaceAll(item.Message, path+"/", "")
		found[i] = item
	}
	return found, report
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
