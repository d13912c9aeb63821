package lint_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("An input", func() {
	const manifest = "instance_groups:\n- name: server\n  jobs: [{name: server}]\n"

	unused := func(definition, manifest string) []string {
		GinkgoHelper()
		found, _ := lintPak(writePak(map[string]string{"service.yml": definition, "bosh/manifest.yml": manifest}))
		return lines(found)
	}

	// Each definition has an input x of provision that something uses.
	DescribeTable("of provision is used", func(inputs, bosh, rest, manifest string) {
		Expect(unused("provision:\n"+inputs+"  bosh:\n    manifest_ref: bosh/manifest.yml\n"+bosh+rest, manifest)).
			To(BeEmpty())
	},
		Entry("in the manifest", user(""), "", "", manifest+"tags: {x: ((x))}\n"),
		Entry("by a key in the manifest",
			"  user_inputs:\n  - {field_name: x, type: object, default: {a: 1}, details: X}\n", "", "",
			manifest+"tags: {x: ((x.a))}\n"),
		Entry("in an ops file", user(""),
			"    ops:\n    - inline: [{type: replace, path: '/tags?/x', value: '((x))'}]\n",
			"", manifest),
		Entry("in a label", user(""), "    labels: {x: '${x}'}\n", "", manifest),
		Entry("in a check", user(""), "    checks: [{that: '${x != \"\"}', message: X}]\n", "", manifest),
		Entry("in the size of a group", user(""), "    instance_groups: [{name: server, vm_type: '${x}'}]\n", "",
			manifest),
		Entry("in another input", user("")+
			"  computed_inputs:\n  - {name: y, type: string, default: '${x}', overwrite: true}\n",
			"    labels: {y: '${y}'}\n", "", manifest),
		Entry("by its previous value", user(""),
			"    checks: [{that: '${!previous.exists || previous.parameter(\"x\") == \"a\"}', message: X}]\n", "",
			manifest),
		Entry("in the template", "  template: |\n    output \"y\" { value = var.x }\n"+user("")+
			"  outputs: [{field_name: y, type: string, details: Y}]\n", "", "", manifest),
		Entry("by the file with all inputs",
			"  template: |\n    output \"y\" { value = file(\"terraform.tfvars.json\") }\n"+
				user("")+"  outputs: [{field_name: y, type: string, details: Y}]\n", "", "", manifest),
		Entry("by all properties of the plan", "  plan_inputs:\n  - {field_name: x, type: string, details: X}\n",
			"    labels: {x: '${json.marshal(plan.properties)}'}\n", "", manifest),
		Entry("as a property of the plan in bind",
			"  plan_inputs:\n  - {field_name: x, type: string, details: X}\n", "",
			"bind:\n  computed_inputs:\n  - {name: y, type: string, default: '${request.plan_properties[\"x\"]}'}\n"+
				"  template: |\n    output \"z\" { value = var.y }\n"+
				"  outputs: [{field_name: z, type: string, details: Z}]\n", manifest),
		Entry("because it only asserts", "  computed_inputs:\n"+
			"  - {name: x, type: string, default: '${assert(true, \"no\")}', overwrite: true}\n", "", "", manifest),
		Entry("by no part of the pak, which its details state",
			user(", details: This changes nothing"), "", "", manifest),
	)

	DescribeTable("is reported if it is unused", func(definition, message string) {
		Expect(unused(definition, manifest)).To(ConsistOf(ContainSubstring(message)))
	},
		Entry("of users", "provision:\n"+user("")+"  bosh: {manifest_ref: bosh/manifest.yml}\n",
			`nothing in provision uses the input "x" [unused]`),
		Entry("computed", "provision:\n  computed_inputs: [{name: x, type: string, default: a, overwrite: true}]\n"+
			"  bosh: {manifest_ref: bosh/manifest.yml}\n", `nothing in provision uses the input "x" [unused]`),
		Entry("of bind", "bind:\n"+user("")+"  template: |\n    output \"y\" { value = 1 }\n"+
			"  outputs: [{field_name: y, type: integer, details: Y}]\n", `nothing in bind uses the input "x" [unused]`),
		Entry("whose name is a part of another", "bind:\n"+user("")+"  template: |\n    output \"xy\" { value = 1 }\n"+
			"  outputs: [{field_name: xy, type: integer, details: Y}]\n",
			`nothing in bind uses the input "x" [unused]`),
	)

	It("is not reported if the part that may use it cannot be read", func() {
		Expect(unused("provision:\n"+user("")+"  bosh:\n    manifest_ref: bosh/manifest.yml\n    labels: {x: '${x'}\n",
			manifest)).To(ConsistOf(ContainSubstring("[expression-syntax]")))
	})
})

// user returns the input x of users. more replaces its details.
func user(more string) string {
	if more == "" {
		more = ", details: X"
	}
	return "  user_inputs:\n  - {field_name: x, type: string, default: a" + more + "}\n"
}
