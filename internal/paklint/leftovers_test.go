package paklint_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("What Cloud Foundry takes", func() {
	withOutput := func(size int) []string {
		found, _ := lint(writePak(map[string]string{"service.yml": `
provision:
  bosh:
    manifest_ref: bosh/manifest.yml
    outputs: {ca: "` + strings.Repeat("x", size) + `"}
`}))
		return lines(found)
	}

	It("is counted", func() {
		Expect(withOutput(131_072)).To(BeEmpty())
		Expect(withOutput(131_073)).To(ConsistOf(And(ContainSubstring("131073 bytes"), ContainSubstring("VCAP_SERVICES"))))
		Expect(withOutput(1_000_001)).To(ConsistOf(ContainSubstring("Cloud Foundry takes no more than 1000000")))
	})
})

var _ = Describe("Files that nothing uses", func() {
	It("are none that are not for brokers", func() {
		found, _ := lint(writePak(map[string]string{
			"README.md": "", "tests/case.yml": "", "ci/pipeline.yml": "provision: {}", "docker-compose.yml": "services: {}", "bosh/notes.txt": "",
			"bosh/.hidden/a.yml": "", "source/main.tf": "",
		}))
		Expect(lines(found)).To(BeEmpty())
	})

	It("are definitions that the manifest does not list", func() {
		found, _ := lint(writePak(map[string]string{"other.yml": "version: 1\nprovision:\n  user_inputs: []\n"}))
		Expect(lines(found)).To(ConsistOf("other.yml:1: warning: nothing in the pak uses this file [unused-file]"))
	})
})

var _ = Describe("A condition that holds for no plan", func() {
	service := func(condition string) map[string]string {
		return map[string]string{"bosh/tls.yml": "- type: replace\n  path: /tags?/ca\n  value: ((tls.ca))\n", "service.yml": `
provision:
  bosh:
    manifest_ref: bosh/manifest.yml
    ops:
    - ref: bosh/tls.yml
      if: ` + condition + `
  user_inputs:
  - {field_name: tls, type: object, default: {}, details: The keys of TLS}
`}
	}

	It("does not make an error of the key of an input", func() {
		found, _ := lint(writePak(service(`${length(keys(tls)) > 0}`)))
		Expect(lines(found)).To(BeEmpty())
	})

	It("leaves it one where the condition holds", func() {
		found, _ := lint(writePak(service(`${length(keys(tls)) == 0}`)))
		Expect(lines(found)).To(ConsistOf(ContainSubstring(`((tls.ca)) at /tags/ca has no key "ca"`)))
	})
})

var _ = Describe("A regular expression in replace", func() {
	computed := func(search string) []string {
		found, _ := lint(writePak(map[string]string{"service.yml": `
provision:
  bosh:
    manifest_ref: bosh/manifest.yml
  computed_inputs:
  - {name: label, type: string, default: '${replace(request.instance_id, "` + search + `", "")}', overwrite: true}
`}))
		return lines(found)
	}

	It("is one", func() {
		Expect(computed("/(-/")).To(ConsistOf(And(ContainSubstring("missing closing )"), HaveSuffix("[regexp]"))))
		Expect(computed("/-+/")).To(BeEmpty())
		Expect(computed("(-")).To(BeEmpty())
		Expect(computed("/")).To(BeEmpty())
	})
})
