package pakdoc_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/xeipuuv/gojsonschema" //nolint:depguard // the published schemas are checked as editors would
	"gopkg.in/yaml.v3"

	"service-adapter/internal/pakdoc"
)

type object = map[string]any

// tree decodes YAML, of which JSON is a part.
func tree(text string) object {
	GinkgoHelper()
	var decoded object
	Expect(yaml.Unmarshal([]byte(text), &decoded)).To(Succeed())
	return decoded
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
		Expect(faults(pakdoc.ManifestSchema, readFile(filepath.Join(dir, "manifest.yml")))).To(BeEmpty())
		Expect(faults(pakdoc.DefinitionSchema, readFile(filepath.Join(dir, definition)))).To(BeEmpty())
	},
		Entry("the pak with everything", everything, "everything.yml"),
		Entry("its other service", everything, "minimal.yml"),
		Entry("redis", example("redis"), "redis.yml"),
		Entry("the specification's example", example("example-email"), "example-service.yml"),
	)

	DescribeTable("refuse", func(schema, file, old, new, want string) {
		text := readFile(filepath.Join(everything, file))
		Expect(text).To(ContainSubstring(old))
		Expect(faults(schema, strings.Replace(text, old, new, 1))).To(ContainElement(ContainSubstring(want)))
	},
		Entry("an unknown key of the manifest", pakdoc.ManifestSchema, "manifest.yml", "version: 1.20", "vresion: 1.20", "vresion"),
		Entry("an unknown platform", pakdoc.ManifestSchema, "manifest.yml", "os: linux", "os: plan9", "platforms.0.os"),
		Entry("an unknown key of an input", pakdoc.DefinitionSchema, "everything.yml", "prohibit_update:", "prohibit_updates:", "prohibit_updates"),
		Entry("an unknown type", pakdoc.DefinitionSchema, "everything.yml", "type: integer", "type: int", "type"),
		Entry("a wrong id", pakdoc.DefinitionSchema, "everything.yml", "2e01", "2e0", "id"),
		Entry("an unknown key of bosh", pakdoc.DefinitionSchema, "everything.yml", "carry_over:", "carryover:", "bosh"),
	)

	It("describe every key", func() {
		for _, schema := range []string{pakdoc.ManifestSchema, pakdoc.DefinitionSchema} {
			root := tree(schema)
			for place, properties := range objects(root) {
				for key, property := range properties {
					described := property.(object)["description"] != nil || referenced(root, property.(object))["description"] != nil
					Expect(described || strings.HasSuffix(place, "/constraints")).To(BeTrue(), "%s of %s", key, place)
				}
			}
		}
	})

	// The pak with everything is read without a warning and uses each key of the schemas, so the parser knows them all.
	It("have no key that the parser does not know", func() {
		Expect(openPak(everything).Warnings).To(BeEmpty())
		for schema, files := range map[string][]string{
			pakdoc.ManifestSchema: {"manifest.yml"}, pakdoc.DefinitionSchema: {"everything.yml", "minimal.yml"},
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

	It("have every key that the parser knows", func() {
		var known []object
		for _, schema := range []string{pakdoc.ManifestSchema, pakdoc.DefinitionSchema} {
			known = slices.AppendSeq(known, maps.Values(objects(tree(schema))))
		}
		mappings := parserKeys()
		Expect(len(mappings)).To(BeNumerically(">", 15), "the parser's source was understood")
		for _, keys := range mappings {
			Expect(slices.ContainsFunc(known, func(properties object) bool {
				return !slices.ContainsFunc(keys, func(key string) bool { return properties[key] == nil })
			})).To(BeTrue(), "no object of the schemas has all of %v", keys)
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

// parserKeys returns the keys of each mapping that the parser decodes, from its source: the literals of fields and
// namedField.
func parserKeys() [][]string {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join("..", "..", "brokerpak", "*.go"))
	Expect(err).NotTo(HaveOccurred())
	var found [][]string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		Expect(err).NotTo(HaveOccurred())
		ast.Inspect(parsed, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CompositeLit:
				if isIdent(node.Type, "fields") {
					found = append(found, literalKeys(node))
				} else if isIdent(node.Type, "namedField") {
					found = append(found, firstText(node))
				}
			}
			return true
		})
	}
	return found
}

func isIdent(expression ast.Expr, name string) bool {
	ident, ok := expression.(*ast.Ident)
	return ok && ident.Name == name
}

func literalKeys(literal *ast.CompositeLit) []string {
	var keys []string
	for _, element := range literal.Elts {
		keys = append(keys, firstText(element.(*ast.CompositeLit))...)
	}
	return keys
}

// firstText is the first element of a literal, when that is a text.
func firstText(literal *ast.CompositeLit) []string {
	if len(literal.Elts) > 0 {
		if key, ok := literal.Elts[0].(*ast.BasicLit); ok {
			return []string{unquoted(key)}
		}
	}
	return nil
}

func unquoted(literal *ast.BasicLit) string {
	GinkgoHelper()
	text, err := strconv.Unquote(literal.Value)
	Expect(err).NotTo(HaveOccurred())
	return text
}
