package main

import (
	"bytes"
	"debug/buildinfo"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
)

// text runs the command, which must succeed.
func text(t *testing.T, arguments ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := command(t.Context(), arguments, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// listed returns the components in the list at the beginning of a text, in its order, as "name version".
func listed(t *testing.T, text string) []string {
	t.Helper()
	list, _, found := strings.Cut(strings.TrimPrefix(text, introduction), "\n\n====")
	if !found {
		t.Fatalf("the text has no list of components:\n%.400s", text)
	}
	var components []string
	for line := range strings.Lines(list) {
		components = append(components, strings.TrimSpace(line))
	}
	return components
}

// TestAdapter compares the text for the adapter with the modules that the linker has recorded in the program.
func TestAdapter(t *testing.T) {
	kit.SkipSlow(t)
	written := text(t, "-dir", kit.Path(), "./cmd/service-adapter")
	info, err := buildinfo.ReadFile(broker.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	wanted := []string{"The Go standard library " + info.GoVersion}
	for _, dependency := range info.Deps {
		wanted = append(wanted, dependency.Path+" "+dependency.Version)
	}
	slices.Sort(wanted)
	if got := slices.Sorted(slices.Values(listed(t, written))); !slices.Equal(got, wanted) {
		t.Errorf("the text has the components\n%s\nand the program\n%s",
			strings.Join(got, "\n"), strings.Join(wanted, "\n"))
	}
	for _, words := range []string{
		"Copyright 2009 The Go Authors.", "Mozilla Public License, version 2.0", "Apache License",
		"-------- LICENSE.libyaml\n", "-------- NOTICE\n", "-------- src/vendor/golang.org/x/crypto/LICENSE\n",
	} {
		if !strings.Contains(written, words) {
			t.Errorf("the text does not contain %q", words)
		}
	}
	if again := text(t, "-dir", kit.Path(), "./cmd/service-adapter"); again != written {
		t.Error("a second run wrote another text")
	}
}

// program writes a module with a program that imports packages of other modules, and these modules. files are the files
// of these modules, by their path below the directory of all modules.
func program(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	root := t.TempDir()
	all := map[string]string{
		"program/go.mod": "module example.com/program\ngo 1.26\n" +
			"require (\nexample.com/a v1.2.3\nexample.com/b v0.1.0\n)\n" +
			"replace (\nexample.com/a => ../a\nexample.com/b => ../b\n)\n",
		"program/main.go": "package main\n\nimport (\n_ \"example.com/a\"\n_ \"example.com/b/inner\"\n)\n\n" +
			"func main() {}\n",
		"a/go.mod": "module example.com/a\n", "a/a.go": "package a\n",
		"b/go.mod": "module example.com/b\n", "b/inner/b.go": "package inner\n",
		"b/unused/unused.go": "package unused\n",
	}
	maps.Copy(all, files)
	for name, content := range all {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(root, "program")
}

// TestText asserts which files of linked modules are written, and how.
func TestText(t *testing.T) {
	dir := program(t, map[string]string{
		"a/LICENSE": "the licence of a\r\n\r\n", "a/NOTICE.txt": "a notice", "a/license.go": "package a // source",
		"b/COPYING": "the licence of b", "b/inner/LICENSE-MIT": "another licence", "b/unused/LICENSE": "not linked",
	})
	_, modules, _ := strings.Cut(text(t, "-dir", dir, "."), "\nexample.com/a v1.2.3")
	line := strings.Repeat("=", 80)
	wanted := " => ../a\n\n-------- LICENSE\n\nthe licence of a\n\n-------- NOTICE.txt\n\na notice\n\n" + line +
		"\nexample.com/b v0.1.0 => ../b\n\n-------- COPYING\n\nthe licence of b\n\n-------- inner/LICENSE-MIT\n\n" +
		"another licence\n"
	if modules != wanted {
		t.Errorf("the text of the modules is %q, want %q", modules, wanted)
	}
}

// TestMissing asserts that nothing is written if a licence is missing, and that the error names what lacks one.
func TestMissing(t *testing.T) {
	for name, test := range map[string]struct {
		files  map[string]string
		wanted string
	}{
		"no licence": {
			map[string]string{"b/NOTICE": "a notice", "b/license.go": "package b"},
			"no licence was found, so the program must not be distributed with: example.com/a v1.2.3 => ../a, " +
				"example.com/b/inner v0.1.0 => ../b",
		},
		"a licence of another package": {
			map[string]string{"a/LICENSE": "a licence", "b/unused/LICENSE": "a licence"},
			"must not be distributed with: example.com/b/inner v0.1.0 => ../b",
		},
		"an empty licence": {
			map[string]string{"a/LICENSE": " \n", "b/LICENSE": "a licence"},
			"reading the licence of example.com/a v1.2.3 => ../a: the file LICENSE is empty",
		},
		"a module that does not exist": {
			map[string]string{"program/main.go": "package main\n\nimport _ \"example.com/c\"\n\nfunc main() {}\n"},
			"example.com/c",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := command(t.Context(), []string{"-dir", program(t, test.files), "."}, &out)
			if err == nil || !strings.Contains(err.Error(), test.wanted) {
				t.Errorf("the error is %v, want %q", err, test.wanted)
			}
			if out.Len() > 0 {
				t.Errorf("the command wrote %q", out.String())
			}
		})
	}
}
