package doc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/author/doc"
	"service-adapter/internal/author/release"
)

// FuzzTexts puts a text into every place of a pak where there may be any, and expects that it stays a text.
func FuzzTexts(f *testing.F) {
	for _, seed := range []string{
		"plain", "<script>alert(1)</script>", "a | b", "`` ` ``", "1. x", "- x", "# x", "a\nb\n\n---\n", `\`, `\|`,
		"{{.}}", "((x))",
		"\"'`", "]]>", "<!--", "&lt;", "yes", "010", "2020-01-01", "\u2028", "\u0000", "~~~", "```\n",
		"https://example.com", "$$",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	if err := os.CopyFS(dir, os.DirFS(everything)); err != nil {
		f.Fatal(err)
	}
	definition, err := os.ReadFile(filepath.Join(dir, "everything.yml"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, words string) {
		quoted, err := yaml.Marshal(words)
		if err != nil || strings.TrimSpace(words) == "" {
			t.Skip()
		}
		folded := strings.ReplaceAll(strings.TrimSuffix(string(quoted), "\n"), "\n", "\n        ")
		text := string(definition)
		for _, place := range []string{
			"One server for development", "10 connections", "The size of the servers", "the strictest",
			"The name of the first database",
			"A small database & a reader of it", "An order database", "Example & Sons", "Everything DB",
		} {
			text = strings.ReplaceAll(text, place, folded)
		}
		if err := os.WriteFile(filepath.Join(dir, "everything.yml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		pak, err := brokerpak.Open(dir)
		if err != nil {
			t.Skip() // an expression, or what YAML cannot write
		}
		checkTexts(t, pak)
	})
}

func checkTexts(t *testing.T, pak *brokerpak.Pak) {
	t.Helper()
	text, err := doc.Markdown(pak)
	if err != nil {
		t.Fatal(err)
	}
	if fault := unsound(text); fault != "" {
		t.Error(fault)
	}
	page, err := doc.HTML(pak)
	if err != nil {
		t.Fatal(err)
	}
	allowed := " html head meta title link style body header h1 h2 h3 h4 span ul li nav a main section div img p " +
		"article code dl dt dd strong pre "
	if err := elements(page, func(node *html.Node) {
		if !strings.Contains(allowed, " "+node.Data+" ") {
			t.Errorf("an element %q", node.Data)
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, service := range pak.Services {
		for _, write := range []func(*brokerpak.Manifest, *brokerpak.Service, ...*release.Release) (string, error){
			doc.Catalog, doc.CatalogWithErrands,
		} {
			catalog, err := write(&brokerpak.Manifest{Name: "fuzzed", Version: "1.2.3"}, service)
			if err != nil {
				t.Fatal(err)
			}
			var decoded map[string]any
			if err := yaml.Unmarshal([]byte(catalog), &decoded); err != nil {
				t.Errorf("%s\n%s", err, catalog)
			}
		}
	}
}
