package preview_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter/session"
	"service-adapter/internal/odb"
	"service-adapter/internal/operate/preview"
	"service-adapter/spec/kit/site"
)

var _ = Describe("The reason for a change", func() {
	const inputs = `
  - {field_name: connections, type: integer, default: 50, details: x}
  - {field_name: clients, type: integer, default: 100, details: x}
  - {field_name: policy, type: string, default: noeviction, details: x}
  - {field_name: persistent, type: boolean, default: true, details: x}
  plan_inputs:
  - {field_name: memory, type: integer, details: x}`
	const bosh = `    ops:
    - inline:
      - {type: replace, path: '/instance_groups/0/jobs/0/properties?', value: {
          connections: ((connections)), policy: ((policy)), persistent: ((persistent)),
          options: [clients, "max=((clients))"], memory: ((memory))mb, version: first}}
`
	var s *site.Site
	var instance *odb.Instance
	BeforeEach(func() {
		s = site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{Inputs: inputs, Bosh: bosh}.String()))
		instance = site.Instance()
		instance.Plan["properties"] = object{"memory": 512}
		result := s.Call("generate-manifest", instance.Generate(site.Body(nil)))
		Expect(result.Code).To(Equal(0), result.Stderr)
		Expect(instance.Deploy(result.Stdout)).To(Succeed())
	})
	// reasons returns the reasons of the pending changes by the rest of their paths below the properties of the job.
	reasons := func() map[string]string {
		GinkgoHelper()
		changes, err := preview.Changes(context.Background(), session.Process{Getenv: s.Getenv, Stderr: GinkgoWriter},
			instance.Manifest, site.JSONText(instance.Plan), nil)
		Expect(err).NotTo(HaveOccurred())
		reasons := map[string]string{}
		for _, change := range changes {
			_, name, _ := strings.Cut(change.Path, "/properties/")
			reasons[name] = change.Reason
		}
		return reasons
	}
	// change changes the definition in the pak.
	change := func(old, replacement string) {
		GinkgoHelper()
		s.Pak("one", site.Replaced(site.Definition{Inputs: inputs, Bosh: bosh}.String(), old, replacement))
	}
	definition := func(input string) string {
		return `default changed: the definition has another default for the input "` + input + `" now`
	}

	DescribeTable("names the input whose default changed", func(old, replacement, path, input string) {
		change(old, replacement)
		Expect(reasons()).To(Equal(map[string]string{path: definition(input)}))
	},
		Entry("of two with the same value", "connections, type: integer, default: 50",
			"connections, type: integer, default: 100", "connections", "connections"),
		Entry("within a text", "clients, type: integer, default: 100", "clients, type: integer, default: 250",
			"options/1", "clients"),
		Entry("a text", "default: noeviction", "default: allkeys-lru", "policy", "policy"),
		Entry("a boolean", "default: true", "default: false", "persistent", "persistent"),
	)

	It("names a default of the operator's configuration", func() {
		s.Env["GSB_PROVISION_DEFAULTS"] = `{"connections": 300}`
		Expect(reasons()).To(Equal(map[string]string{
			"connections": `default changed: the operator's configuration has another default for the input ` +
				`"connections" now`,
		}))
	})

	It("names a property of the plan", func() {
		instance.Plan["properties"] = object{"memory": 1024}
		Expect(reasons()).To(Equal(map[string]string{
			"memory": `plan changed: the property "memory" has another value now`,
		}))
	})

	It("is another one if no input causes it, even with the value of an input", func() {
		change("version: first", "version: noeviction")
		Expect(reasons()).To(HaveKeyWithValue("version", HavePrefix("template or plan changed: ")))
	})
})
