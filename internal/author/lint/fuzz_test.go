package lint_test

import (
	"os"
	"path/filepath"
	"testing"

	"service-adapter/internal/author/lint"
	"service-adapter/internal/author/release"
)

// FuzzLint looks at paks with any definition and any manifest template, and compares them with releases: it must not
// panic, and must say the same twice.
func FuzzLint(f *testing.F) {
	base, err := os.ReadFile("testdata/base/service.yml")
	if err != nil {
		f.Fatal(err)
	}
	for _, rule := range documentedRules() {
		f.Add(overlay(string(base), rule.bad["service.yml"]), rule.bad["bosh/manifest.yml"],
			rule.bad["bosh/ops/more.yml"])
	}
	var compared []*release.Release
	for _, name := range []string{"postgres", "pxc"} {
		opened, err := release.Open(f.Context(), testReleases+name, "")
		if err != nil {
			f.Fatal(err)
		}
		compared = append(compared, opened)
	}
	f.Add(string(base), mysqlManifest, "- {type: replace, path: /instance_groups/0/jobs/-, value: {name: postgres}}\n")
	f.Fuzz(func(t *testing.T, service, manifest, ops string) {
		pak := t.TempDir()
		if err := os.CopyFS(pak, os.DirFS("testdata/base")); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{
			"service.yml": service, "bosh/manifest.yml": manifest,
			"bosh/ops/more.yml": ops,
		} {
			path := filepath.Join(pak, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		first, err := lint.Lint(t.Context(), pak, compared...)
		if err != nil {
			t.Fatal(err)
		}
		second, err := lint.Lint(t.Context(), pak, compared...)
		if err != nil {
			t.Fatal(err)
		}
		if len(first.Diagnostics) != len(second.Diagnostics) {
			t.Fatalf("%v\n%v", first.Diagnostics, second.Diagnostics)
		}
		for i, item := range first.Diagnostics {
			if item != second.Diagnostics[i] {
				t.Fatalf("%v\n%v", item, second.Diagnostics[i])
			}
		}
	})
}
