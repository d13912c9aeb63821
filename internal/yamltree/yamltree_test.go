package yamltree_test

import (
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/yamltree"
)

var _ = Describe("reading", func() {
	It("returns the roots of the first two documents", func() {
		first, second, err := yamltree.Read("a: b\n---\n- c\n---\nd\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(first.Kind).To(Equal(yaml.MappingNode))
		Expect(second.Kind).To(Equal(yaml.SequenceNode))
	})

	It("reports further text after a document, even if it is not valid YAML", func() {
		_, second, err := yamltree.Read("a: b\n---\nc: [\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(second).NotTo(BeNil())
	})

	It("reports a text without a document", func() {
		_, _, err := yamltree.Read("# nothing\n")
		Expect(err).To(MatchError(io.EOF))
	})
})

var _ = DescribeTable("flattening", func(text string, want any, messages ...string) {
	root, _, err := yamltree.Read(text)
	Expect(err).NotTo(HaveOccurred())
	flat, faults := yamltree.Flatten(root)
	found := []string{}
	for _, fault := range faults {
		found = append(found, fault.Message)
	}
	Expect(found).To(BeComparableTo(messages, cmpopts.EquateEmpty()))
	if want != nil {
		var decoded any
		Expect(flat.Decode(&decoded)).To(Succeed())
		Expect(decoded).To(Equal(want))
	}
},
	Entry("follows aliases", "a: &a [1]\nb: *a\n", map[string]any{"a": []any{1}, "b": []any{1}}),
	Entry("lets a key of the mapping win over a merged one", "a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}\n",
		map[string]any{"a": map[string]any{"x": 1, "y": 1}, "b": map[string]any{"x": 1, "y": 2}}),
	Entry("lets the first merged mapping win", "a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}\n",
		map[string]any{
			"a": map[string]any{"x": 1}, "b": map[string]any{"x": 2, "y": 2},
			"c": map[string]any{"x": 1, "y": 2},
		}),
	Entry("leaves out a key that is set twice", "a: 1\na: 2\n", map[string]any{"a": 1}, `key "a" is set twice`),
	Entry("leaves out a key that is not a scalar", "? [a]\n: 1\nb: 2\n", map[string]any{"b": 2},
		"a key must be a scalar, not a list"),
	Entry("rejects a merge of a node that is not a mapping",
		"a: {<<: [1]}\n", nil, `the value of << must be a mapping, not "1"`),
	Entry("rejects merged keys that YAML readers interpret differently", "a: {<<: {1: b}}\n", nil,
		`a key that is merged must be a string, not "1"`),
	Entry("rejects an alias that contains itself", "a: &a {b: *a}\n", nil,
		"nested more than 200 levels deep, or an alias or merge that contains itself"),
	Entry("rejects a merge that contains itself", "a: &a {<<: *a}\n", nil,
		"nested more than 200 levels deep, or an alias or merge that contains itself"),
	Entry("rejects a small text that becomes a large tree", "a: &a [1,1,1,1,1,1,1,1,1,1]\n"+grown(), nil,
		"the file has more than 200000 nodes after its aliases and merges are resolved"),
)

// grown returns a text in which aliases multiply the anchor a by ten, five times.
func grown() string {
	var text strings.Builder
	for i, name := range []string{"b", "c", "d", "e", "f"} {
		before := string("abcde"[i])
		text.WriteString(name + ": &" + name + " [" + strings.Repeat("*"+before+", ", 10) + "]\n")
	}
	return text.String()
}

// FuzzFlatten asserts that a flat tree has the same value as the text has for a reader that resolves aliases and
// merges.
func FuzzFlatten(f *testing.F) {
	for _, text := range []string{
		"a: &a {b: c}\nd: *a\n", "a: &a {b: 1}\nc: {<<: *a, d: 2}\n", "a: &a {b: *a}",
		"<<: {a: b}", "<<: {~: }", "? [a]\n: b\n", "a: |\n  b\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4096 {
			return
		}
		root, _, err := yamltree.Read(text)
		if err != nil {
			return
		}
		flat, faults := yamltree.Flatten(root)
		var want, got any
		if len(faults) > 0 || root.Decode(&want) != nil {
			return
		}
		if err := flat.Decode(&got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %#v, %v; not %#v", text, got, err, want)
		}
	})
}
