package lint_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("The size limits of Cloud Foundry", func() {
	withOutput := func(size int) []string {
		found, _ := lintPak(writePak(map[string]string{"service.yml": `
provision:
  bosh:
    manifest_ref: bosh/manifest.yml
    outputs: {ca: "` + strings.Repeat("x", size) + `"}
`}))
		return lines(found)
	}

	It("apply to all constant outputs together", func() {
		Expect(withOutput(131_072)).To(BeEmpty())
		Expect(withOutput(131_073)).To(ConsistOf(And(ContainSubstring("131073 bytes"),
			ContainSubstring("VCAP_SERVICES"))))
		Expect(withOutput(1_000_001)).To(ConsistOf(ContainSubstring("Cloud Foundry accepts at most 1000000")))
	})
})

var _ = Describe("The rule unused-file", func() {
	It("ignores files that are not for brokers", func() {
		found, _ := lintPak(writePak(map[string]string{
			"README.md": "", "tests/case.yml": "", "ci/pipeline.yml": "provision: {}",
			"docker-compose.yml": "services: {}", "bosh/notes.txt": "",
			"bosh/.hidden/a.yml": "", "source/main.tf": "",
		}))
		Expect(lines(found)).To(BeEmpty())
	})

	It("reports definitions that the manifest does not list", func() {
		found, _ := lintPak(writePak(map[string]string{"other.yml": "version: 1\nprovision:\n  user_inputs: []\n"}))
		Expect(lines(found)).To(ConsistOf("other.yml:1: warning: nothing in the pak uses this file [unused-file]"))
	})
})

var _ = Describe("An ops file with a condition that no plan satisfies", func() {
	service := func(condition string) map[string]string {
		return map[string]string{
			"bosh/tls.yml": "- type: replace\n  path: /tags?/ca\n  value: ((tls.ca))\n",
			"service.yml": `
provision:
  bosh:
    manifest_ref: bosh/manifest.yml
    ops:
    - ref: bosh/tls.yml
      if: ` + condition + `
  user_inputs:
  - {field_name: tls, type: object, default: {}, details: The keys of TLS}
`,
		}
	}

	It("may use a key that an input does not always have", func() {
		found := lintExcerpt(service(`${length(keys(tls)) > 0}`))
		Expect(lines(found)).To(BeEmpty())
	})

	It("must not use the key if the condition is true without it", func() {
		found := lintExcerpt(service(`${length(keys(tls)) == 0}`))
		Expect(lines(found)).To(ConsistOf(ContainSubstring(`((tls.ca)) at /tags/ca has no key "ca"`)))
	})
})

var _ = Describe("A regular expression in replace", func() {
	computed := func(search string) []string {
		found := lintExcerpt(map[string]string{"service.yml": `
provision:
  bosh:
    manifest_ref: bosh/manifest.yml
  computed_inputs:
  - {name: label, type: string, default: '${replace(request.instance_id, "` + search + `", "")}', overwrite: true}
`})
		return lines(found)
	}

	It("must be valid", func() {
		Expect(computed("/(-/")).To(ConsistOf(And(ContainSubstring("missing closing )"), HaveSuffix("[regexp]"))))
		Expect(computed("/-+/")).To(BeEmpty())
		Expect(computed("(-")).To(BeEmpty())
		Expect(computed("/")).To(BeEmpty())
	})
})
