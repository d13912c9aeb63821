package test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/xeipuuv/gojsonschema"

	"service-adapter/brokerpak"
	"service-adapter/internal/strictyaml"
)

// The tables of docs/testing.md are made of the types. UPDATE=1 writes them.
var _ = It("documents every key", func() {
	const file = "../../../docs/testing.md"
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	written := string(text)
	for section, of := range map[string]reflect.Type{
		"a case": reflect.TypeFor[Case](), "a step": reflect.TypeFor[Step](), "expect": reflect.TypeFor[Expectation](),
		"server": reflect.TypeFor[Server](),
	} {
		begin, end := "<!-- keys of "+section+" -->\n", "<!-- end -->"
		before, rest, found := strings.Cut(written, begin)
		Expect(found).To(BeTrue(), begin)
		_, after, found := strings.Cut(rest, end)
		Expect(found).To(BeTrue(), end)
		table := "| key | meaning |\n|---|---|\n"
		inherited, _ := strictyaml.Fields(reflect.TypeFor[Deployment]())
		keys, fields := strictyaml.Fields(of)
		for i, key := range keys {
			doc := fields[i].Tag.Get("doc")
			Expect(doc).NotTo(BeEmpty(), key)
			if section == "a step" && slices.Contains(inherited, key) {
				continue
			}
			table += fmt.Sprintf("| `%s` | %s |\n", key,
				regexp.MustCompile(`'([a-z][a-z0-9_.:-]*( --json)?)'`).ReplaceAllString(doc, "`$1`"))
		}
		written = before + begin + table + end + after
	}
	if os.Getenv("UPDATE") != "" {
		Expect(os.WriteFile(file, []byte(written), 0o644)).To(Succeed())
	}
	Expect(string(text)).To(Equal(written))
})

var _ = DescribeTable("the schema", func(text string, valid bool) {
	result, err := gojsonschema.Validate(gojsonschema.NewGoLoader(Schema()), gojsonschema.NewGoLoader(tree(text)))
	Expect(err).NotTo(HaveOccurred())
	Expect(result.Valid()).To(Equal(valid), fmt.Sprint(result.Errors()))
},
	Entry("accepts a case",
		"{plan: small, create: {a: [1]}, bind: null, vms: {a: [b]}, expect: {manifest: {/a: null}}}",
		true),
	Entry("accepts steps",
		"steps: [{do: create, releases: [{name: a, version: 1.5, jobs: [b]}], expect: {exit: 49, unchanged: true}}]",
		true),
	Entry("accepts a configuration", "config: {budget: 45s, config: {a: 1}, services: {a: {plans: [{name: b}]}}}",
		true),
	Entry("accepts instance groups", "instance_groups: [{name: a, vm_type: b, azs: [z1], migrated_from: [{name: c}]}]",
		true),
	Entry("rejects an unknown key", "creat: {}", false),
	Entry("rejects an unknown key of a step", "steps: [{do: create, server: {}}]", false),
	Entry("rejects an unknown action", "steps: [{do: creat}]", false),
	Entry("rejects a step that does nothing", "steps: [{}]", false),
	Entry("rejects an unknown setting", "config: {budgett: 45s}", false),
	Entry("rejects a wrong type", "vms: [a]", false),
)

var _ = DescribeTable("outputs are compared with their declarations", func(given map[string]any, want string) {
	err := checkOutputs("bind", []brokerpak.Variable{
		{Name: "host", Type: "string", Required: true},
		{Name: "port", Type: "integer"},
		{Name: "load", Type: "number"},
		{Name: "any"},
		{Name: "syslog_drain_url", Type: "string", Required: true},
	}, given)
	if want == "" {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(err).To(MatchError(want))
},
	Entry("all of them", map[string]any{"host": "a", "port": int64(1), "load": 0.5, "any": true}, ""),
	Entry("an integer for a number", map[string]any{"host": "a", "load": int64(1)}, ""),
	Entry("a missing required output", map[string]any{}, `bind: the required output "host" is missing`),
	Entry("a wrong type", map[string]any{"host": int64(1), "port": "1"},
		"bind: the output \"host\" must be of type string, found an integer\n"+
			"bind: the output \"port\" must be of type integer, found a string"),
)
