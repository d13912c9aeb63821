package session_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/internal/record"
	"service-adapter/spec/kit/site"
)

const (
	otherServiceID = "00000000-0000-4000-8000-000000000002"
	otherPlanID    = "00000000-0000-4000-8000-000000000012"
)

// brokerpakProperty returns plan properties with the property that names a service and plan.
func brokerpakProperty(keys object) object { return object{"brokerpak": keys} }

var _ = Describe("the choice of service and plan", func() {
	var s *site.Site

	// two serves two services whose labels contain their name and the property tier of the plan.
	two := func() {
		s.Serve(s.Pak("two",
			site.Definition{
				Name: "one", Properties: "{tier: first}", Labels: "{service: one, tier: '${tier}'}",
			}.String(),
			site.Definition{
				Name: "other", ID: otherServiceID, PlanID: otherPlanID, Properties: "{tier: second}",
				Labels: "{service: other, tier: '${tier}'}",
			}.String()))
	}

	BeforeEach(func() { s = site.New(GinkgoT().TempDir()) })

	DescribeTable("follows the order",
		func(configured string, plan, request, expected object) {
			two()
			s.Env["SERVICE_ADAPTER_SERVICE"] = configured
			Expect(s.Labels(plan, request)).To(Equal(expected))
		},
		Entry("the plan property takes precedence over the ids", "one",
			brokerpakProperty(object{"service": "other", "plan": "small"}), site.Body(nil),
			object{"service": "other", "tier": "second"}),
		Entry("the ids take precedence over the configuration", "one",
			object{}, object{"service_id": otherServiceID, "plan_id": otherPlanID},
			object{"service": "other", "tier": "second"}),
		Entry("the id of the plan determines the service if the broker's catalog has another id for it", "one",
			object{}, object{"service_id": "unknown", "plan_id": otherPlanID},
			object{"service": "other", "tier": "second"}),
		Entry("the configuration is used without ids", "other",
			object{"tier": "from the broker"}, object{}, object{"service": "other", "tier": "from the broker"}),
		Entry("the broker's properties override the pak's", "",
			object{"tier": "mine"}, site.Body(nil), object{"service": "one", "tier": "mine"}),
	)

	It("uses the record of the instance before the configuration", func() {
		two()
		deployed := site.Instance()
		deployed.Plan["properties"] = brokerpakProperty(object{"service": "other", "plan": "small"})
		Expect(deployed.Deploy(s.Call("generate-manifest", deployed.Generate(site.Body(nil))).Stdout)).To(Succeed())
		deployed.Plan["properties"] = object{}
		s.Env["SERVICE_ADAPTER_SERVICE"] = "one"
		result := s.Call("generate-manifest", deployed.Generate(object{}))
		Expect(result.Code).To(Equal(0), result.Stderr)
		Expect(site.Document(result)["labels"]).To(Equal(object{"service": "other", "tier": "second"}))
	})

	It("uses the first of several paks that have the only service", func() {
		old := s.Pak("old", site.Definition{Labels: "{from: old}"}.String())
		current := s.Pak("current", site.Definition{Labels: "{from: current}"}.String())
		s.Serve(current, old)
		Expect(s.Labels(object{}, object{})).To(Equal(object{"from": "current"}))
	})

	It("gives an unknown plan no properties of the pak", func() {
		s.Serve(s.Pak("one", site.Definition{
			Properties: "{tier: pak}", Inputs: "[{field_name: tier, type: string, default: none, details: x}]",
			Labels: "{tier: '${tier}'}",
		}.String()))
		Expect(s.Labels(object{}, object{
			"service_id": site.ServiceID,
			"plan_id":    "unknown",
		})).To(Equal(object{"tier": "none"}))
	})

	DescribeTable("reports the fault to the operator",
		func(configured string, plan object, messages ...string) {
			two()
			s.Env["SERVICE_ADAPTER_SERVICE"] = configured
			deployed := site.Instance()
			deployed.Plan["properties"] = plan
			result := s.Call("generate-manifest", deployed.Generate(object{}))
			Expect(result.Code).To(Equal(1))
			Expect(result.Stdout).To(BeEmpty())
			for _, message := range messages {
				Expect(result.Stderr).To(ContainSubstring(message))
			}
		},
		Entry("ambiguous", "", object{}, "the request does not determine the service", "the paks have: one, other"),
		Entry("unknown in the property", "", brokerpakProperty(object{"service": "ones"}), "names the service",
			"did you mean", "the paks have: one, other"),
		Entry("unknown in the configuration", "otter", object{}, "the configuration names the service", "did you mean",
			"the paks have: one, other"),
		Entry("unknown plan", "", brokerpakProperty(object{"service": "one", "plan": "smal"}), "names the plan",
			"did you mean", "has: small"),
	)

	It("is that of the instance for a bind, if the broker has ids of its own and sends no property", func() {
		s.Serve(s.Pak("one", site.Replaced(site.Definition{Bind: `
  user_inputs: [{field_name: x, type: string, default: '', details: x}]
  requires: [{that: '${1 == 2}', message: 'x is ${x}', audience: user}]
`}.String(), "properties: {}", "properties: {}, bind_overrides: {x: of the plan}")))
		deployed := site.Instance()
		deployed.Plan["properties"] = brokerpakProperty(object{"service": "one", "plan": "small"})
		request := object{"service_id": "catalog-service", "plan_id": "catalog-plan"}
		Expect(deployed.Deploy(s.Call("generate-manifest", deployed.Generate(request)).Stdout)).To(Succeed())
		Expect(s.Call("create-binding", deployed.Bind("b-1", request)).Stdout).To(Equal("x is of the plan"))
	})

	It("merges the properties of the previous plan over those of the pak", func() {
		s.Serve(s.Pak("one", site.Definition{
			Properties: "{tier: of the pak}",
			Bosh: `    checks: [{that: '${!previous.exists}', ` +
				`message: 'it was ${previous_plan.properties["tier"]}', audience: user}]`,
		}.String()))
		deployed := site.Instance()
		Expect(deployed.Deploy(s.Call("generate-manifest", deployed.Generate(site.Body(nil))).Stdout)).To(Succeed())
		Expect(s.Call("generate-manifest", deployed.Generate(site.Body(nil))).Stdout).To(Equal("it was of the pak"))
	})

	DescribeTable("tells which instances belong to the broker", func(instance, broker string, owns bool) {
		one, other := &brokerpak.Service{}, &brokerpak.Service{}
		one.ID, other.ID = site.ServiceID, otherServiceID
		catalog := session.Catalog{Paks: []*brokerpak.Pak{{Services: []*brokerpak.Service{one, other}}}}
		stored := &record.InstanceRecord{}
		stored.ServiceID = instance
		Expect(catalog.Owns(stored, broker)).To(Equal(owns))
	},
		Entry("of an unknown service", "", site.ServiceID, true),
		Entry("of its service", site.ServiceID, site.ServiceID, true),
		Entry("of its service, which is in no pak", "catalog-service", "catalog-service", true),
		Entry("created before the operator changed the id", site.ServiceID, "catalog-service", true),
		Entry("of another service of the pak", otherServiceID, site.ServiceID, false),
		Entry("of a service that is in no pak", "foreign", site.ServiceID, false),
	)

	It("warns of settings for a service that no pak has", func() {
		s.Serve(s.Pak("one", site.Definition{}.String()))
		s.Env["SERVICE_ADAPTER_SERVICES"] = "{oen: {bind_defaults: {}}}"
		Expect(s.Call("generate-manifest",
			site.Instance().Generate(site.Body(nil))).Stderr).To(MatchRegexp(`level=WARN .*service=oen services=one`))
	})
})

