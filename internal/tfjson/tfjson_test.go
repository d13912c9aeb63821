package tfjson_test

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

func recorded(name string) []byte {
	GinkgoHelper()
	text, err := os.ReadFile("../hclfile/testdata/" + name)
	Expect(err).NotTo(HaveOccurred())
	return text
}

// attribute returns the result of Attribute for a path in a document.
func attribute(document []byte, path string) (any, bool, error) {
	state, err := tfjson.DecodeState(document)
	if err != nil {
		return nil, false, err
	}
	return state.Attribute(path)
}

var _ = Describe("Attribute", func() {
	DescribeTable("returns the value at",
		func(file, path string, want any) {
			v, _, err := attribute(recorded(file), path)
			Expect(err).NotTo(HaveOccurred())
			if want == nil {
				Expect(v).To(BeNil())
			} else {
				Expect(v).To(Equal(want))
			}
		},
		Entry("a string", "recorded/state.json", "directory_entry.database.name", "database"),
		Entry("an integer", "recorded/state.json", "random_password.admin.length", int64(20)),
		Entry("a boolean", "recorded/state.json", "random_password.admin.upper", true),
		Entry("null", "recorded/state.json", "directory_entry.replica.content", nil),
		Entry("a sensitive and computed attribute", "recorded/state.json",
			"random_password.admin.override_special", "$%{}"),
		Entry("the largest integer", "recorded/state.json", "terraform_data.settings.input.max",
			int64(9223372036854775807)),
		Entry("a fraction", "recorded/state.json", "terraform_data.settings.input.fraction", 0.1),
		Entry("the key of a map", "recorded/state.json", "terraform_data.settings.input.for.a b", "c"),
		Entry("an element of a list", "recorded/state.json", "terraform_data.settings.input.list.2", true),
		Entry("a list", "nested/state.json", "nest_thing.first.peers",
			[]any{map[string]any{"host": "a"}, map[string]any{"host": "b"}}),
		Entry("an attribute of a nested block", "nested/state.json", "nest_thing.first.disk.1.size", int64(6)),
		Entry("an attribute of the only nested block", "nested/state.json", "nest_thing.first.address.ip", "::1"),
		Entry("the current object where there are deposed ones", "nested/state.json", "nest_thing.first.name", "first"),
	)

	It("reports whether the attribute is sensitive", func() {
		_, sensitive, err := attribute(recorded("recorded/state.json"), "random_password.admin.result")
		Expect(err).NotTo(HaveOccurred())
		Expect(sensitive).To(BeTrue())
		_, sensitive, err = attribute(recorded("recorded/state.json"), "random_password.admin.length")
		Expect(err).NotTo(HaveOccurred())
		Expect(sensitive).To(BeFalse())
	})

	DescribeTable("returns nil for",
		func(file, path string) {
			v, _, err := attribute(recorded(file), path)
			Expect(err).NotTo(HaveOccurred())
			Expect(v).To(BeNil())
		},
		Entry("another resource", "recorded/state.json", "directory_entry.other.name"),
		Entry("another attribute", "recorded/state.json", "directory_entry.database.names"),
		Entry("a path into a scalar", "recorded/state.json", "directory_entry.database.name.x"),
		Entry("an element behind the last", "nested/state.json", "nest_thing.first.disk.2.size"),
		Entry("an element of an empty list", "nested/state.json", "nest_thing.second.disk.size"),
		Entry("a data source", "nested/state.json", "data.nest_thing.first.name"),
	)

	DescribeTable("rejects",
		func(state, path, want string) {
			_, _, err := attribute([]byte(state), path)
			Expect(err).To(MatchError(ContainSubstring(want)))
		},
		Entry("a path without a resource", `{}`, "size", `tf_attribute "size" must have the form TYPE.NAME.ATTRIBUTE`),
		Entry("a path without an attribute", `{}`, "a.b", `tf_attribute "a.b" must have the form TYPE.NAME.ATTRIBUTE`),
		Entry("a path with an empty part", `{}`, "a..b", `tf_attribute "a..b" must have the form TYPE.NAME.ATTRIBUTE`),
		Entry("no document", ``, "a.b.c", "reading the state that OpenTofu shows: unexpected end of JSON input"),
		Entry("two documents", `{} {}`, "a.b.c", "unexpected data after the JSON document"),
		Entry("several objects", state(`{"c": 1}`, `{"c": 2}`), "a.b.c",
			`tf_attribute "a.b.c": the state has several objects of the resource a.b`),
		Entry("one of several elements without an index", state(`{"c": [{"d": 1}, {"d": 2}]}`), "a.b.c.d",
			`tf_attribute "a.b.c.d": a.b.c is a list of 2 elements, so an index must follow, not "d"`),
		Entry("a number that would be rounded", state(`{"c": 123456789012345678901}`), "a.b.c",
			"integers may have up to 64 bits"),
		Entry("a value that is nested too deeply",
			state(`{"c": `+strings.Repeat("[", 101)+strings.Repeat("]", 101)+`}`), "a.b.c",
			"a.b is nested deeper than 100 levels"),
	)
})

// state returns a state with one object of a.b for each of the values.
func state(values ...string) string {
	var resources []string
	for _, v := range values {
		resources = append(resources, `{"mode": "managed", "type": "a", "name": "b", "values": `+v+`}`)
	}
	return `{"values": {"root_module": {"resources": [` + strings.Join(resources, ",") + `]}}}`
}

var _ = Describe("Block", func() {
	DescribeTable("reports whether it has a path",
		func(path string, want bool) {
			schemas, err := tfjson.DecodeSchemas(recorded("nested/schemas.json"))
			Expect(err).NotTo(HaveOccurred())
			block, err := schemas.Resource("registry.opentofu.org/example/nest", "nest_thing")
			Expect(err).NotTo(HaveOccurred())
			Expect(block.Has(strings.Split(path, "."))).To(Equal(want))
		},
		Entry("an attribute", "arn", true),
		Entry("a nested block", "disk", true),
		Entry("an attribute of it", "disk.size", true),
		Entry("a block in it", "network.route.to", true),
		Entry("a nested attribute", "admin.login", true),
		Entry("no attribute", "nothing", false),
		Entry("no attribute of a block", "disk.nothing", false),
		Entry("no attribute of an attribute", "admin.nothing", false),
		Entry("a key of a map", "tags.team", false),
	)
})

// FuzzAttribute asserts that no state makes Attribute panic, and that the result is a value, as package value defines
// it.
func FuzzAttribute(f *testing.F) {
	f.Add([]byte(state(`{"c": [{"d": 1e3}]}`)), "a.b.c.d")
	f.Add([]byte(`{"values": null}`), "a.b.c.0")
	f.Fuzz(func(t *testing.T, document []byte, path string) {
		v, _, err := attribute(document, path)
		if err != nil && v != nil {
			t.Fatalf("%v and %v", v, err)
		}
		if err := value.CheckNumbers(v); err != nil {
			t.Fatal(err)
		}
	})
}
