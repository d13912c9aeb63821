package hclfile_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
)

var _ = Describe("Inspect", func() {
	DescribeTable("reports whether the name of the workspace is used", func(expression string, asked bool) {
		module, diags := hclfile.Inspect(map[string]string{"main.tf": "locals {\n  a = " + expression +
			"\n}\nterraform {}\n"})
		Expect(diags.Err()).NotTo(HaveOccurred())
		Expect(module.UsesWorkspaceName).To(Equal(asked))
	},
		Entry(nil, `terraform.workspace`, true), Entry(nil, `[for w in ["x"]: "${w}-${tofu . workspace}"]`, true),
		Entry(nil, `terraform.env`, false), Entry(nil, `"terraform.workspace"`, false),
		Entry(nil, `local.workspace`, false),
		Entry(nil, `[for terraform in [{workspace = 1}]: terraform.workspace]`, false),
	)

	It("returns the declarations of a template", func() {
		module, diags := hclfile.Inspect(map[string]string{
			"main.tf": `
terraform {
  required_providers {
    random = {
      source  = "registry.terraform.io/hashicorp/random"
      version = ">= 3"
    }
    plain = "~> 1.0"
    quoted = { "source" = "example.com/a/quoted" }
  }
}
resource "random_string" "name" {
  length = 8
  lifecycle { prevent_destroy = true }
}
resource "random_string" "free" {
  length = var.length
  lifecycle { create_before_destroy = true }
}
data "http" "page" { url = "http://${var.host}:${var.port}" }
module "sub" {
  source = "./sub"
  for_each = toset(var.names)
}
check "alive" { 
  assert {
    condition     = var.port > 0
    error_message = "no"
  }
}
`,
			"outputs.tf": `
output "url" { value = "x" }
output "name" { value = random_string.name.result }
`,
			"variables.tf": `
variable "host" { type = string }
variable "port" {
  default   = null
  sensitive = "true"
}
variable "length" {
  sensitive = false
  default   = 3
  validation {
    condition     = var.length > 0
    error_message = "length must be positive"
  }
}
`,
		})
		Expect(diags.Err()).NotTo(HaveOccurred())
		Expect(module).To(Equal(&hclfile.Module{
			Variables: map[string]hclfile.Variable{
				"host":   {Pos: diag.Pos{File: "variables.tf", Line: 2, Column: 1}},
				"port":   {Pos: diag.Pos{File: "variables.tf", Line: 3, Column: 1}, HasDefault: true, Sensitive: true},
				"length": {Pos: diag.Pos{File: "variables.tf", Line: 7, Column: 1}, HasDefault: true},
			},
			Outputs: []string{"name", "url"},
			OutputPositions: map[string]diag.Pos{
				"url": {File: "outputs.tf", Line: 2, Column: 1}, "name": {File: "outputs.tf", Line: 3, Column: 1},
			},
			Resources: []string{"random_string.free", "random_string.name"},
			Data:      []string{"data.http.page"},
			Modules:   []string{"module.sub"},
			Calls: map[string]hclfile.Call{"sub": {
				Source: "./sub",
				Pos:    diag.Pos{File: "main.tf", Line: 22, Column: 12},
			}},
			Protected: []string{"random_string.name"},
			RequiredProviders: map[string]string{
				"random": "registry.terraform.io/hashicorp/random", "plain": "", "quoted": "example.com/a/quoted",
			},
			Providers: map[string]diag.Pos{
				"random": {File: "main.tf", Line: 4, Column: 5}, "plain": {File: "main.tf", Line: 8, Column: 5},
				"quoted": {File: "main.tf", Line: 9, Column: 5}, "http": {File: "main.tf", Line: 20, Column: 1},
			},
			Undeclared: map[string]diag.Pos{"names": {File: "main.tf", Line: 23, Column: 20}},
		}))
	})

	DescribeTable("returns the provider of a resource",
		func(text, name string) {
			module, diags := hclfile.Inspect(map[string]string{"main.tf": text})
			Expect(diags.Err()).NotTo(HaveOccurred())
			Expect(module.Providers).To(Equal(map[string]diag.Pos{name: {File: "main.tf", Line: 1, Column: 1}}))
		},
		Entry("by the type of a resource", `resource "null_resource" "a" {}`, "null"),
		Entry("by the type of a data source", `data "http" "a" {}`, "http"),
		Entry("by the argument of a resource", `resource "aws_thing" "a" { provider = beta }`, "beta"),
		Entry("by the argument with an alias", `resource "aws_thing" "a" { provider = beta.east }`, "beta"),
		Entry("by a provider block", `provider "aws" { region = "x" }`, "aws"),
	)

	DescribeTable("returns the used names that have no variable block",
		func(text string, names ...string) {
			module, diags := hclfile.Inspect(map[string]string{"main.tf": text})
			Expect(diags.Err()).NotTo(HaveOccurred())
			var found []string
			for name := range module.Undeclared {
				found = append(found, name)
			}
			Expect(found).To(ConsistOf(names))
		},
		Entry("in an attribute", `output "a" { value = var.x }`, "x"),
		Entry("in a template", `output "a" { value = "a${var.x}b${var.y.z}" }`, "x", "y"),
		Entry("in a heredoc", "output \"a\" {\n value = <<E\n${var.x}\nE\n}", "x"),
		Entry("in a template directive", `output "a" { value = "%{ if var.x }1%{ endif }" }`, "x"),
		Entry("in a function call", `output "a" { value = lookup(var.m, var.k, "") }`, "m", "k"),
		Entry("in a for expression", `output "a" { value = [for v in var.list : v.a if v.b != var.c] }`, "list", "c"),
		Entry("in an object key", `locals { a = { (var.k) = 1 } }`, "k"),
		Entry("in a conditional, an index and a splat", `locals { a = var.c ? var.l[var.i] : var.s[*].id }`, "c", "l",
			"i", "s"),
		Entry("in a nested block", `resource "a" "b" {
  dynamic "c" {
    for_each = var.cs
    content { d = var.d }
  }
}`, "cs", "d"),
		Entry("in a provider", `provider "a" { url = var.url }`, "url"),
		Entry("not when declared", "variable \"x\" {}\noutput \"a\" { value = var.x }"),
		Entry("not where a for expression hides var", `locals { a = [for var in [] : var.x] }`),
		Entry("not in text", `locals { a = "var.x $${var.y}" }`),
	)

	DescribeTable("returns repeated declarations", func(name, text string, want ...string) {
		module, diags := hclfile.Inspect(map[string]string{"a.tf": "locals {\n  a = 1\n}\n" +
			"variable \"v\" {}\nmodule \"m\" { source = \"./m\" }\nprovider \"p\" {}\ndata \"d\" \"x\" " +
			"{}\n", name: text})
		Expect(diags.Err()).NotTo(HaveOccurred())
		var found []string
		for _, repeated := range module.Repeated {
			found = append(found, repeated.Pos.String()+": "+repeated.Name+" as in "+repeated.First.String())
		}
		Expect(found).To(HaveExactElements(want))
	},
		Entry("a variable", "b.tf", "\nvariable \"v\" {}", `b.tf:2:1: variable "v" as in a.tf:4:1`),
		Entry("three of them", "b.tf", "variable \"v\" {}\nvariable \"v\" {}", `b.tf:1:1: variable "v" as in a.tf:4:1`,
			`b.tf:2:1: variable "v" as in a.tf:4:1`),
		Entry("a local value", "b.tf", `locals { a = 2 }`, `b.tf:1:10: local value "a" as in a.tf:2:3`),
		Entry("a module", "b.tf", `module "m" { source = "./m" }`, `b.tf:1:1: module "m" as in a.tf:5:1`),
		Entry("a configuration of a provider", "b.tf", `provider "p" {}`, `b.tf:1:1: provider "p" as in a.tf:6:1`),
		Entry("a data source", "b.tf", `data "d" "x" {}`, `b.tf:1:1: data "d" "x" as in a.tf:7:1`),
		Entry("not another configuration", "b.tf",
			"provider \"p\" { alias = \"o\" }\nprovider \"p\" { alias = \"q\" }"),
		Entry("not settings of OpenTofu", "b.tf", "terraform {}\nterraform {}"),
		Entry("not another kind", "b.tf", "resource \"d\" \"x\" {}\noutput \"v\" { value = 1 }"),
		Entry("not in a file that overrides", "b_override.tf", "variable \"v\" {}\nvariable \"v\" {}"),
	)

	It("combines a variable with its override", func() {
		module, diags := hclfile.Inspect(map[string]string{
			"a.tf":          "variable \"v\" {\n  default   = 1\n  sensitive = true\n}",
			"b_override.tf": `variable "v" { type = number }`,
		})
		Expect(diags.Err()).NotTo(HaveOccurred())
		Expect(module.Variables).To(HaveKeyWithValue("v",
			And(HaveField("HasDefault", true), HaveField("Sensitive", true))))
	})

	It("lists the sensitive outputs", func() {
		module, diags := hclfile.Inspect(map[string]string{"main.tf": `
output "text" {
  value     = 1
  sensitive = "true"
}
output "constant" {
  value     = 1
  sensitive = true
}
output "other" {
  value     = 1
  sensitive = false
}
`})
		Expect(diags.Err()).NotTo(HaveOccurred())
		Expect(module.SensitiveOutputs).To(Equal([]string{"constant", "text"}))
	})

	DescribeTable("reports whether a provider may have several configurations", func(text string, expected bool) {
		module, diags := hclfile.Inspect(map[string]string{"main.tf": text})
		Expect(diags.Err()).NotTo(HaveOccurred())
		Expect(module.Aliases).To(Equal(expected))
	},
		Entry("no provider block", `resource "random_password" "a" {}`, false),
		Entry("a block", `provider "random" {}`, false),
		Entry("an alias", `provider "random" { alias = "second" }`, true),
		Entry("one for each of several keys", `provider "random" {
  alias    = "each"
  for_each = toset(["a"])
}`, true),
	)

	DescribeTable("returns the providers that other blocks use", func(text string) {
		module, diags := hclfile.Inspect(map[string]string{"main.tf": text})
		Expect(diags.Err()).NotTo(HaveOccurred())
		Expect(module.Providers).To(HaveKey("random"))
	},
		Entry("ephemeral", `ephemeral "random_password" "a" {}`),
		Entry("data in a check", `check "a" {
  data "random_pet" "b" {}
}`),
	)

	It("returns the first position of a name that is used several times", func() {
		module, _ := hclfile.Inspect(map[string]string{
			"a.tf": "locals {\n  b = var.x\n  a = var.x\n}",
			"b.tf": "locals { c = var.x }",
		})
		Expect(module.Undeclared).To(Equal(map[string]diag.Pos{"x": {File: "a.tf", Line: 2, Column: 7}}))
	})

	DescribeTable("reports errors",
		func(name, text, want string) {
			_, diags := hclfile.Inspect(map[string]string{name: text})
			Expect(diags.Err()).To(MatchError(want))
		},
		Entry("syntax", "main.tf", "output \"a\" {\n  value = = 1\n}",
			"main.tf:2:11: Invalid expression: Expected the start of an expression, but found an invalid expression "+
				"token [hcl-syntax]"),
		Entry("too many labels", "main.tf", `output a b {}`,
			"main.tf:1:10: Extraneous label for output: Only 1 labels (name) are expected for output blocks "+
				"[hcl-syntax]"),
		Entry("too few labels", "main.tf", `resource "a" {}`,
			"main.tf:1:14: Missing name for resource: All resource blocks must have 2 labels (type, name) "+
				"[hcl-syntax]"),
		Entry("a reserved variable", "main.tf", `variable "_binding_record" {}`,
			`main.tf:1:10: the name "_binding_record" of this variable is reserved; names must not begin with `+
				`_binding or _complete [reserved-name]`),
		Entry("a reserved output", "main.tf", `output "_complete" { value = 1 }`,
			`main.tf:1:8: the name "_complete" of this output is reserved; names must not begin with _binding or `+
				`_complete [reserved-name]`),
		Entry("a reserved resource", "main.tf", `resource "terraform_data" "_binding" {}`,
			`main.tf:1:27: the name "_binding" of this resource is reserved; names must not begin with _binding or `+
				`_complete [reserved-name]`),
		Entry("the use of a reserved variable", "main.tf", `locals { a = var._binding_nonce }`,
			`main.tf:1:14: the name "var._binding_nonce" is reserved [reserved-name]`),
		Entry("JSON syntax", "main.tf.json", `{}`,
			"main.tf.json: a template file must have a plain name that ends in .tf or .tofu; JSON syntax is not "+
				"supported [template-name]"),
		Entry("a file in a directory", "../main.tf", ``,
			"../main.tf: a template file must have a plain name that ends in .tf or .tofu; JSON syntax is not "+
				"supported [template-name]"),
	)

	It("reads the rest of a file with an error", func() {
		module, diags := hclfile.Inspect(map[string]string{
			"a.tf": "variable \"a\" {}\noutput \"o\" { value = }\n",
			"b.tf": "variable \"b\" {}",
		})
		Expect(diags.HasErrors()).To(BeTrue())
		Expect(module.Variables).To(HaveKey("a"))
		Expect(module.Variables).To(HaveKey("b"))
	})
})
