package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTables asserts that each mutant of the tables still applies to exactly one place of the code.
func TestTables(t *testing.T) {
	if err := check(t.Context(), false, io.Discard); err != nil {
		t.Errorf("rewrite the lines of these mutants in spec/mutants/testdata for the new code, "+
			"so that they have the same mistake:\n%v", err)
	}
}

// product is a source file in which the tests place mutants.
const product = `package product

const limit = 10

// Add adds.
func (s *sum) Add(n int) error {
	if n > limit {
		return errTooLarge
	}
	if n > limit {
		n = 0
	}
	s.list = append(s.list,
		n, // a comment
	)
	return nil
}
`

// write writes a file of a product and returns the parsed product.
func write(t *testing.T, name, text string) *code {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := readCode(root)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// edits returns a mutant for each possible mistake in the product, as it is read from a table.
func edits(t *testing.T) []mutant {
	t.Helper()
	c := write(t, "a/product.go", product)
	var all []mutant
	for _, d := range c.files["a/product.go"].declarations() {
		for _, p := range pointsOf(c.files["a/product.go"], d) {
			m, err := c.files["a/product.go"].edit(d, p.begin, p.end, p.replacement)
			if err != nil {
				t.Fatal(err)
			}
			m.id, m.what = "1", p.kind
			parsed, err := parseTable("# comment\n\n" + m.String())
			if err != nil || len(parsed) != 1 || parsed[0].String() != m.String() {
				t.Fatalf("%v: %s", err, m.String())
			}
			all = append(all, parsed[0])
		}
	}
	return all
}

func TestEditsApply(t *testing.T) {
	same := write(t, "a/product.go", product)
	moved := write(t, "b/c/other.go", strings.NewReplacer(
		"append(s.list,\n\t\tn, // a comment\n\t)", "append(s.list, n)", // with other line breaks
		"// Add adds.", "// Add adds a number.\n// It is limited.",
		"\tif n > limit {\n\t\tn = 0", "\t// too much\n\n\tif n > limit { // yes\n\t\tn = 0",
	).Replace(product))
	kinds := map[string]bool{}
	for _, m := range edits(t) {
		kinds[m.what] = true
		for name, c := range map[string]*code{"a/product.go": same, "b/c/other.go": moved} {
			change, err := c.apply(m)
			if err != nil {
				t.Errorf("%s: %v\n%s", name, err, m.String())
				continue
			}
			if change.path != name || change.text == c.files[name].text {
				t.Errorf("%s is not changed by\n%s", name, m.String())
			}
		}
	}
	for _, kind := range []string{
		"a number is changed", "a condition is negated", "an early end is dropped", "a comparison is off by one",
		"no error is returned", "an assignment is missing", "nothing is appended",
	} {
		if !kinds[kind] {
			t.Errorf("no mistake of the kind %q is possible", kind)
		}
	}
}

func TestEditsAreUnambiguous(t *testing.T) {
	m := mutant{
		id: "1", file: "a/product.go", declaration: "sum.Add", original: "if n > limit {", replacement: "if true {",
	}
	if _, err := write(t, "a/product.go", product).apply(m); err == nil || !strings.Contains(err.Error(), "2 places") {
		t.Errorf("an edit that applies to two places: %v", err)
	}
	m.declaration = "sum.Sub"
	if _, err := write(t, "a/product.go", product).apply(m); err == nil || !strings.Contains(err.Error(), "0 places") {
		t.Errorf("an edit of a missing declaration: %v", err)
	}
}

func TestResults(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.txt")
	all, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	added := []result{
		{id: "1", suite: "adapter", failure: "[FAIL] a test: fails"},
		{id: "2"},
		{id: "n1", all: true, deep: true},
		{id: "2", all: true, suite: "internal/engine/shell", failure: "it"},
	}
	for _, r := range added {
		if err := all.add(r); err != nil {
			t.Fatal(err)
		}
	}
	again, err := readResults(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []result{added[0], added[3], added[2]} {
		if read, exists := again.of(r.id); !exists || read != r {
			t.Errorf("%+v was read as %+v", r, read)
		}
	}
	if survivor, _ := again.of("n1"); !survivor.survived() {
		t.Error("a survivor was not read as one")
	}
}