var _ = Describe("the plans of the operator", func() {
	const plans = `[{"id": "custom-id", "name": "custom", "description": "x", "tier": "gold",
		"provision_overrides": {"size": 7}, "bind_overrides": {}}]`
	var s *site.Site

	BeforeEach(func() {
		s = site.New(GinkgoT().TempDir())
		s.Serve(s.Pak("one", site.Definition{
			Name: "my-service.one",
			Inputs: "[{field_name: tier, type: string, default: none, details: x}, " +
				"{field_name: size, type: integer, default: 1, details: x}]",
			Labels: "{tier: '${tier}', size: '${size}'}",
		}.String()))
	})

	DescribeTable("are added to those of the pak",
		func(set func()) {
			set()
			Expect(s.Labels(object{}, object{
				"service_id": site.ServiceID,
				"plan_id":    "custom-id",
			})).To(Equal(object{"tier": "gold", "size": "7"}))
			Expect(s.Labels(brokerpakProperty(object{"plan": "custom"}),
				object{})).To(Equal(object{"tier": "gold", "size": "7"}))
		},
		Entry("from the configuration", func() {
			s.Env["SERVICE_ADAPTER_SERVICES"] = "{my-service.one: {plans: " +
				plans + "}}"
		}),
		Entry("from the environment", func() { s.Env["GSB_SERVICE_MY_SERVICE_ONE_PLANS"] = plans }),
	)

	DescribeTable("are rejected by name, without their values",
		func(text, message string) {
			s.Env["GSB_SERVICE_MY_SERVICE_ONE_PLANS"] = text
			result := s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
			Expect(result.Code).To(Equal(1))
			Expect(result.Stdout).To(BeEmpty())
			Expect(result.Stderr).To(ContainSubstring(message))
			Expect(result.Stderr).NotTo(ContainSubstring("s3cret"))
		},
		Entry("not JSON", `[{"s3cret`, "environment variable GSB_SERVICE_MY_SERVICE_ONE_PLANS"),
		Entry("not a list", `{"s3cret": 1}`,
			"environment variable GSB_SERVICE_MY_SERVICE_ONE_PLANS must be a JSON array of plans, not an object"),
		Entry("not an object", `["s3cret"]`, "a plan must be an object, not a string"),
		Entry("no name", `[{"id": "s3cret"}]`, "must have an id and a name"),
		Entry("an id that is not a text", `[{"id": 5, "name": "s3cret"}]`, "must have an id and a name"),
		Entry("overrides", `[{"id": "x", "name": "y", "bind_overrides": "s3cret"}]`,
			"bind_overrides must be an object, not a string"),
	)

	It("must have the required properties", func() {
		s.Serve(s.Pak("strict", site.Replaced(site.Definition{Name: "my-service.one", Properties: "{tier: a}"}.String(),
			"provision:\n",
			"provision:\n  plan_inputs: [{field_name: tier, type: string, required: true, details: x}]\n")))
		s.Env["GSB_SERVICE_MY_SERVICE_ONE_PLANS"] = `[{"id": "x", "name": "custom"}]`
		result := s.Call("generate-manifest", site.Instance().Generate(site.Body(nil)))
		Expect(result.Code).To(Equal(1))
		Expect(result.Stderr).To(ContainSubstring(`the required property \"tier\" is missing`))
	})
})
