package instance_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/vars"
)

var _ = Describe("an instance of another adapter", func() {
	const manifest = `name: service-instance_abc
releases: [{name: box, version: "1.4"}]
instance_groups:
- name: box
  instances: 3
  persistent_disk_type: large
  networks: [{name: net}]
  properties: {size: 7, tls: true, client: user, nothing: null}
`
	view := func() *instance.View {
		return &instance.View{Manifest: []byte(manifest), ForeignInstance: instance.ForeignInstance{
			ServiceID: "sid", Plan: brokerpak.Plan{ID: "pid", Properties: map[string]any{"tier": "gold"}},
			Defaults: []map[string]any{{"zone": "z9"}},
		}}
	}
	computed := func(text string) brokerpak.DefaultValue {
		return brokerpak.DefaultValue{DefaultExpr: parsed(text), Overwrite: true}
	}
	service := func(outputs map[string]string) *brokerpak.Service {
		definition := &brokerpak.Service{Offering: brokerpak.Offering{Name: "box"}}
		definition.Provision.UserInputs = []brokerpak.Variable{
			{Name: "size", Type: "integer"},
			{Name: "tls", Type: "string"},
			{
				Name: "port", Type: "integer",
				DefaultValue: brokerpak.DefaultValue{HasDefault: true, Default: int64(6379)},
			},
			{Name: "lost", Type: "string"},
		}
		definition.Provision.ComputedInputs = []brokerpak.Variable{
			{Name: "scheme", Type: "string", DefaultValue: computed(`${tls == "true" ? "rediss" : "redis"}`)},
			{Name: "broken", Type: "string", DefaultValue: computed(`${release.version("other")}`)},
		}
		bosh := &brokerpak.Bosh{
			CarryOver: map[string][]string{
				"size": {
					"/nowhere", "/instance_groups/name=box/properties/nothing",
					"/instance_groups/name=box/properties/size",
				},
				"tls":                  {"/instance_groups/name=box/properties/tls"},
				"uaa_client.client_id": {"/instance_groups/name=box/properties/client"},
			},
			InstanceOutputs: brokerpak.InstanceOutputs{Outputs: map[string]brokerpak.Output{}},
		}
		for name, text := range outputs {
			bosh.Outputs[name] = brokerpak.Output{Expr: parsed(text)}
		}
		definition.Provision.Bosh = bosh
		return definition
	}

	It("has outputs that are computed from its manifest and the defaults", func() {
		details, err := view().Details(service(map[string]string{
			"size": "${size}", "scheme": "${scheme}", "port": "${port}", "zone": "${zone}", "tier": "${tier}",
			"client": "${uaa_client.client_id}",
			"count":  `${plan.instance_count("box")}`, "version": `${release.version("box")}`,
			"disk": `${plan.has_disk("box")}`,
			"id":   "${request.instance_id} ${request.service_id} ${request.plan_id}",
		}), vars.Environment{})
		Expect(err).NotTo(HaveOccurred())
		Expect(details).To(HaveKeyWithValue("size", BeEquivalentTo("7")))
		Expect(details).To(HaveKeyWithValue("scheme", "rediss"))
		Expect(details).To(HaveKeyWithValue("port", BeEquivalentTo("6379")))
		Expect(details).To(HaveKeyWithValue("zone", "z9"))
		Expect(details).To(HaveKeyWithValue("tier", "gold"))
		Expect(details).To(HaveKeyWithValue("client", "user"))
		Expect(details).To(HaveKeyWithValue("count", BeEquivalentTo("3")))
		Expect(details).To(HaveKeyWithValue("version", "1.4"))
		Expect(details).To(HaveKeyWithValue("id", "abc sid pid"))
	})

	It("has a dashboard URL with computed inputs", func() {
		definition := service(nil)
		definition.Provision.Bosh.DashboardURL = parsed("${scheme}://dash/${size}/${zone}")
		Expect(view().DashboardURL(definition, vars.Environment{}, nil)).To(Equal("rediss://dash/7/z9"))
	})

	It("causes an error that names the input that could not be computed", func() {
		_, err := view().Details(service(map[string]string{"version": "${broken}"}), vars.Environment{})
		Expect(err).To(MatchError(And(
			ContainSubstring(`evaluating output "version" of the instance, whose manifest has no record of this `+
				`adapter`),
			ContainSubstring(`computing "broken"`), ContainSubstring(`the deployment has no release "other"`),
		)))
		Expect(fault.UserMessage(err)).To(BeEmpty())
	})
})
