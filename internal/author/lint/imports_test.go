package lint_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The rule import", func() {
	const server = "  import_inputs:\n  - {field_name: id, type: string, details: D, tf_resource: " +
		"terraform_data.server}\n"
	const template = "  templates:\n    main: |\n      resource \"terraform_data\" \"server\" {}\n"

	DescribeTable("reports",
		func(provision string, want ...string) {
			found := lintExcerpt(map[string]string{"service.yml": "provision:\n" + provision})
			Expect(lines(found)).To(HaveLen(len(want)))
			for i, text := range want {
				Expect(lines(found)[i]).To(And(ContainSubstring(text), HaveSuffix("[import]")))
			}
		},
		Entry("no finding about a complete import", server+template+
			"  import_parameter_mappings:\n  - {tf_variable: input, parameter_name: id}\n"+
			"  - {tf_variable: a, parameter_name: 10}\n"+
			"  import_parameters_to_add:\n  - {tf_variable: terraform_data.server.input, parameter_name: "+
			"\"local.a\"}\n"+
			"  import_parameters_to_delete: [terraform_data.server.id]\n"),
		Entry("an import input without a name and a resource",
			"  import_inputs:\n  - {type: string, details: D}\n"+template,
			"service.yml:24:5: an import input without field_name cannot get a value",
			`service.yml:24:5: tf_resource "" is not a resource of the provision template; `+
				`it has terraform_data.server`),
		Entry("a resource that does not exist",
			"  import_inputs:\n  - {field_name: id, type: string, details: D, tf_resource: \"a.b[0]\"}\n"+
				"  bosh: {manifest_ref: bosh/manifest.yml}\n",
			`service.yml:24:61: tf_resource "a.b[0]" is not a resource of the provision template; it has none`),
		Entry("a resource in another file",
			server+"  templates:\n    data: |\n      # a resource\n      resource \"terraform_data\" \"server\" {}\n",
			`service.yml:28:7: tf_resource "terraform_data.server" must be defined in main.tf`),
		Entry("a resource in an inline template",
			server+"  template: |\n    resource \"terraform_data\" \"server\" {}\n",
			`service.yml:26:5: tf_resource "terraform_data.server" must be defined in main.tf`),
		Entry("a block of main.tf that an import loses", server+template+"      locals {}\n",
			"service.yml:28:7: warning: locals is lost"),
		Entry("paths of other resources", server+template+
			"  import_parameters_to_add:\n  - {tf_variable: input, parameter_name: \"1\"}\n"+
			"  import_parameters_to_delete: [terraform_data.other.id]\n",
			`service.yml:29:19: warning: "input" in import_parameters_to_add is not `+
				`TYPE.NAME.ATTRIBUTE of an imported resource; the imported resources are terraform_data.server`,
			`service.yml:30:32: warning: "terraform_data.other.id" in import_parameters_to_delete is not `+
				`TYPE.NAME.ATTRIBUTE`),
		Entry("expressions that cannot be used", server+template+
			"  import_parameter_mappings:\n  - {tf_variable: input, parameter_name: var.}\n"+
			"  - {tf_variable: a.b, parameter_name: \"x${var.ids}\"}\n",
			`service.yml:29:42: parameter_name "var." of tf_variable "input" must be an expression in one line`,
			`service.yml:30:19: tf_variable "a.b" of a mapping must be the name of an attribute alone`,
			`service.yml:30:40: parameter_name "x${var.ids}" of tf_variable "a.b" must be an expression in one line`),
		Entry("variables that are not inputs", server+template+
			"  import_parameter_mappings:\n  - {tf_variable: input, parameter_name: var.ids}\n",
			`service.yml:29:42: parameter_name "var.ids" uses var.ids, which is not an input; `+
				`did you mean "id"?; the inputs are id`),
		Entry("attributes of other resources", server+template+
			"  user_inputs:\n  - {field_name: a, type: string, details: D, tf_attribute: a.b.c, "+
			"tf_attribute_skip: ab}\n  - {field_name: b, type: string, details: D, tf_attribute: "+
			"terraform_data.server.id, tf_attribute_skip: a}\n",
			`service.yml:29:61: warning: tf_attribute "a.b.c" reads a resource that the template does not have; `+
				`it has terraform_data.server`,
			`service.yml:29:87: warning: tf_attribute_skip "ab" is not an input, so tf_attribute is never skipped`),
	)
})
