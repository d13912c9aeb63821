package preview_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter/session"
	"service-adapter/internal/odb"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/operate/preview"
	"service-adapter/spec/kit/site"
)

var _ = Describe("An instance of a replaced adapter", func() {
	const bosh = `    secrets: [{name: admin, length: 20}]
    carry_over: {admin: /instance_groups/name=server/jobs/name=server/properties/admin}
    ops:
    - inline:
      - {type: replace, path: '/instance_groups/0/jobs/0/properties?', value: {admin: ((admin)), size: ((size))}}
`
	// manifest is a manifest of the plan "large", as another adapter writes it.
	const manifest = `name: service-instance_inst-1
releases: [{name: server, version: 1.2.3}]
stemcells: [{alias: default, os: ubuntu-noble, version: "1.1"}]
update: {canaries: 1, max_in_flight: 1, canary_watch_time: 1-2, update_watch_time: 1-2}
instance_groups:
- name: server
  instances: 3
  vm_type: large
  stemcell: default
  azs: [z1]
  networks: [{name: default}]
  jobs: [{name: server, release: server, properties: {admin: planted-secret, size: 7}}]
`
	var s *site.Site
	var config *odb.BrokerConfig
	BeforeEach(func() {
		s = site.New(GinkgoT().TempDir())
		s.Env["SERVICE_ADAPTER_SECURE_MANIFESTS"] = "false"
		s.Serve(s.Pak("one", site.Definition{
			Bosh: bosh, Inputs: "[{field_name: size, type: integer, default: 7, details: x}]",
		}.String()))
		config = &odb.BrokerConfig{}
		config.Catalog.ID = site.ServiceID
		deployment := site.Instance().Deployment
		config.Deployment.Releases, config.Deployment.Stemcells = deployment.Releases, deployment.Stemcells
		for _, size := range []struct {
			name      string
			instances int
		}{{"small", 1}, {"large", 3}, {"huge", 5}} {
			plan := &odb.BrokerPlan{ID: "id-" + size.name, Name: size.name}
			plan.JSON = site.JSONText(object{"properties": object{}, "instance_groups": []any{object{
				"name": "server", "vm_type": size.name, "instances": size.instances,
				"networks": []any{"default"}, "azs": []any{"z1"},
			}}})
			Expect(json.Unmarshal([]byte(plan.JSON), &plan.Plan)).To(Succeed())
			config.Catalog.Plans = append(config.Catalog.Plans, plan)
		}
	})
	check := func(deployed string) (preview.Instance, error) {
		GinkgoHelper()
		opened, err := preview.Open(session.Process{Getenv: s.Getenv, Stderr: GinkgoWriter})
		Expect(err).NotTo(HaveOccurred())
		defer opened.Close()
		return opened.Instance(context.Background(), deployed, config)
	}

	It("is previewed with the plan that has the fewest pending changes", func() {
		Expect(check(manifest)).To(Equal(preview.Instance{Plan: "large", PlanGuessed: true}))
		got, err := check(strings.Replace(manifest, "size: 7", "size: 9", 1))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Plan).To(Equal("large"))
		Expect(got.Changes).To(ConsistOf(And(
			HaveField("Path", "/instance_groups/name=server/jobs/name=server/properties/size"),
			HaveField("Effect", manifestdiff.Restart), HaveField("Reason", HavePrefix("parameter lost: ")))))
	})

	It("is previewed under a new name of its instance group", func() {
		for _, plan := range config.Catalog.Plans {
			plan.JSON = strings.Replace(plan.JSON, `"name":"server"`,
				`"name":"server","migrated_from":[{"name":"old"}]`, 1)
			Expect(json.Unmarshal([]byte(plan.JSON), &plan.Plan)).To(Succeed())
		}
		got, err := check(strings.Replace(manifest, "- name: server", "- name: old", 1))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Plan).To(Equal("large"))
	})

	It("fails with the reason if no plan can be previewed", func() {
		s.Env["SERVICE_ADAPTER_SECURE_MANIFESTS"] = "true"
		_, err := check(strings.Replace(manifest, "planted-secret", "a((reference))", 1))
		Expect(err).To(MatchError(ContainSubstring(`carry_over of secret "admin"`)))
	})

	It("is one of another service if the broker stores its secrets for that one", func() {
		stored := func(service string) string {
			return strings.Replace(manifest, "planted-secret", "((/odb/"+service+"/service-instance_inst-1/admin))", 1)
		}
		_, err := check(stored("another"))
		Expect(err).To(MatchError(preview.ErrOtherService))
		Expect(check(stored(site.ServiceID))).To(HaveField("Plan", "large"))
	})

	DescribeTable("is not recognised", func(old, replacement string) {
		_, err := check(strings.Replace(manifest, old, replacement, 1))
		Expect(err).To(MatchError(ContainSubstring("no plan in the broker's catalog has one of its instance groups")))
	},
		Entry("with other instance groups", "- name: server", "- name: mysql"),
		Entry("with other releases", "releases: [{name: server", "releases: [{name: mysql"),
	)
})
