package cli

import (
	"testing"

	"service-adapter/internal/engine/lifecycle"
)

func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{
		"3f1c9a52-0d3c": "3f1c9a52-0d3c", "/a/b_c.tfstate": "/a/b_c.tfstate", "": "''", "a b": "'a b'",
		"a;b": "'a;b'", "a&b": "'a&b'", "a*": "'a*'", "a\nb": "'a\nb'", "it's": `'it'\''s'`, "é": "'é'",
	} {
		if got := shellWord(text); got != want {
			t.Errorf("%q became %s", text, got)
		}
	}
}

func TestFailedForget(t *testing.T) {
	failed := result{
		Kind: lifecycle.Binding, ID: "b1", Result: resultFailed, Error: `binding "b1": no space left`,
		Left: []string{"a.b", "c.d"},
	}
	want := "binding b1: no space left; its resources still exist, and its state may have lost them: a.b, c.d"
	if got := failed.text(); got != want {
		t.Error(got)
	}
}
