package hclfile_test

import (
	"testing"

	"service-adapter/internal/hclfile"
)

// FuzzInspect asserts that no text makes Inspect panic, and that a text is read the same way twice.
func FuzzInspect(f *testing.F) {
	for _, seed := range []string{
		"", `variable "x" { default = 1 }`, `output "a" { value = "${var.x}" }`, `resource "a" "_binding" {}`,
		"terraform {\n required_providers { a = { source = \"b/c\" } }\n}",
		`locals { a = [for v in var.l : v if var.x] }`,
		"output \"a\" {\n value = <<E\n${var.x}\nE\n}", `variable {}`, `resource "a" {}`,
		`output "a" "b" { value = var }`, "\x00", `a = var["x"]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := map[string]string{"main.tf": text}
		_, first := hclfile.Inspect(files)
		_, second := hclfile.Inspect(files)
		if len(first.All()) != len(second.All()) {
			t.Fatalf("%d diagnostics, then %d", len(first.All()), len(second.All()))
		}
	})
}
