package schemas_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"os"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/value"
)

// The rules are the manifest's schema as Go: UPDATE=1 go test ./schemas writes them.
var _ = It("accepts by the rules of the schema", func() {
	const file = "manifestrules.go"
	want := rulesSource()
	if os.Getenv("UPDATE") != "" {
		Expect(os.WriteFile(file, want, 0o644)).To(Succeed())
	}
	got, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(got)).To(Equal(string(want)))
})

// rulesSource writes the schema of manifests as variables in Go: the whole, and one for each definition.
func rulesSource() []byte {
	GinkgoHelper()
	text, err := os.ReadFile("bosh-manifest-v2.schema.json")
	Expect(err).NotTo(HaveOccurred())
	var schema jsonObject
	Expect(json.Unmarshal(text, &schema)).To(Succeed())
	definitions := schema["definitions"].(jsonObject)
	for _, key := range []string{"$schema", "$comment", "definitions"} {
		delete(schema, key)
	}
	out := bytes.NewBufferString("// Code generated from bosh-manifest-v2.schema.json by UPDATE=1 go test ./schemas. DO NOT EDIT.\n\npackage schemas\n\n" +
		"var manifestRule = " + ruleSource(schema) + "\n")
	for _, name := range value.Keys(definitions) {
		fmt.Fprintf(out, "\nvar %s = %s\n", ruleName(name), ruleSource(definitions[name]))
	}
	source, err := format.Source(out.Bytes())
	Expect(err).NotTo(HaveOccurred())
	return source
}

type jsonObject = map[string]any

func ruleName(definition string) string {
	words := strings.Split(definition, "_")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "") + "Rule"
}

// ruleSource writes one schema. It fails for a keyword that rules have not.
func ruleSource(schema any) string {
	GinkgoHelper()
	keywords := schema.(jsonObject)
	var fields []string
	add := func(name, format string, args ...any) {
		fields = append(fields, name+": "+fmt.Sprintf(format, args...))
	}
	for _, keyword := range value.Keys(keywords) {
		item, name := keywords[keyword], strings.ToUpper(keyword[:1])+keyword[1:]
		switch keyword {
		case "$ref":
			Expect(keywords).To(HaveLen(1), "what stands beside a reference does not count")
			add("Ref", "&%s", ruleName(strings.TrimPrefix(item.(string), "#/definitions/")))
		case "type":
			if one, ok := item.(string); ok {
				item = []any{one}
			}
			add("Types", "%s", textsSource(item))
		case "required", "enum":
			add(name, "%s", textsSource(item))
		case "const":
			Expect(keywords).NotTo(HaveKey("enum"))
			add("Enum", "%s", textsSource([]any{item}))
		case "properties":
			var properties strings.Builder
			for _, property := range value.Keys(item.(jsonObject)) {
				fmt.Fprintf(&properties, "\n{%q, %s},", property, ruleSource(item.(jsonObject)[property]))
			}
			add(name, "[]property{%s\n}", properties.String())
		case "additionalProperties":
			if item == false {
				add("Closed", "true")
			} else {
				add("Additional", "&%s", ruleSource(item))
			}
		case "items", "not", "if", "then":
			add(name, "&%s", ruleSource(item))
		case "allOf", "anyOf", "oneOf":
			var rules strings.Builder
			for _, one := range item.([]any) {
				fmt.Fprintf(&rules, "\n%s,", strings.TrimPrefix(ruleSource(one), "rule"))
			}
			add(name, "[]rule{%s\n}", rules.String())
		case "minItems", "minLength":
			add(name, "%v", item)
		case "minimum":
			add("Limited", "true")
			add(name, "%v", item)
		case "pattern":
			add(name, "%#q", item)
		default:
			Fail("a rule has no " + keyword)
		}
	}
	if len(fields) < 2 || !slices.ContainsFunc(fields, func(field string) bool { return strings.Contains(field, "\n") }) {
		return "rule{" + strings.Join(fields, ", ") + "}"
	}
	return "rule{\n" + strings.Join(fields, ",\n") + ",\n}"
}

func textsSource(list any) string {
	var texts []string
	for _, item := range list.([]any) {
		texts = append(texts, fmt.Sprintf("%q", item.(string)))
	}
	return "[]string{" + strings.Join(texts, ", ") + "}"
}
