package manifestgen_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v2"

	"service-adapter/manifestgen"
)

var _ = It("writes usual trees without the library", func() {
	text, ok, _, err := manifestgen.Encode(map[string]any{"name": "a: b", "jobs": []any{map[string]any{"text": "a\n\nb\n"}, int64(1), "yes", "ä"}})
	Expect(err).NotTo(HaveOccurred())
	Expect(ok).To(BeTrue())
	Expect(text).To(Equal("name: 'a: b'\njobs:\n  - text: |\n      a\n\n      b\n  - 1\n  - \"yes\"\n  - \"ä\"\n"))
})

// FuzzEmitter holds the emitter against the library: what it writes is the same text, which the broker can read as properties.
func FuzzEmitter(f *testing.F) {
	for _, text := range []string{
		"", " ", "\n", "a\n", "a\nb", "a\n  b\n", "  a", "a ", "a: b", "a:", "a:b", "- a", "<<", "=", "~", "null", "yes", "NO", "1_000", "0o7", "1:30",
		"#", "a #b", "a#b", "a\t", "|", "'", "it's: x", "\"", "\\", "a\\\"b", "%a", "@a", "!a", "&a", "*a", "{", "[a]", "a, b", "?", "? a", ",", "\u0085",
		"\u2028", "\ufeff", "ä", "aä: ö", "a\nä", "\U0001f600", "a\U0001f600", "\x7f", "\xff", "---", "...", "a\n\nb\n", "a\n---\nb", "a \nb", "a\n\n", "(a)", "/a", "_",
		"word word word word word word word word word word word word word word word word word word word word word word word  word",
	} {
		f.Add(text, text, int64(1), uint64(1<<63), 1.5)
		f.Add("name", text, int64(-1), uint64(0), 1e21)
	}
	f.Fuzz(func(t *testing.T, key, text string, signed int64, unsigned uint64, float float64) {
		tree := map[string]any{
			key: text, "name": key, "brokerpak": text, "float": float, "ints": []any{signed, unsigned},
			"list": []any{
				text,
				[]any{text, []any{}, []any{key}},
				map[string]any{key: map[string]any{key: text, "x": []any{}}, "jobs": []any{text}},
				nil, true,
				map[string]any{},
				[]any{map[string]any{key: text}},
			},
		}
		got, ok, want, err := manifestgen.Encode(tree)
		if ok && (err != nil || got != want) {
			t.Errorf("got %q\nwant %q, %v", got, want, err)
		}
		var properties map[string]any
		if err := yaml.Unmarshal([]byte(got), &properties); ok && err != nil {
			t.Errorf("%q: %v", got, err)
		}
	})
}
