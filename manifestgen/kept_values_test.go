package manifestgen_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// secretTemplate is a template with one secret.
const secretTemplate = "instance_groups:\n- {name: box, jobs: [{name: box, properties: {key: ((secret))}}]}\n"

var _ = Describe("a sticky input that is the value of a secret", func() {
	It("is never written into the manifest, and keeps its value in updates", func() {
		w := newWorld(packed(map[string]string{
			"service.yml": `plans:
- {name: small, id: 3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e02, description: Small, display_name: Small, properties: {}}
provision:
  user_inputs:
  - {field_name: key, type: string, default: a, details: A key, sticky: true}
  - {field_name: size, type: integer, default: 1, details: A size, sticky: true}
  bosh:
    manifest_ref: bosh.yml
    secrets: [{name: secret, value: "${key}"}]
`,
			"bosh.yml": secretTemplate,
		}))
		result := w.must(call{Parameters: map[string]any{"key": "planted-s3cret"}})
		Expect(result.ODBManagedSecrets).To(HaveKeyWithValue("secret", "planted-s3cret"))
		Expect(result.Manifest).NotTo(ContainSubstring("planted-s3cret"))
		Expect(recordOf(result.Manifest).Sticky).To(Equal(map[string]any{"size": int64(1)}))

		result = w.must(call{Parameters: map[string]any{"size": 2}})
		Expect(result.ODBManagedSecrets).To(BeEmpty())
		Expect(result.Manifest).NotTo(ContainSubstring("planted-s3cret"))
		w.expectNoPendingChanges()
	})
})

var _ = Describe("a manifest that refers to a secret of another deployment of the service", func() {
	It("keeps its own secret of the same name", func() {
		const service = "3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e01"
		const other = "/odb/" + service + "/service-instance_two/secret"
		w := newWorld(packed(map[string]string{
			"service.yml": `plans:
- {name: small, id: 3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e02, description: Small, display_name: Small, properties: {}}
provision:
  bosh: {manifest_ref: bosh.yml, secrets: [{name: secret, length: 16}]}
`,
			"bosh.yml": "instance_groups:\n- name: box\n  jobs:\n  - name: box\n" +
				"    properties: {before: ((" + other + ")), key: ((secret)), shared: ((" + other + "))}\n",
		}))
		w.generator.AllowedReferences = []string{other}
		w.must(call{})
		result := w.must(call{Upgrade: true})
		Expect(result.ODBManagedSecrets).To(BeEmpty())
		Expect(result.Manifest).To(ContainSubstring("key: ((/odb/" + service + "/service-instance_one/secret))"))
		Expect(result.Manifest).To(ContainSubstring("shared: ((" + other + "))"))
	})
})

var _ = Describe("a check of the plan's properties", func() {
	It("rejects a change to a plan that violates it", func() {
		w := newWorld(packed(map[string]string{
			"service.yml": `plans:
- name: small
  id: 3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e02
  description: Small
  display_name: Small
  properties: {size: 1}
- name: huge
  id: 3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e03
  description: Huge
  display_name: Huge
  properties: {size: 9}
provision:
  plan_inputs: [{field_name: size, type: integer, details: A size}]
  bosh:
    manifest_ref: bosh.yml
    checks: [{that: "${size < 9}", message: "${size} is too large", audience: user}]
`,
			"bosh.yml": strings.ReplaceAll(secretTemplate, "((secret))", "((size))"),
		}))
		w.must(call{})
		request := w.request(call{Plan: "huge"})
		request.PreviousProperties = map[string]any{"size": int64(1)}
		_, err := w.generator.Generate(context.Background(), request)
		Expect(err).To(MatchError("9 is too large"))

		// An instance that violates it already may be updated.
		request.PreviousProperties = map[string]any{"size": int64(9)}
		_, err = w.generator.Generate(context.Background(), request)
		Expect(err).NotTo(HaveOccurred())
	})
})

var _ = Describe("a parameter that was null", func() {
	It("has its default again if a null resets it, because the input is no longer nullable", func() {
		files := func(nullable string) map[string]string {
			return map[string]string{
				"service.yml": smallPlan + `provision:
  user_inputs: [{field_name: mode, type: string, default: d, details: A mode` + nullable + `}]
  bosh: {manifest_ref: bosh.yml}
`,
				"bosh.yml": "instance_groups:\n- {name: box, jobs: [{name: box, properties: {mode: ((mode))}}]}\n",
			}
		}
		w := newWorld(packed(files(", nullable: true")))
		Expect(w.must(call{Parameters: map[string]any{"mode": nil}}).Manifest).To(ContainSubstring("mode: null"))
		w.install(packed(files("")))
		Expect(w.must(call{Parameters: map[string]any{"mode": nil}}).Manifest).To(ContainSubstring("mode: d"))
		w.expectNoPendingChanges()
	})
})
