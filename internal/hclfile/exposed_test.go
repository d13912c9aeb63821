package hclfile_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/hclfile"
)

var _ = Describe("the variables in command lines", func() {
	// exposed returns the names of the variables that a provisioner with these arguments exposes.
	exposed := func(arguments, rest string) (names []string) {
		for _, exposure := range hclfile.Exposures(map[string]string{
			"main.tf": "resource \"terraform_data\" \"x\" {\n  provisioner \"local-exec\" {\n" + arguments +
				"\n  }\n}\n" + rest,
		}) {
			Expect(exposure.Pos.File).To(Equal("main.tf"))
			Expect(exposure.Pos.Line).To(BeNumerically(">", 2))
			names = append(names, exposure.Variable)
		}
		return names
	}

	DescribeTable("are found", func(arguments, rest string) {
		Expect(exposed(arguments, rest)).To(Equal([]string{"a"}))
	},
		Entry("in a text", `command = "client ${var.a}"`, ""),
		Entry("alone", `command = var.a`, ""),
		Entry("in the interpreter", `interpreter = ["client", var.a]`, ""),
		Entry("in a function", `command = join(" ", ["client", urlencode(var.a)])`, ""),
		Entry("in a result of a condition", `command = var.b ? "client" : "client ${var.a}"`, ""),
		Entry("by local values", `command = local.one`,
			"locals {\n  one = \"client ${local.two}\"\n  two = (var.a)\n}"),
		Entry("by a local value that refers to itself", `command = local.one`,
			`locals { one = "${local.one} ${var.a}" }`),
	)

	DescribeTable("do not include what is not a part of the command line", func(arguments, rest string) {
		Expect(exposed(arguments, rest)).To(BeEmpty())
	},
		Entry("the environment", "command = \"client\"\nenvironment = { A = var.a }", ""),
		Entry("a condition", `command = var.a == "" ? "client" : "other"`, ""),
		Entry("a hash", `command = "client ${sha256(var.a)}"`, ""),
		Entry("an unused local value", `command = "client"`, `locals { one = var.a }`),
		Entry("an output", `command = "client"`, `output "a" { value = var.a }`),
	)

	It("are found in data sources and nested blocks, with the argument", func() {
		Expect(hclfile.Exposures(map[string]string{
			"b.tf": "data \"external\" \"x\" {\n  program = [\"client\", var.a]\n}\n",
			"a.tf": "resource \"shell_script\" \"x\" {\n  lifecycle_commands {\n    create = var.b\n  }\n}\n",
		})).To(HaveExactElements(
			And(HaveField("Variable", "b"), HaveField("Argument", "create"), HaveField("Pos.Line", 3)),
			And(HaveField("Variable", "a"), HaveField("Argument", "program"), HaveField("Pos.Line", 2)),
		))
	})
})
