package build_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/author/build"
)

// FuzzFlatYAML asserts that the flattened text has the same meaning, for a parser without aliases and merge keys.
func FuzzFlatYAML(f *testing.F) {
	for _, text := range []string{
		"a: &a {b: c}\nd: *a\n", "a: &a {b: 1}\nc: {<<: *a, d: 2}\n", "a: |\n  text\n   more\n",
		"a: >-\n  folded\n\n  text\n", "a: \"\\r\\n\"\n",
		"a: |2+\n   b\n\n", "- a\n", "a: 2026-01-31\nb: 0x19\nc: !!str 5\n", "? [a]\n: b\n", "a: 'it''s\n  long'\n",
		"{a: [b, {c: \"x\\ny\"}]}", "<<: {a: b}", "<<: {~: }", "<<: {4}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 4096 {
			return
		}
		flat, err := build.FlatYAML(text)
		if err != nil {
			return
		}
		var before, after any
		if err := yaml.Unmarshal(text, &before); err != nil {
			return // such as a key twice
		}
		if err := yaml.Unmarshal(flat, &after); err != nil {
			t.Fatalf("%q became %q: %s", text, flat, err)
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%q became %q: %#v, not %#v", text, flat, after, before)
		}
	})
}

// FuzzUnpackFile: no archive writes outside of its directory, or more than it may.
func FuzzUnpackFile(f *testing.F) {
	gomega.RegisterTestingT(f)
	files := []entry{{"tofu", script, 0o755}, {"dir/LICENSE", "MPL", 0o644}, {"../x", "x", 0o644}}
	for _, seed := range []string{
		zipOf(files[:2]...), tarOf(files[:2]...), gzipped(tarOf(files[:2]...)),
		zipOf(files...), tarOf(files...),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 16
		parent := t.TempDir()
		file, dir := filepath.Join(parent, "archive"), filepath.Join(parent, "dir")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if len(data) > limit {
			return
		}
		names, err := build.UnpackFile(file, dir, limit)
		entries, listErr := os.ReadDir(parent)
		if listErr != nil || len(entries) != 2 {
			t.Fatalf("the parent directory holds %v, %v", entries, listErr)
		}
		var total int64
		for _, name := range names {
			info, statErr := os.Lstat(filepath.Join(dir, name))
			if statErr != nil || !info.Mode().IsRegular() {
				t.Fatalf("%q is no plain file: %v", name, statErr)
			}
			total += info.Size()
		}
		if total > limit+1 {
			t.Fatalf("%d bytes were unpacked: %v", total, err)
		}
	})
}
