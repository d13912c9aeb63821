package lint_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/author/lint"
	"service-adapter/internal/diag"
)

const (
	bosh  = "provision:\n  bosh:\n    manifest_ref: bosh/manifest.yml\n"
	group = "instance_groups:\n- name: server\n  jobs:\n  - name: server\n    properties: "
	// plansWithValues are plans with a property and an override of each kind: a scalar and a mapping.
	plansWithValues = `plans:
- name: small
  id: 7d3f6f0e-6a38-4c3b-9a51-3b1f0b6f2a11
  description: Small
  display_name: Small
  properties: {size: 5, tls: {cert: c}}
  provision_overrides: {zone: z, net: {name: n}}
`
)

var _ = Describe("Lint", func() {
	DescribeTable("has no findings for the examples",
		func(name string) {
			found, _ := lintPak(filepath.Join("../../../examples", name))
			Expect(lines(found)).To(BeEmpty())
		},
		Entry("the pak of spec/parity", "../spec/parity/pak"),
		Entry("redis", "redis"),
		Entry("redis-cluster", "redis-cluster"),
		Entry("postgresql", "postgresql"),
		Entry("postgresql-database", "postgresql-database"),
		Entry("the specification's own", "example-email"),
	)

	It("reports the findings of the parser, HCL, expressions, templates and deployments in one run, sorted", func() {
		root := writePak(map[string]string{
			"manifest.yml": "packversion: 2\n",
			"service.yml": bosh +
				"    ops: [{ref: bosh/ops/a.yml}]\n  computed_inputs:\n  - {name: a, default: \"${nope}\"}\n" +
				"bind:\n  template_refs: {main: terraform/bind.tf}\n",
			"bosh/manifest.yml": group + "{a: ((b))}\n",
			"bosh/ops/a.yml":    "- {type: replace, path: /instance_groups/0/size, value: 0o7}\n",
			"terraform/bind.tf": "output \"x\" {\n  value = var.y\n}\n",
		})
		found, report := lintPak(root)
		Expect(lines(found)).To(HaveExactElements(
			ContainSubstring("bosh/manifest.yml:5:21: ((b)) is neither"),
			ContainSubstring("bosh/ops/a.yml:1:57: 0o7 means different things"),
			ContainSubstring("manifest.yml:12:14: packversion must be 1"),
			ContainSubstring(`service.yml:26:27: unknown variable "nope"`),
			ContainSubstring(`terraform/bind.tf:1:1: output "x" is not declared`),
			ContainSubstring("terraform/bind.tf:2:11: var.y is neither declared"),
		))
		Expect(report.Files).To(Equal(5))
		text, ok := report.Source(filepath.Join(root, "terraform/bind.tf"))
		Expect(ok).To(BeTrue())
		Expect(text).To(HavePrefix("output"))
	})

	It("reports the same findings for a directory and a zip", func() {
		root := writePak(map[string]string{
			"service.yml":                 bosh + "    ops: [{ref: bosh/ops/a.yml}]\n",
			"bosh/ops/a.yml":              "- {type: remove, path: /nothing}\n",
			"bin/linux/amd64/1.12.6/tofu": "the program\n",
		})
		name := zipped(root)
		directory, _ := lintPak(root)
		report, err := lint.Lint(GinkgoT().Context(), name)
		Expect(err).NotTo(HaveOccurred())
		Expect(directory).To(HaveLen(1))
		Expect(report.Diagnostics).To(HaveLen(1))
		Expect(report.Diagnostics[0].String()).To(Equal(name + "!/" + directory[0].String()))
		text, ok := report.Source(name + "!/bosh/ops/a.yml")
		Expect(ok).To(BeTrue())
		Expect(text).To(ContainSubstring("/nothing"))
		Expect(report.Notes).To(BeEmpty())
	})

	DescribeTable("notes that errands can or cannot apply the provision template", func(bosh string, notes ...any) {
		_, report := lintPak(writePak(map[string]string{"service.yml": `provision:
  plan_inputs: []
  user_inputs: []
  computed_inputs: []
  outputs: [{field_name: host, type: string, details: x}]
  template: |
    output "host" { value = "h" }
  bosh:
` + bosh}))
		Expect(report.Notes).To(ConsistOf(append(notes, ContainSubstring("no bin/"))...))
	},
		Entry("with outputs that are evaluated later",
			"    manifest: 'instance_groups: []'\n    outputs: {url: '${instance.details[\"host\"]}'}\n"),
		Entry("with an output in the manifest",
			"    manifest: 'instance_groups: [{name: box, jobs: [{name: box, properties: {host: ((host))}}]}]'\n",
			ContainSubstring("plans cannot have the lifecycle errand apply-instance, because the manifest needs "+
				"the output ((host))")),
		Entry("with an output in a label",
			"    manifest: 'instance_groups: []'\n    labels: {host: '${instance.details[\"host\"]}'}\n",
			ContainSubstring("the manifest needs the output instance.details")),
	)

	It("requires the binaries of every platform in a zip", func() {
		report, err := lint.Lint(GinkgoT().Context(), zipped(writePak(map[string]string{
			"manifest.yml": "platforms:\n- {os: linux, arch: amd64}\n- {os: darwin, arch: arm64}\n" +
				"terraform_binaries:\n- {name: tofu, version: \"1.10\"}\n" +
				"- {name: terraform-provider-x, version: \"1.2\"}\n- {name: helper, version: latest}\n",
			"bin/linux/amd64/1.10.0/tofu":                    "1",
			"bin/linux/amd64/terraform-provider-x_v1.2.0_x5": "2",
			"bin/linux/amd64/helper-linux":                   "3",
			"bin/darwin/arm64/terraform-provider-x_v1.2.01":  "another version",
		})))
		Expect(err).NotTo(HaveOccurred())
		Expect(report.Diagnostics).To(HaveLen(3))
		for _, item := range report.Diagnostics {
			Expect(item.Severity).To(Equal(diag.Error))
			Expect(item.Message).To(ContainSubstring("for darwin/arm64"))
		}
	})

	It("stops when its context ends", func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := lint.Lint(ctx, "../../../spec/parity/pak")
		Expect(err).To(MatchError(context.Canceled))
	})

	It("returns an error for a directory that is not a pak", func() {
		_, err := lint.Lint(GinkgoT().Context(), GinkgoT().TempDir())
		Expect(err).To(MatchError(ContainSubstring("manifest.yml cannot be read")))
	})

	It("reports a definition that is not a mapping", func() {
		root := writePak(nil)
		Expect(os.WriteFile(filepath.Join(root, "service.yml"), []byte("- a\n"), 0o600)).To(Succeed())
		found, _ := lintPak(root)
		Expect(found).NotTo(BeEmpty())
		Expect(found[0].Rule).To(Equal("type"))
	})

	DescribeTable("reports an unknown type only once",
		func(typ, message string) {
			found, _ := lintPak(writePak(map[string]string{
				"service.yml": bosh + "  user_inputs:\n  - {field_name: a, type: " + typ +
					", details: A, constraints: {minLength: 1}}\n",
			}))
			Expect(found).To(HaveLen(1))
			Expect(found[0].Rule).To(Equal("type"))
			Expect(found[0].Message).To(HavePrefix(message))
		},
		Entry("alone", "strng", `unknown type "strng"`),
		Entry("in a list", "[strng, boolean]", `unknown type "strng"`),
		Entry("an empty type in a list", `["", boolean]`, `unknown type ""`),
	)

	DescribeTable("reports no errors for features that work on other brokers",
		func(service string, warnings ...string) {
			found := lintExcerpt(map[string]string{
				"service.yml": service,
				"tf/any.tf":   "output \"status\" {\n  value = \"fine\"\n}\n",
			})
			var rules []string
			for _, item := range found {
				Expect(item.Severity).To(Equal(diag.Warning), item.String())
				rules = append(rules, item.Rule)
			}
			Expect(rules).To(ConsistOf(warnings))
		},
		Entry("anchors and merges",
			bosh+"  user_inputs:\n  - <<: &text\n      type: string\n      details: A text\n    field_name: a\n"+
				"  - <<: *text\n    field_name: b\n    type: integer\n"),
		Entry("template references of any key, and a status", "provision:\n  template_refs: {any-Key.2: tf/any.tf}\n"),
		Entry("a status of a binding", "bind:\n  template_refs: {main: tf/any.tf}\n"),
		Entry("outputs of inputs without a manifest",
			"provision:\n  user_inputs:\n  - {field_name: a, type: string, details: A}\n"+
				"  outputs:\n  - {field_name: a, type: string, details: A}\n  template: |\n    output \"a\" {\n"+
				"      value = var.a\n    }\n"),
		Entry("no plans", "plans: []\n", "no-plans"),
		Entry("no examples", "examples:\n", "no-examples"),
		Entry("a default outside its enum", bosh+
			"  user_inputs:\n  - {field_name: a, type: string, default: c, details: A, enum: {b: B}}\n",
			"default-value"),
		Entry("a default of a plan input", bosh+
			"    instance_groups: [{name: server, instances: '${lookup(plan.properties, \"n\", 1)}'}]\n"+
			"  plan_inputs:\n  - {field_name: n, type: integer, default: 1, details: N}\n", "default-value"),
		Entry("unknown keys", bosh+"  unknown: 1\nmore: 1\n", "unknown-key", "unknown-key"),
		Entry("actions without anything", "provision:\nbind:\n", "no-instances", "required", "required"),
		Entry("inputs without a type", bosh+"  user_inputs:\n  - {field_name: a, details: A}\n", "required"),
		Entry("other keywords in constraints",
			bosh+"  user_inputs:\n  - {field_name: a, type: string, details: A, constraints: {nullable: true}}\n",
			"constraint-keyword"),
		Entry("a computed input that is its own condition",
			bosh+"  computed_inputs:\n  - {name: region, default: \"${region}\"}\n", "deployment"),
		Entry("a plan without a property that an expression reads",
			bosh+"    instance_groups: [{name: server, instances: \"${n}\"}]\n"+
				"  plan_inputs:\n  - {field_name: n, type: integer, details: N}\n", "deployment"),
	)
})

