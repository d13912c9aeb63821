package manifestgen_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// smallPlan is the plan of the definitions in these specs.
const smallPlan = `plans:
- {name: small, id: 3f9e4a52-2a55-4d0b-8a3c-5d9a1f0c7e02, description: Small, display_name: Small, properties: {}}
`

// boxTemplate returns a template with one job, which has this property.
func boxTemplate(property string) string {
	return "instance_groups:\n- name: box\n  jobs:\n  - {name: box, properties: {property: " + property + "}}\n"
}

// newBox returns a world with a service, whose provision section is given, and whose job has one property.
func newBox(provision, property string) *world {
	GinkgoHelper()
	return newWorld(packed(map[string]string{
		"service.yml": smallPlan + "provision:\n" + provision, "bosh.yml": boxTemplate(property),
	}))
}

// property returns the property of the job in the deployed manifest.
func (w *world) property() any {
	GinkgoHelper()
	group := w.tree()["instance_groups"].([]any)[0].(map[string]any)
	return group["jobs"].([]any)[0].(map[string]any)["properties"].(map[string]any)["property"]
}

var _ = Describe("a deployed instance", func() {
	It("has no pending changes when the operator configures another stemcell that the template does not use", func() {
		w := newBox("  bosh: {manifest_ref: bosh.yml}\n", "a")
		w.must(call{})
		w.instance.Deployment.Stemcells = append(w.instance.Deployment.Stemcells, stemcell("ubuntu-noble", "", "1.2"))
		w.expectNoPendingChanges()
	})

	It("keeps the other secrets while one that the manifest does not use is lost", func() {
		w := newBox(`  user_inputs: [{field_name: key, type: string, details: A key}]
  bosh:
    manifest_ref: bosh.yml
    secrets:
    - {name: lost, value: "${key}"}
    - {name: a, length: 16}
    - {name: b, length: 16}
    - {name: c, length: 16}
    - {name: d, length: 16}
    - {name: e, length: 16}
    - {name: f, length: 16}
`, `"((a))((b))((c))((d))((e))((f))"`)
		w.secure(false)
		first := w.must(call{Parameters: map[string]any{"key": "one"}})
		w.secure(true)
		// The decisions are not ordered, so that a single call could be right by chance.
		for range 10 {
			w.must(call{Upgrade: true})
			Expect(recordOf(w.instance.Manifest).Secrets).To(And(HaveLen(6), Not(HaveKey("lost"))))
		}
		Expect(recordOf(first.Manifest).Secrets).To(HaveLen(7))
	})
})

var _ = Describe("the UAA client", func() {
	It("has variables for all fields that the broker sends", func() {
		names := []string{
			"allowpublic", "authorities", "authorized_grant_types", "client_id", "client_secret", "name",
			"redirect_uri", "resource_ids", "scopes",
		}
		sent, inputs, property := map[string]any{}, "", ""
		for _, name := range names {
			sent[name] = "the " + name
			inputs += "  - {name: " + name + ", type: string, default: '${uaa_client." + name + "}', overwrite: true}\n"
			property += name + ": ((" + name + ")), "
		}
		w := newBox("  computed_inputs:\n"+inputs+"  bosh: {manifest_ref: bosh.yml}\n", "{"+property+"}")
		w.must(call{})
		Expect(w.property()).To(And(HaveLen(len(names)), HaveEach("")), "the broker sent no client")
		w.must(call{UAA: sent})
		Expect(w.property()).To(Equal(sent))
		w.expectNoPendingChanges()
	})
})

var _ = Describe("the size of an instance group", func() {
	It("consists of everything that the definition computes", func() {
		w := newBox(`  bosh:
    manifest_ref: bosh.yml
    instance_groups:
    - name: box
      instances: ${1 + 2}
      vm_type: ${"la"}rge
      persistent_disk_type: ${"1"}TB
      vm_extensions: ${split("-", "public-spot")}
      networks: ${split("-", "n1-n2")}
      azs: ${split("-", "z7-z8")}
`, "a")
		w.must(call{})
		Expect(w.tree()["instance_groups"].([]any)[0]).To(And(
			HaveKeyWithValue("instances", BeEquivalentTo(3)), HaveKeyWithValue("vm_type", "large"),
			HaveKeyWithValue("persistent_disk_type", "1TB"),
			HaveKeyWithValue("vm_extensions", []any{"public", "spot"}),
			HaveKeyWithValue("networks",
				HaveExactElements(HaveKeyWithValue("name", "n1"), HaveKeyWithValue("name", "n2"))),
			HaveKeyWithValue("azs", []any{"z7", "z8"}),
		))
	})
})

var _ = Describe("an ops file for the completed manifest", func() {
	It("ends with an error if its condition cannot be evaluated", func() {
		w := newBox(`  bosh:
    manifest_ref: bosh.yml
    ops:
    - inline: [{type: remove, path: "/tags?"}]
      if: ${manifest.get("/tags") == "a"}
      completed: true
`, "a")
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring("manifest.get")))
	})
})

var _ = Describe("a dashboard URL that depends on the deployed manifest", func() {
	It("has the default labels of the instance", func() {
		w := newBox(`  bosh:
    manifest_ref: bosh.yml
    dashboard_url: 'https://${manifest.get("/name")}/${request.default_labels["pcf-space-guid"]}'
`, "a")
		w.must(call{})
		Expect(recordOf(w.instance.Manifest).Variables).
			To(HaveKeyWithValue("request.default_labels", HaveKeyWithValue("pcf-space-guid", "space")))
	})
})

var _ = Describe("a template with a character that the adapter reserves", func() {
	It("is rejected with the path of the text", func() {
		w := newBox("  bosh: {manifest_ref: bosh.yml}\n", `"a\uE0F1"`)
		_, err := w.generate(call{})
		Expect(err).To(MatchError(ContainSubstring("the text at /instance_groups/")))
		Expect(err).To(MatchError(ContainSubstring("which the adapter reserves")))
	})
})
