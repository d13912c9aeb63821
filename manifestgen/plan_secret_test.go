package manifestgen_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("a plan property that is the value of a secret", func() {
	var w *world

	BeforeEach(func() {
		w = newWorld(packed(map[string]string{
			"service.yml": `plans:
- {name: small, id: 3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e02, description: Small, display_name: Small,
   properties: {licence: a}}
provision:
  bosh:
    manifest_ref: bosh.yml
    secrets: [{name: secret, value: "${licence}"}]
bind:
  plan_inputs: [{field_name: licence, type: string, details: The licence}]
`,
			"bosh.yml": "instance_groups:\n- name: box\n  jobs:\n  - name: box\n    properties: {secret: ((secret))}\n",
		}))
	})

	It("is rejected if the bind action reads it, because the record would contain it in clear text", func() {
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring("it can read the secret with manifest.get")))
	})

	It("is allowed if the broker stores no secrets", func() {
		w.secure(false)
		w.must(call{})
	})

	It("is a variable even if the operator has not configured whether the broker stores secrets", func() {
		w.generator.Secure = nil
		scope, err := w.generator.Variables(w.request(call{}))
		Expect(err).NotTo(HaveOccurred())
		Expect(scope.Values).To(HaveKeyWithValue("licence", "a"))
	})
})
