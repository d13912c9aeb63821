package manifestgen_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v2"

	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// FuzzDurable holds what manifestgen leaves out against the library: a tree that counts as durable comes out of YAML as it went in.
func FuzzDurable(f *testing.F) {
	for _, text := range []string{
		"", " ", "\n", "a\n", "a\nb", "a\n  b\n", "  a", "a: b", "- a", "<<", "=", "~", "null", "yes", "1_000", "0o7", "1:30", "2026-01-31", "#", "a #b",
		"a\t", "|", "> a", "'", "\"", "\\", "%a", "@a", "`a", "!a", "&a", "*a", "{", "[", "?", "? a", ":", "a:", ",", "\u0085", "\u2028", "\ufeff",
		"\ue0f0\ue0f0a\ue0f1\ue0f1", "ä\nö", "\x7f", "\xff", "---", "...", "--- a", "1e3", "+.inf", ".nan", "0x1f", "-0", "a\n\nb", "a\n---\nb", "a \nb",
		"word word word word word word word word word word word word word word word word word word word word word word word  word",
		"a\nword word word word word word word word word word word word word word word word word word word word word word word  word\n",
	} {
		f.Add(text, text, int64(1), uint64(1<<63), 1.5)
		f.Add("key", text, int64(-1), uint64(0), 1e21)
	}
	f.Fuzz(func(t *testing.T, key, text string, signed int64, unsigned uint64, float float64) {
		tree := map[any]any{
			key:    text,
			"list": []any{text, []any{text}, map[any]any{key: map[any]any{key: text, "x": []any{}}}, nil, true, map[any]any{}},
			"ints": []any{int(signed), signed, unsigned}, "float": []any{float},
		}
		if !manifestgen.Durable(tree) {
			return
		}
		out, err := yaml.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		var back any
		if err := yaml.Unmarshal(out, &back); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if diff := cmp.Diff(value.Normalise(tree), value.Normalise(back)); diff != "" {
			t.Errorf("%q: %s", out, diff)
		}
	})
}
