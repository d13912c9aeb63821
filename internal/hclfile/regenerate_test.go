package hclfile_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/hclfile"
)

// mappings returns entries of import_parameter_mappings or import_parameters_to_add.
func mappings(pairs ...string) []hclfile.Mapping {
	var all []hclfile.Mapping
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, hclfile.Mapping{TFVariable: pairs[i], Parameter: pairs[i+1]})
	}
	return all
}

func read(name string) []byte {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	Expect(err).NotTo(HaveOccurred())
	return text
}

// after completes a regeneration with the state and the schemas of a directory of testdata.
func after(directory string, r hclfile.Regeneration) hclfile.Regeneration {
	GinkgoHelper()
	r.State, r.Schemas = read(directory+"/state.json"), read(directory+"/schemas.json")
	return r
}

// golden compares a result with a file in testdata, or writes the file if UPDATE is set.
func golden(name string, got []byte) {
	GinkgoHelper()
	if os.Getenv("UPDATE") != "" {
		Expect(os.WriteFile(filepath.Join("testdata", name), got, 0o600)).To(Succeed())
	}
	Expect(string(got)).To(Equal(string(read(name))))
}

var (
	recorded = []string{
		"terraform_data.settings", "directory_entry.replica", "directory_entry.database",
		"random_password.admin", "terraform_data.imported",
	}
	nested = []string{"nest_thing.second", "nest_thing.first", "nest_thing.first"}
)

