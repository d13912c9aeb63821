package manifestgen_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// FuzzReferences holds the search for references against the expressions that define what it finds, and against a walk through all of
// a value.
func FuzzReferences(f *testing.F) {
	for _, text := range []string{
		"", "((a))", "((a)) ((b))", "(((a)))", "(())", "((", "))", "((a)", "((a\nb))c))", "((a))((b", "x((/a/b))y", "((\xff))", "((a(b))", "a b.c", "é--é é",
	} {
		f.Add(text, "key", "((z))")
	}
	reference := regexp.MustCompile(`(?s)\(\(.*?\)\)`)
	whole := regexp.MustCompile(`^\(\([^()]+\)\)$`)
	label := regexp.MustCompile(`[^a-zA-Z0-9_-]+`)
	f.Fuzz(func(t *testing.T, text, key, other string) {
		all, isWhole := manifestgen.References(text)
		if want := reference.FindAllString(text, -1); !slices.Equal(all, want) || isWhole != whole.MatchString(text) {
			t.Errorf("%q: got %q, %v; want %q, %v", text, all, isWhole, want, whole.MatchString(text))
		}
		if got, want := manifestgen.LabelText(text), label.ReplaceAllString(text, "_"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		tree := map[string]any{
			key: text, text: []any{other, map[string]any{other: text, key: int64(1)}, nil, []any{[]any{text}}}, "((m": map[string]any{"": "((", "a": other},
			"z": map[string]any{"list": []any{"((1", "((2", "", other, "((4", "5", "6", "7", "8", "9", "((10"}},
		}
		var want []string
		value.Walk(tree, func(path string, leaf any) bool {
			if text, ok := leaf.(string); ok && strings.Contains(text, "((") {
				want = append(want, path, text)
			}
			return true
		})
		if got := manifestgen.Mentions(tree); !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	})
}
