package schemas_test

import (
	"os"
	"strings"
	"testing"

	"github.com/cppforlife/go-patch/patch"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// goodManifest returns a valid manifest that uses most of the keys of the schema.
func goodManifest(tb interface{ Fatal(args ...any) }) map[string]any {
	text, err := os.ReadFile("testdata/manifest.yml")
	if err != nil {
		tb.Fatal(err)
	}
	return manifestOf(tb, text)
}

// manifestOf decodes a YAML text to a value, as package value defines it.
func manifestOf(tb interface{ Fatal(args ...any) }, text []byte) map[string]any {
	var decoded any
	if err := yaml.Unmarshal(text, &decoded); err != nil {
		tb.Fatal(err)
	}
	found, _ := value.Normalise(decoded).(map[string]any)
	return found
}

var _ = Describe("CheckManifest", func() {
	It("accepts a manifest", func() {
		Expect(schemas.CheckManifest(goodManifest(GinkgoT()))).To(Succeed())
	})

	const group = "/instance_groups/name=redis-server"
	const job = group + "/jobs/name=redis-server"

	DescribeTable("names the path of a fault",
		func(path, value, message string) {
			tree := goodManifest(GinkgoT())
			Expect(schemas.CheckManifest(set(tree, path, value))).To(
				MatchError("checking the BOSH manifest: " + message))
		},
		Entry("a number as text", group+"/instances", `"2"`, group+`/instances must be an integer, not a string`),
		Entry("text as a number", "/name", `7`, `/name must be a string, not an integer`),
		Entry("a fraction", group+"/instances", `1.5`, group+`/instances must be an integer, not a fraction`),
		Entry("a misspelt key", group+"/vm_typ?", `small`, group+`/vm_typ is not allowed`),
		Entry("a job without release", job+"/release", ``, job+`/release is required`),
		Entry("no update block", "/update", ``, `/update is required`),
		Entry("half an update block", "/update/max_in_flight", ``, `/update/max_in_flight is required`),
		Entry("a placeholder where the broker wants a number", "/update/canaries", `((canaries))`,
			`/update/canaries must be an integer, not a string`),
		Entry("a null", group+"/azs", `null`, group+`/azs must be an array, not null`),
		Entry("a list of wrong things", group+"/azs/0", `{}`, group+`/azs/0 must be a string, not an object`),
		Entry("a misspelt value", group+"/lifecycle?", `erand`, group+`/lifecycle must be one of "service", "errand"`),
		Entry("a link that is not blocked this way", job+"/provides/redis", `nil`,
			job+`/provides/redis must be an object, not a string`),
		Entry("a record that is not a string", "/brokerpak", `{}`, `/brokerpak must be a string, not an object`),
		Entry("a secret at the wrong key", group+"/jobs/name=redis-server/release", `[hunter2]`,
			job+`/release must be a string, not an array`),
	)

	It("lists several faults sorted by path", func() {
		tree := set(goodManifest(GinkgoT()), group+"/stemcell", "")
		tree = set(tree, "/name", "")
		for range 20 {
			Expect(schemas.CheckManifest(tree)).To(MatchError(
				`checking the BOSH manifest: ` + group + `/stemcell is required; /name is required`))
		}
	})

	It("requires either a VM type or VM resources", func() {
		tree := goodManifest(GinkgoT())
		Expect(schemas.CheckManifest(set(tree, group+"/vm_type",
			""))).To(MatchError(ContainSubstring(group + "/vm_type is required")))
		tree = goodManifest(GinkgoT())
		Expect(schemas.CheckManifest(set(tree, "/instance_groups/name=smoke-tests/vm_type?", "small"))).To(MatchError(
			`checking the BOSH manifest: /instance_groups/name=smoke-tests must have exactly one of the allowed forms`))
	})

	It("rejects an empty manifest and names the missing keys", func() {
		Expect(schemas.CheckManifest(nil)).To(MatchError(ContainSubstring("manifest")))
		Expect(schemas.CheckManifest(map[string]any{})).To(MatchError(
			ContainSubstring("/instance_groups is required; /name is required")))
	})
})

// set replaces the value at a path in a tree by a YAML text. It removes the value if the text is empty.
func set(tree map[string]any, path, text string) map[string]any {
	GinkgoHelper()
	pointer, err := patch.NewPointerFromString(path)
	Expect(err).NotTo(HaveOccurred())
	var op patch.Op = patch.RemoveOp{Path: pointer}
	if text != "" {
		var value any
		Expect(yaml.Unmarshal([]byte(text), &value)).To(Succeed())
		op = patch.ReplaceOp{Path: pointer, Value: loose(value)}
	}
	changed, err := op.Apply(loose(tree))
	Expect(err).NotTo(HaveOccurred())
	encoded, err := yaml.Marshal(changed)
	Expect(err).NotTo(HaveOccurred())
	return manifestOf(GinkgoT(), encoded)
}

// loose converts string maps to the maps that go-patch requires.
func loose(node any) any {
	switch node := node.(type) {
	case map[string]any:
		out := map[any]any{}
		for key, value := range node {
			out[key] = loose(value)
		}
		return out
	case []any:
		out := make([]any, len(node))
		for i, value := range node {
			out[i] = loose(value)
		}
		return out
	default:
		return node
	}
}

func BenchmarkCheckManifest(b *testing.B) {
	tree := goodManifest(b)
	for b.Loop() {
		if err := schemas.CheckManifest(tree); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzCheckManifest(f *testing.F) {
	good, err := os.ReadFile("testdata/manifest.yml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Add("instance_groups: [{name: a, jobs: [{name: [], consumes: {x: nil}}], vm_type: 1, vm_resources: 2}]")
	f.Fuzz(func(t *testing.T, text string) {
		var tree map[string]any
		if yaml.Unmarshal([]byte(text), &tree) != nil {
			t.Skip()
		}
		if err := schemas.CheckManifest(tree); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %v", err)
		}
	})
}
