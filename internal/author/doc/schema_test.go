package doc_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/xeipuuv/gojsonschema"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
)

type object = map[string]any

// tree decodes a text as YAML, which includes JSON.
func tree(text string) object {
	GinkgoHelper()
	var decoded object
	Expect(yaml.Unmarshal([]byte(text), &decoded)).To(Succeed())
	return decoded
}

func manifestSchema() string   { return encoded(brokerpak.ManifestSchema()) }
func definitionSchema() string { return encoded(brokerpak.DefinitionSchema()) }

func encoded(schema map[string]any) string {
	text, err := json.Marshal(schema)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func readFile(path string) string {
	GinkgoHelper()
	data, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(data)
}

// faults validates a file with a schema.
func faults(schema, text string) []string {
	GinkgoHelper()
	loader := gojsonschema.NewSchemaLoader()
	loader.Validate = true
	compiled, err := loader.Compile(gojsonschema.NewStringLoader(schema))
	Expect(err).NotTo(HaveOccurred())
	result, err := compiled.Validate(gojsonschema.NewGoLoader(tree(text)))
	Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, fault := range result.Errors() {
		found = append(found, fault.String())
	}
	return found
}

var _ = Describe("the JSON Schemas", func() {
	DescribeTable("accept", func(dir, definition string) {
		Expect(faults(manifestSchema(), readFile(filepath.Join(dir, "manifest.yml")))).To(BeEmpty())
		Expect(faults(definitionSchema(), readFile(filepath.Join(dir, definition)))).To(BeEmpty())
	},
		Entry("the pak with everything", everything, "everything.yml"),
		Entry("its other service", everything, "minimal.yml"),
		Entry("redis", parityPak(), "redis.yml"),
		Entry("the specification's example", example("example-email"), "example-service.yml"),
	)

	// Every key that is not a mapping has an example, which is valid according to the schema.
	DescribeTable("describe and illustrate every key", func(schema object) {
		seen := 0
		var walk func(path string, s object)
		walk = func(path string, s object) {
			alternatives, _ := s["anyOf"].([]any)
			for _, inner := range append(alternatives, s, s["items"]) {
				below, _ := inner.(object)
				properties, _ := below["properties"].(object)
				for name, property := range properties {
					walk(path+"."+name, property.(object))
					s = nil
				}
			}
			if s == nil {
				return
			}
			seen++
			Expect(s["description"]).NotTo(BeEmpty(), path)
			Expect(s["examples"]).To(HaveLen(1), path)
			example, err := json.Marshal(object{"it": s["examples"].([]any)[0]})
			Expect(err).NotTo(HaveOccurred())
			Expect(faults(encoded(object{"properties": object{"it": s}}), string(example))).To(BeEmpty(), path)
		}
		walk("", schema)
		Expect(seen).To(BeNumerically(">", 15))
	},
		Entry("manifest", brokerpak.ManifestSchema()),
		Entry("definition", brokerpak.DefinitionSchema()),
	)

	DescribeTable("reject", func(schema, file, old, new, want string) {
		text := readFile(filepath.Join(everything, file))
		Expect(text).To(ContainSubstring(old))
		Expect(faults(schema, strings.Replace(text, old, new, 1))).To(ContainElement(ContainSubstring(want)))
	},
		Entry("an unknown key of the manifest", manifestSchema(), "manifest.yml", "version: 1.20", "vresion: 1.20",
			"vresion"),
		Entry("an unknown platform", manifestSchema(), "manifest.yml", "os: linux", "os: plan9", "platforms.0.os"),
		Entry("an unknown key of an input", definitionSchema(), "everything.yml", "prohibit_update:",
			"prohibit_updates:", "prohibit_updates"),
		Entry("an unknown type", definitionSchema(), "everything.yml", "type: integer", "type: int", "type"),
		Entry("a wrong id", definitionSchema(), "everything.yml", "2e01", "2e0", "id"),
		Entry("an unknown key of bosh", definitionSchema(), "everything.yml", "carry_over:", "carryover:", "bosh"),
	)

	// The pak with everything is read without a warning and uses each key of the schemas, so the parser knows them all.
	It("have only keys that the parser supports", func() {
		Expect(openPak(everything).Warnings).To(BeEmpty())
		for schema, files := range map[string][]string{
			manifestSchema(): {"manifest.yml"}, definitionSchema(): {"everything.yml", "minimal.yml"},
		} {
			root := tree(schema)
			used := map[string]bool{}
			for _, file := range files {
				use(root, root, "", tree(readFile(filepath.Join(everything, file))), used)
			}
			for place, properties := range objects(root) {
				if strings.HasSuffix(place, "/constraints") {
					continue // any keyword is
				}
				for key := range properties {
					Expect(used[place+" "+key]).To(BeTrue(), "%v have no %s of %s", files, key, place)
				}
			}
		}
	})
})

// objects returns the properties of each object of a schema, by its place.
func objects(schema object) map[string]object {
	found := map[string]object{}
	var walk func(place string, schema object)
	walk = func(place string, schema object) {
		if properties, ok := schema["properties"].(object); ok {
			found[place] = properties
		}
		for _, keyword := range []string{"properties", "definitions"} {
			nested, _ := schema[keyword].(object)
			for key, item := range nested {
				walk(place+"/"+keyword+"/"+key, item.(object))
			}
		}
		if items, ok := schema["items"].(object); ok {
			walk(place+"/items", items)
		}
	}
	walk("", schema)
	return found
}

// referenced follows a $ref.
func referenced(root, node object) object {
	name, ok := node["$ref"].(string)
	if !ok {
		return node
	}
	return root["definitions"].(object)[strings.TrimPrefix(name, "#/definitions/")].(object)
}

// use notes the keys of a document by the place of the object of the schema that describes them.
func use(root, schema object, place string, document any, used map[string]bool) {
	if name, ok := schema["$ref"].(string); ok {
		schema, place = referenced(root, schema), strings.TrimPrefix(name, "#")
	}
	if options, ok := schema["anyOf"].([]any); ok {
		for i, option := range options {
			use(root, option.(object), place+"/anyOf/"+strconv.Itoa(i), document, used)
		}
	}
	switch document := document.(type) {
	case object:
		properties, _ := schema["properties"].(object)
		for key, item := range document {
			if property, ok := properties[key].(object); ok {
				used[place+" "+key] = true
				use(root, property, place+"/properties/"+key, item, used)
			}
		}
	case []any:
		if items, ok := schema["items"].(object); ok {
			for _, item := range document {
				use(root, items, place+"/items", item, used)
			}
		}
	}
}