var _ = Describe("The details of rules", func() {
	DescribeTable("are reported",
		func(files map[string]string, want ...string) {
			found := lintExcerpt(files)
			Expect(lines(found)).To(HaveLen(len(want)))
			for i, text := range want {
				Expect(lines(found)[i]).To(ContainSubstring(text))
			}
		},
		Entry("a secret is known in a template", map[string]string{
			"service.yml":       bosh + "    secrets: [{name: pw, length: 20}]\n",
			"bosh/manifest.yml": group + "{a: ((pw))}\n",
		}),
		Entry("a variable of an ops file is known, and its parts", map[string]string{
			"service.yml": bosh +
				"    ops: [{inline: [{type: replace, path: \"/variables?/-\", value: {name: ca, type: " +
				"certificate}}]}]\n",
			"bosh/manifest.yml": group + "{a: ((ca.certificate)), b: ((/global/root_ca.certificate))}\n",
		}),
		Entry("an authority that signs a certificate of an ops file, and one of CredHub", map[string]string{
			"service.yml": bosh +
				"    ops: [{inline: [{type: replace, path: \"/variables/-\", value: {name: tls, type: certificate, " +
				"options: {ca: own}}}]}]\n",
			"bosh/manifest.yml": group + "{a: ((tls.ca)), b: \"x((own.certificate))\", " +
				"c: ((/root.certificate)), d: ((other.certificate)), e: ((own.private_key))}\nvariables:\n" +
				"- {name: own, type: certificate, options: {is_ca: true}}\n" +
				"- {name: other, type: certificate, options: {is_ca: true}}\n" +
				"- {name: odd, type: certificate, options: {ca: }}\n" +
				"- {name: second, type: certificate, options: {ca: /root}}\n",
		}, "5:38: warning: ((own.certificate)) is one authority at any time; ((tls.ca)) contains",
			"5:63: warning: ((/root.certificate)) is one authority at any time; ((second.ca)) contains"),
		Entry("a variable with the name of an input", map[string]string{
			"service.yml":       bosh + "  user_inputs:\n  - {field_name: a, type: string, default: x, details: A}\n",
			"bosh/manifest.yml": group + "{a: ((a))}\nvariables:\n- {name: a, type: password}\n",
		}, `bosh/manifest.yml:7:10: variable "a" under variables has the name of an input`),
		Entry("blanks in a part of a value", map[string]string{
			"service.yml":       bosh + "  user_inputs:\n  - {field_name: a, type: string, default: x, details: A}\n",
			"bosh/manifest.yml": group + "\n      a: x-(( a ))\n      b: ((a || 5))\n      c: (( a ))\n",
		}, "6:12: (( a )) is only replaced when it is the whole value", "7:10: ((a || 5)) is not a BOSH variable"),
		Entry("a boolean in a text", map[string]string{
			"service.yml": bosh +
				"  user_inputs:\n  - {field_name: a, type: boolean, default: true, details: A}\n",
			"bosh/manifest.yml": group + "{a: ((a)), b: \"is ((a))\"}\n",
		}, "5:35: ((a)) has the type boolean"),
		Entry("positions in an inline manifest", map[string]string{
			"service.yml": "provision:\n  bosh:\n    manifest: |\n      instance_groups:\n      - name: server\n" +
				"        jobs:\n        - name: server\n          properties:\n            a: ((b))\n",
		}, "service.yml:30:16: ((b)) is neither"),
		Entry("positions in an inline template", map[string]string{
			"service.yml": "bind:\n  template: |-\n    locals {\n      a = var.b\n    }\n",
		}, "service.yml:27:11: var.b is neither"),
		Entry("an ops file whose condition no plan meets", map[string]string{
			"service.yml": bosh + "    ops:\n    - {if: \"${1 == 2}\", inline: [{type: remove, path: /nothing}]}\n",
		}, "service.yml:26:33: operation on /nothing cannot be applied"),
		Entry("an ops file that builds on another condition", map[string]string{
			"service.yml": bosh +
				"    ops:\n    - {if: \"${1 == 2}\", inline: [{type: replace, path: \"/addons?\", value: []}]}\n" +
				"    - {if: \"${1 == 2}\", inline: [{type: remove, path: /addons}]}\n",
		}),
		Entry("groups and jobs that an ops file adds", map[string]string{
			"service.yml": bosh +
				"    ops: [{ref: ops.yml}]\n    requires: {no_scale_in: [extra], releases: {other: \">= 4\"}}\n",
			"ops.yml": "- type: replace\n  path: /instance_groups/-\n" +
				"  value: {name: extra, jobs: [{name: extra-job}]}\n",
		}),
		Entry("checks are not held against made-up plans", map[string]string{
			"service.yml": bosh +
				"    checks:\n    - {that: \"${plan.instance_count(\\\"server\\\") > 7}\", message: too small}\n",
		}),
		Entry("patterns and arguments of functions", map[string]string{
			"service.yml": bosh + "  computed_inputs:\n" +
				"  - {name: a, type: string, default: '${regex(\"[\", request.instance_id)}'}\n" +
				"  - {name: b, type: boolean, default: '${regexp.matches(\"(\", request.instance_id)}'}\n" +
				"  - {name: c, type: integer, default: '${max()}'}\n" +
				"  - {name: d, type: array, default: '${concat(split(\"-\", request.instance_id), \"x\")}'}\n" +
				"  - {name: e, type: string, default: '${element(split(\"-\", request.instance_id), 0)}'}\n",
		},
			"service.yml:26:41: error parsing regexp: missing closing ]: `[` [regexp]",
			"service.yml:27:42: error parsing regexp: missing closing ): `(` [regexp]",
			"service.yml:28:42: max: expected 1 or more arguments, got 0; its arguments are (number...) number "+
				"[function-arguments]",
			"service.yml:29:81: argument 2 of concat must be a list, not \"x\" [expression-type]"),
		Entry("a value that an expression reads from the operator is not invented", map[string]string{
			"service.yml": bosh +
				"  computed_inputs:\n  - {name: a, type: object, default: \"${config(\\\"a.b\\\")}\"}\n",
		}),
		Entry("an operation of the type test sets nothing", map[string]string{
			"service.yml": bosh + "    ops: [{ref: bosh/ops/a.yml}]\n",
			"bosh/ops/a.yml": "- {type: test, path: \"/instance_groups/name=server/azs\", absent: true}\n" +
				"- {type: replace, path: /instance_groups/name=server/azs?, value: [z1]} # plan-owned\n" +
				"- {type: test, path: /instance_groups/name=server/azs, value: [z1]}\n",
		}, "bosh/ops/a.yml:2:"),
		Entry("properties and overrides of plans that only the BOSH template inserts", map[string]string{
			"service.yml":       bosh + plansWithValues,
			"bosh/manifest.yml": group + "{a: ((size)), b: ((zone)), c: ((tls)), d: ((net))}\n",
		}),
		Entry("keys of properties and overrides of plans that are maps", map[string]string{
			"service.yml": bosh + "  computed_inputs:\n" +
				"  - {name: a, type: string, default: '${tls.cert}${net.name}'}\n" + plansWithValues,
			"bosh/manifest.yml": group + "{a: ((size)), b: ((zone))}\n",
		}),
		Entry("constraints that only the check of values reads", map[string]string{
			"service.yml": bosh + "  user_inputs:\n" +
				"  - {field_name: a, type: object, details: A, constraints: {propertyNames: {pattern: \"[\"}}}\n" +
				"bind:\n  user_inputs:\n" +
				"  - {field_name: b, type: object, details: B, constraints: {propertyNames: {pattern: \"[\"}}}\n",
		}, "service.yml:25:47: constraint propertyNames", "service.yml:28:47: constraint propertyNames"),
		Entry("a required input without a value", map[string]string{
			"service.yml": bosh + "  user_inputs:\n  - {field_name: a, type: integer, required: true, details: " +
				"A, constraints: {minimum: 5}}\n" +
				"examples:\n- {name: E, description: E, plan_id: 7d3f6f0e-6a38-4c3b-9a51-3b1f0b6f2a11, " +
				"provision_params: {a: 5}, bind_params: {}}\n",
			"bosh/manifest.yml": group + "{a: ((a))}\n",
		}),
		Entry("an example without a parameter that is required", map[string]string{
			"service.yml": bosh + "  user_inputs:\n  - {field_name: a, type: integer, required: true, details: A}\n" +
				"  - {field_name: b, type: integer, details: B}\n" +
				"bind:\n  user_inputs:\n  - {field_name: c, type: integer, required: true, details: C}\n" +
				"examples:\n- {name: E, description: E, plan_id: 7d3f6f0e-6a38-4c3b-9a51-3b1f0b6f2a11, " +
				"bind_params: {}}\n",
		},
			`the provision_params of example "E" lack the parameter "a", which is required [example-parameters]`,
			`the bind_params of example "E" lack the parameter "c", which is required [example-parameters]`),
		Entry("an example without a parameter that the operator's plan may set", map[string]string{
			"service.yml": bosh + "  user_inputs:\n  - {field_name: a, type: integer, required: true, details: A}\n" +
				"plans: []\nexamples:\n- {name: E, description: E, plan_id: 7d3f6f0e-6a38-4c3b-9a51-3b1f0b6f2a22, " +
				"bind_params: {}}\n",
		},
			"[no-plans]",
			`warning: the provision_params of example "E" lack the parameter "a", which is required unless the `+
				`operator's plan "7d3f6f0e-6a38-4c3b-9a51-3b1f0b6f2a22" sets it [example-parameters]`),
		Entry("a repeated declaration of a template", map[string]string{
			"service.yml": "bind:\n  user_inputs:\n  - {field_name: a, type: integer, details: A}\n" +
				"  template_refs: {main: main.tf, other: other.tf, main_override: o.tf}\n",
			"main.tf": "variable \"a\" {}\nresource \"terraform_data\" \"r\" {}\n",
			"other.tf": "locals {\n  l = 1\n}\n  variable \"a\" {}\nresource \"terraform_data\" \"r\" {}\n" +
				"locals {\n  l = 2\n}\n",
			"o.tf": "variable \"a\" {}\n",
		},
			`other.tf:4:3: variable "a" is declared twice; first at main.tf:1:1 [duplicate]`,
			`resource "terraform_data" "r" is declared twice`,
			`other.tf:7:3: local value "l" is declared twice`),
		Entry("a block with too many names", map[string]string{
			"service.yml": "bind:\n  template: |\n    output a b {}\n",
		}, "service.yml:26:14: Extraneous label for output: Only 1 labels (name) are expected for output blocks "+
			"[hcl-syntax]"),
		Entry("a provider without OpenTofu", map[string]string{
			"manifest.yml": "terraform_binaries:\n- {name: terraform-provider-x, version: 1.0.0}\n",
		}, "manifest.yml:10:3: terraform_binaries must list an OpenTofu, named tofu, which runs "+
			"terraform-provider-x [required]"),
		Entry("a template without OpenTofu", map[string]string{
			"manifest.yml": "terraform_binaries:\n- {name: helper, version: 1.0.0}\n",
			"service.yml":  "bind:\n  template: locals {}\n",
		},
			`terraform_binaries must list an OpenTofu, named tofu, which runs the templates of `+
				`service "example" [required]`),
		Entry("neither, and no OpenTofu", map[string]string{
			"manifest.yml": "terraform_binaries:\n- {name: helper, version: 1.0.0}\n",
			"service.yml":  bosh + "bind:\n  outputs: []\n",
		}),
		Entry("a property that a user's input refuses", map[string]string{
			"service.yml": bosh + "  user_inputs:\n  - {field_name: a, type: integer, details: A}\nplans:\n" +
				"- name: p\n  id: 7d3f6f0e-6a38-4c3b-9a51-3b1f0b6f2a11\n" +
				"  description: P\n  display_name: P\n  properties: {a: x}\n",
		},
			`service.yml:26:19: property "a" of plan "p" must be an integer, not a string, so `+
				`no instance of the plan can be `+
				`created; the input is declared at service.yml:20:5`),
		Entry("an unused property", map[string]string{
			"service.yml": bosh + "  user_inputs:\n  - {field_name: size, type: integer, details: A}\nplans:\n" +
				"- name: p\n  id: 7d3f6f0e-6a38-4c3b-9a51-3b1f0b6f2a11\n" +
				"  description: P\n  display_name: P\n  properties: {sice: 5}\n",
		}, `service.yml:26:16: warning: nothing uses property "sice" of plan "p"; did you mean "size"?`),
		Entry("an unused property beside one that an expression reads", map[string]string{
			"service.yml": bosh + "    labels: {x: '${plan.properties[\"read\"]}'}\nplans:\n" +
				"- name: p\n  id: 7d3f6f0e-6a38-4c3b-9a51-3b1f0b6f2a11\n" +
				"  description: P\n  display_name: P\n  properties: {read: 1, unread: 5}\n",
		}, `warning: nothing uses property "unread" of plan "p"`),
		Entry("a plan input that a plan lacks", map[string]string{
			"service.yml": bosh + "  plan_inputs:\n  - {field_name: size, type: integer, required: true, details: A}\n",
		}, `plan "small" lacks the property "size", which the plan input at service.yml:26:5 requires`),
		Entry("a default of a wrong type", map[string]string{
			"service.yml": bosh + "  user_inputs:\n  - {field_name: a, type: integer, default: five, details: A}\n",
		}, "service.yml:26:45: warning: the default of \"a\" cannot be used: converting to integer: the text is "+
			"not an integer"),
		Entry("a provider by its source", map[string]string{
			"manifest.yml": "terraform_binaries:\n- {name: tofu, version: 1.12.6}\n" +
				"- {name: terraform-provider-x, version: 1.0.0, provider: registry.terraform.io/a/x}\n",
			"service.yml": "bind:\n  template: |\n    terraform {\n      required_providers {\n        x = {\n" +
				"          source = \"registry.opentofu.org/a/x\"\n        }\n" +
				"        y = {\n          source = \"example.com/a/y\"\n        }\n      }\n    }\n" +
				"    resource \"terraform_data\" \"a\" {\n    }\n",
		}, "service.yml:31:9: the pak does not bundle the provider example.com/a/y; it bundles a/x"),
		Entry("a file that is not an image", map[string]string{
			"service.yml": "image_url: file://./icon.png\n", "icon.png": "<svg/>",
		}, "must be a PNG, JPEG or SVG image"),
		Entry("an image",
			map[string]string{"service.yml": "image_url: file://./icon.png\n", "icon.png": "\x89PNG\r\n\x1a\n"}),
		Entry("an image of text",
			map[string]string{"service.yml": "image_url: file://icon.svg\n", "icon.svg": "<svg/>"}),
		Entry("a data URL", map[string]string{"service.yml": "image_url: data:image/png;base64,iVBORw0KGgo=\n"}),
		Entry("an invalid data URL", map[string]string{"service.yml": "image_url: data:image/png;base64,###\n"},
			"must be a data URL"),
		Entry("names of instance groups in expressions", map[string]string{
			"service.yml": bosh +
				"bind:\n  computed_inputs:\n  - {name: a, default: '${bosh.host(\"sever\")}', type: string}\n",
		}, `service.yml:26:27: the manifest has no instance group "sever"; did you mean "server"?`),
	)

	It("reports the constraints of versions and of plan inputs at their positions", func() {
		found, _ := lintPak(writePak(map[string]string{
			"service.yml": bosh + "    requires: {releases: {a: about 4}}\n  plan_inputs:\n" +
				"  - {field_name: a, type: string, details: A, constraints: {pattern: \"(\"}}\n",
		}))
		Expect(lines(found)).To(HaveExactElements(
			ContainSubstring("service.yml:25:30: "),
			And(ContainSubstring("service.yml:27:47: warning: constraint pattern"), HaveSuffix("[constraint]")),
		))
		Expect(strings.Join(lines(found), "")).NotTo(ContainSubstring("deployment"))
	})
})