var _ = Describe("Regenerate", func() {
	DescribeTable("writes main.tf",
		func(directory, name string, r hclfile.Regeneration) {
			got, err := hclfile.Regenerate(after(directory, r))
			Expect(err).NotTo(HaveOccurred())
			golden(directory+"/"+name+".tf", []byte(got.Main))
			text := got.Main
			got.Main = ""
			var rest bytes.Buffer
			encoder := json.NewEncoder(&rest)
			encoder.SetEscapeHTML(false)
			encoder.SetIndent("", "  ")
			Expect(encoder.Encode(got)).To(Succeed())
			golden(directory+"/"+name+".json", rest.Bytes())

			_, diags := hclfile.Inspect(map[string]string{"main.tf": text})
			Expect(diags.Err()).NotTo(HaveOccurred())
			again, err := hclfile.Regenerate(after(directory, r))
			Expect(err).NotTo(HaveOccurred())
			Expect(again.Main).To(Equal(text))
		},
		Entry("as the specification prints it", "published", "published", hclfile.Regeneration{
			Resources: []string{"azurerm_mssql_database.azure_sql_db"},
			Delete:    []string{"azurerm_mssql_database.azure_sql_db.id"},
			Mappings:  mappings("requested_service_objective_name", "var.service_objective"),
		}),
		Entry("from a state that OpenTofu has written", "recorded", "whole", hclfile.Regeneration{Resources: recorded}),
		Entry("with mappings, from a state that OpenTofu has written", "recorded", "changed", hclfile.Regeneration{
			Resources: recorded,
			Delete: []string{
				"random_password.admin.upper", "random_password.admin.override_special",
				"terraform_data.imported.id",
			},
			Add: mappings("terraform_data.imported.input", "jsonencode({a = var.b})", "directory_entry.replica.content",
				"var.content",
				"directory_entry.replica.provider", "directory.east", "random_password.admin.special", "false"),
			Mappings: mappings("content", "var.content", "path", "local.path", "length", "size", "input",
				"var.settings", "special", "var.special"),
		}),
		Entry("with nested blocks and attributes", "nested", "whole", hclfile.Regeneration{Resources: nested}),
		Entry("with changes in nested blocks and attributes", "nested", "changed", hclfile.Regeneration{
			Resources: nested,
			Delete: []string{
				"nest_thing.first.network.route.to", "nest_thing.first.label", "nest_thing.first.peers",
				"nest_thing.first.admin.login",
				"nest_thing.first.rules.note", "nest_thing.second.name",
			},
			Add: mappings("nest_thing.first.seed", `"$${seed}"`, "nest_thing.second.seed", "var.seed"),
			Mappings: mappings("size", "var.size", "password", "var.password", "name", "var.name", "count",
				"local.count[0]", "key", "var.size", "tags", "var.tags"),
		}),
		Entry("with warnings of entries without effect", "nested", "warnings", hclfile.Regeneration{
			Files: map[string]string{
				"main.tf": "variable \"a\" {}\nresource \"nest_thing\" \"first\" {}\noutput \"o\" {\n  value = 1\n}\n" +
					"resource \"nest_thing\" \"third\" {}\nlocals {}\n",
				"data_override.tf": `resource "nest_thing" "first" {}`,
			},
			Resources: []string{"nest_thing.first"},
			Delete: []string{
				"nest_thing.first.nmae", "nest_thing.second.name", "name", "nest_thing.first.tags.team",
				"nest_thing.first.id",
			},
			Add: mappings("nest_thing.second.name", "1", "nest_thing.first.network.id", "1", "name", "1"),
			Mappings: mappings("sise", "var.size", "arn", "var.arn", "network", "var.network", "seed", "var.seed",
				"nest_thing.first.name", "var.name",
				"ip", "var.ip", "ip", "var.address", "anything", "var.anything"),
		}),
	)

	DescribeTable("rejects",
		func(directory string, r hclfile.Regeneration, want string) {
			_, err := hclfile.Regenerate(after(directory, r))
			Expect(err).To(MatchError(want))
		},
		Entry("an index", "recorded", hclfile.Regeneration{Resources: []string{"random_string.many[0]"}},
			`tf_resource "random_string.many[0]" must have the form TYPE.NAME, without count, for_each and modules`),
		Entry("a module", "recorded", hclfile.Regeneration{Resources: []string{"module.a.random_string.many"}},
			`tf_resource "module.a.random_string.many" must have the form TYPE.NAME, without count, for_each and `+
				`modules`),
		Entry("nothing", "recorded", hclfile.Regeneration{Resources: []string{""}},
			`tf_resource "" must have the form TYPE.NAME, without count, for_each and modules`),
		Entry("a resource with count", "recorded", hclfile.Regeneration{Resources: []string{"random_string.many"}},
			`tf_resource "random_string.many": the state has several objects of the resource random_string.many`),
		Entry("a resource that was not imported", "published", hclfile.Regeneration{Resources: []string{"a.b"}},
			`tf_resource "a.b" is not in the state after the import; `+
				`the state contains azurerm_mssql_database.azure_sql_db`),
		Entry("a resource of another file", "recorded", hclfile.Regeneration{
			Resources: recorded,
			Files:     map[string]string{"data.tf": "locals {}\n\nresource \"random_password\" \"admin\" {}\n"},
		}, `data.tf:3:1: tf_resource "random_password.admin" must be defined in main.tf, the file that is `+
			`regenerated after an import`),
		Entry("main.tofu", "recorded",
			hclfile.Regeneration{Resources: recorded, Files: map[string]string{"main.tofu": ""}},
			`main.tofu:1:1: main.tofu takes the place of main.tf, which is regenerated after an import; rename it`),
		Entry("a text that is not an expression", "recorded",
			hclfile.Regeneration{Resources: recorded, Mappings: mappings("path", "var.")},
			`import_parameter_mappings: parameter_name "var." of tf_variable "path" must be an expression in one `+
				`line, such as var.NAME, local.NAME or 10`),
		Entry("more than an expression", "recorded",
			hclfile.Regeneration{Resources: recorded, Mappings: mappings("path", "1\n}\nresource {}")},
			`import_parameter_mappings: parameter_name "1\n}\nresource {}" of tf_variable "path" must be an `+
				`expression in one line, such as var.NAME, local.NAME or 10`),
		Entry("an empty parameter_name", "recorded",
			hclfile.Regeneration{Resources: recorded, Add: mappings("directory_entry.replica.content", "")},
			`import_parameters_to_add: parameter_name "" of tf_variable "directory_entry.replica.content" must be `+
				`an expression in one line, such as var.NAME, local.NAME or 10`),
		Entry("an argument that does not exist", "recorded",
			hclfile.Regeneration{Resources: recorded, Add: mappings("directory_entry.replica.contents", "1")},
			`import_parameters_to_add: directory_entry has no argument "contents"; did you mean "content"?; its `+
				`arguments are content, fail, name, path, depends_on, provider`),
		Entry("an argument that is only computed", "recorded",
			hclfile.Regeneration{Resources: recorded, Add: mappings("directory_entry.replica.secret", "1")},
			`import_parameters_to_add: directory_entry has no argument "secret"; its arguments are content, fail, `+
				`name, path, depends_on, provider`),
	)

	It("warns of a value that is sensitive in one of several blocks", func() {
		block := `{"attributes": {"v": {"optional": true, "type": "string"}}}`
		got, err := hclfile.Regenerate(hclfile.Regeneration{
			State: []byte(strings.Replace(resource(`{"n": {"x": {"v": "1"}, "y": {"v": "2"}}}`), `"values": {"n"`,
				`"sensitive_values": {"n": {"y": {"v": true}}}, "values": {"n"`, 1)),
			Schemas:   []byte(strings.Replace(schema("map"), `"block": {}`, `"block": `+block, 1)),
			Resources: []string{"a.b"},
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Warnings).To(ConsistOf(ContainSubstring("the sensitive value of a.b.n.v is written to main.tf in " +
			"the clear")))
	})

	It("takes a name with a comment for the variable", func() {
		got, err := hclfile.Regenerate(hclfile.Regeneration{
			State: []byte(resource(`{"v": "x"}`)), Schemas: []byte(schema("list")), Resources: []string{"a.b"},
			Mappings: mappings("v", "size # of the disk"),
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Main).To(ContainSubstring("v = var.size\n"))
		Expect(got.Values).To(HaveKeyWithValue("size", "x"))
	})

	It("writes an added number that is too large for the variable of its mapping", func() {
		number := "123456789012345678901234567890"
		got, err := hclfile.Regenerate(hclfile.Regeneration{
			State: []byte(resource(`{}`)), Schemas: []byte(schema("list")), Resources: []string{"a.b"},
			Add: mappings("a.b.v", number), Mappings: mappings("v", "var.v"),
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Main).To(ContainSubstring("v = " + number + "\n"))
		Expect(got.Warnings).To(ConsistOf(
			"a.b.v keeps its literal value, because its number is too large for a value of var.v"))
	})

	DescribeTable("rejects a state or schemas that do not fit",
		func(state, schemas, want string) {
			_, err := hclfile.Regenerate(hclfile.Regeneration{
				State: []byte(state), Schemas: []byte(schemas),
				Resources: []string{"a.b"},
			})
			Expect(err).To(MatchError(ContainSubstring(want)))
		},
		Entry("no state", ``, `{}`, "reading the state that OpenTofu shows: unexpected end of JSON input"),
		Entry("no schemas", `{}`, ``, "reading the schemas of the providers: unexpected end of JSON input"),
		Entry("an empty state", `{}`, `{}`,
			`tf_resource "a.b" is not in the state after the import; the state contains none`),
		Entry("another provider", resource(`{}`), `{"provider_schemas": {"q": {}}}`,
			`tf_resource "a.b": OpenTofu reported no schema for the provider p; it reported schemas for q`),
		Entry("another type", resource(`{}`), `{"provider_schemas": {"p": {}}}`,
			`tf_resource "a.b": the provider p has no resources of the type a`),
		Entry("a count of one", `{"values": {"root_module": {"resources": [{"mode": "managed", "type": "a", "name": `+
			`"b", "index": 0}]}}}`, `{}`,
			`tf_resource "a.b" has count or for_each; only resources without them can be regenerated`),
		Entry("a value that does not fit its nesting mode", resource(`{"n": [1]}`), schema("map"),
			`the value at a.b.n does not fit its nesting mode, "map"`),
		Entry("a nested list of no objects", resource(`{"n": [1]}`), schema("list"),
			`the state has no object at a.b.n.0`),
		Entry("a nested map of no objects", resource(`{"n": {"k": 1}}`), schema("map"),
			`the state has no object at a.b.n.k`),
		Entry("a number that is too large", resource(`{"v": 1e999999999}`), schema("list"),
			`the number at a.b.v is too large or too small`),
		Entry("a number that is too small", resource(`{"v": 1e-999999999}`), schema("list"),
			`the number at a.b.v is too large or too small`),
	)
})

// resource returns a state with the resource a.b of the provider p.
func resource(values string) string {
	return `{"values": {"root_module": {"resources": [{"mode": "managed", "type": "a", "name": "b", ` +
		`"provider_name": "p", "values": ` + values + `}]}}}`
}

// schema returns the schemas of resources of the type a with the attribute v and nested blocks n.
func schema(mode string) string {
	return `{"provider_schemas": {"p": {"resource_schemas": {"a": {"block": {"attributes": {"v": {"optional": true}},
		"block_types": {"n": {"nesting_mode": "` + mode + `", "block": {}}}}}}}}}`
}

var _ = Describe("CheckImport", func() {
	It("reports the parts of main.tf that an import loses", func() {
		found := hclfile.CheckImport(map[string]string{
			"main.tf": `
resource "a" "b" {
  provider   = a.east
  depends_on = []
  name       = "c"
  lifecycle {
    prevent_destroy = true
  }
  disk {}
}
data "a" "b" {}
locals {}
resource "a" "c" {
  provider = a.east
}
provider "a" {}
`,
			"other.tf":       `resource "a" "d" {}`,
			"b_override.tf":  `resource "a" "b" {}`,
			"broken.tf":      `resource "a" {`,
			"no-labels.tofu": `resource {}`,
		}, []string{"a.b"}, mappings("a.b.depends_on", "[]"))
		var all []string
		for _, item := range found.All() {
			all = append(all, item.String())
		}
		Expect(all).To(Equal([]string{
			"main.tf:3:3: warning: provider of a.b is lost, because main.tf is regenerated after an import [import]",
			"main.tf:6:3: warning: lifecycle of a.b is lost, because main.tf is regenerated after an import [import]",
			"main.tf:11:1: warning: data.a.b is lost, because main.tf is regenerated after an import; put it into " +
				"another file [import]",
			"main.tf:12:1: warning: locals is lost, because main.tf is regenerated after an import; put it into " +
				"another file [import]",
			"main.tf:13:1: warning: a.c is lost, because main.tf is regenerated after an import; put it into " +
				"another file [import]",
			"main.tf:16:1: warning: provider.a is lost, because main.tf is regenerated after an import; put it into " +
				"another file [import]",
		}))
	})
})

var _ = Describe("ParameterVariables", func() {
	DescribeTable("returns the variables of an expression",
		func(parameter string, want ...string) {
			names, err := hclfile.ParameterVariables(hclfile.Mapping{TFVariable: "a", Parameter: parameter})
			Expect(err).NotTo(HaveOccurred())
			Expect(names).To(HaveExactElements(want))
		},
		Entry("a variable", "var.a", "a"),
		Entry("a bare name", " a ", "a"),
		Entry("parts of variables", `"${var.b.c}-${var.a[0]}"`, "a", "b"),
		Entry("a local value", "local.a"),
		Entry("a constant", "10"),
		Entry("true", "true"),
	)
})
