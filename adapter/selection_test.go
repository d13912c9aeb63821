package adapter_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	otherServiceID = "00000000-0000-4000-8000-000000000002"
	otherPlanID    = "00000000-0000-4000-8000-000000000012"
)

// brokerpakProperty is the plan property that says what a plan is.
func brokerpakProperty(keys object) object { return object{"brokerpak": keys} }

var _ = Describe("the choice of service and plan", func() {
	var s *site

	// two serves two services that tell their names, and their plan's property tier.
	two := func() {
		s.serve(s.pak("two",
			definition{name: "one", properties: "{tier: first}", labels: "{service: one, tier: '${tier}'}"}.String(),
			definition{
				name: "other", id: otherServiceID, planID: otherPlanID, properties: "{tier: second}", labels: "{service: other, tier: '${tier}'}",
			}.String()))
	}

	BeforeEach(func() { s = newSite(GinkgoT().TempDir()) })

	DescribeTable("follows the order",
		func(configured string, plan, request, expected object) {
			two()
			s.env["SERVICE_ADAPTER_SERVICE"] = configured
			Expect(s.labels(plan, request)).To(Equal(expected))
		},
		Entry("the plan property wins over the ids", "one",
			brokerpakProperty(object{"service": "other", "plan": "small"}), body(nil), object{"service": "other", "tier": "second"}),
		Entry("the ids win over the configuration", "one",
			object{}, object{"service_id": otherServiceID, "plan_id": otherPlanID}, object{"service": "other", "tier": "second"}),
		Entry("the plan's id tells the service where the broker's catalog has another id for it", "one",
			object{}, object{"service_id": "unknown", "plan_id": otherPlanID}, object{"service": "other", "tier": "second"}),
		Entry("the configuration decides without ids", "other",
			object{"tier": "from the broker"}, object{}, object{"service": "other", "tier": "from the broker"}),
		Entry("the broker's properties override the pak's", "",
			object{"tier": "mine"}, body(nil), object{"service": "one", "tier": "mine"}),
	)

	It("uses the record of the instance before the configuration", func() {
		two()
		deployed := instance()
		deployed.Plan["properties"] = brokerpakProperty(object{"service": "other", "plan": "small"})
		Expect(deployed.Deploy(s.call("generate-manifest", deployed.Generate(body(nil))).Stdout)).To(Succeed())
		deployed.Plan["properties"] = object{}
		s.env["SERVICE_ADAPTER_SERVICE"] = "one"
		result := s.call("generate-manifest", deployed.Generate(object{}))
		Expect(result.Code).To(Equal(0), result.Stderr)
		Expect(document(result)["labels"]).To(Equal(object{"service": "other", "tier": "second"}))
	})

	It("takes the first of several paks that have the only service", func() {
		old := s.pak("old", definition{labels: "{from: old}"}.String())
		current := s.pak("current", definition{labels: "{from: current}"}.String())
		s.serve(current, old)
		Expect(s.labels(object{}, object{})).To(Equal(object{"from": "current"}))
	})

	It("gives a plan that nobody knows no properties of the pak", func() {
		s.serve(s.pak("one", definition{
			properties: "{tier: pak}", inputs: "[{field_name: tier, type: string, default: none, details: x}]", labels: "{tier: '${tier}'}",
		}.String()))
		Expect(s.labels(object{}, object{"service_id": serviceID, "plan_id": "unknown"})).To(Equal(object{"tier": "none"}))
	})

	DescribeTable("says what is wrong, for the operator",
		func(configured string, plan object, messages ...string) {
			two()
			s.env["SERVICE_ADAPTER_SERVICE"] = configured
			deployed := instance()
			deployed.Plan["properties"] = plan
			result := s.call("generate-manifest", deployed.Generate(object{}))
			Expect(result.Code).To(Equal(1))
			Expect(result.Stdout).To(BeEmpty())
			for _, message := range messages {
				Expect(result.Stderr).To(ContainSubstring(message))
			}
		},
		Entry("ambiguous", "", object{}, "which service is meant?", "the paks have: one, other"),
		Entry("unknown in the property", "", brokerpakProperty(object{"service": "ones"}), "names the service", "did you mean", "the paks have: one, other"),
		Entry("unknown in the configuration", "otter", object{}, "the configuration names the service", "did you mean", "the paks have: one, other"),
		Entry("unknown plan", "", brokerpakProperty(object{"service": "one", "plan": "smal"}), "names the plan", "did you mean", "has: small"),
	)

	It("is the instance's for a bind, where the broker's catalog has ids of its own and sends no property", func() {
		s.serve(s.pak("one", replaced(definition{bind: `
  user_inputs: [{field_name: x, type: string, default: '', details: x}]
  requires: [{that: '${1 == 2}', message: 'x is ${x}', audience: user}]
`}.String(), "properties: {}", "properties: {}, bind_overrides: {x: of the plan}")))
		deployed := instance()
		deployed.Plan["properties"] = brokerpakProperty(object{"service": "one", "plan": "small"})
		request := object{"service_id": "catalog-service", "plan_id": "catalog-plan"}
		Expect(deployed.Deploy(s.call("generate-manifest", deployed.Generate(request)).Stdout)).To(Succeed())
		Expect(s.call("create-binding", deployed.Bind("b-1", request)).Stdout).To(Equal("x is of the plan"))
	})

	It("lays the properties of the previous plan over those of the pak, too", func() {
		s.serve(s.pak("one", definition{
			properties: "{tier: of the pak}",
			bosh:       `    checks: [{that: '${!previous.exists}', message: 'it was ${previous_plan.properties["tier"]}', audience: user}]`,
		}.String()))
		deployed := instance()
		Expect(deployed.Deploy(s.call("generate-manifest", deployed.Generate(body(nil))).Stdout)).To(Succeed())
		Expect(s.call("generate-manifest", deployed.Generate(body(nil))).Stdout).To(Equal("it was of the pak"))
	})

	It("warns of settings for a service that no pak has", func() {
		s.serve(s.pak("one", definition{}.String()))
		s.env["SERVICE_ADAPTER_SERVICES"] = "{oen: {bind_defaults: {}}}"
		Expect(s.call("generate-manifest", instance().Generate(body(nil))).Stderr).To(MatchRegexp(`level=WARN .*service=oen services=one`))
	})
})

var _ = Describe("plans of the operator", func() {
	const plans = `[{"id": "custom-id", "name": "custom", "description": "x", "tier": "gold",
		"provision_overrides": {"size": 7}, "bind_overrides": {}}]`
	var s *site

	BeforeEach(func() {
		s = newSite(GinkgoT().TempDir())
		s.serve(s.pak("one", definition{
			name:   "my-service.one",
			inputs: "[{field_name: tier, type: string, default: none, details: x}, {field_name: size, type: integer, default: 1, details: x}]",
			labels: "{tier: '${tier}', size: '${size}'}",
		}.String()))
	})

	DescribeTable("add to those of the pak",
		func(set func()) {
			set()
			Expect(s.labels(object{}, object{"service_id": serviceID, "plan_id": "custom-id"})).To(Equal(object{"tier": "gold", "size": "7"}))
			Expect(s.labels(brokerpakProperty(object{"plan": "custom"}), object{})).To(Equal(object{"tier": "gold", "size": "7"}))
		},
		Entry("from the configuration", func() { s.env["SERVICE_ADAPTER_SERVICES"] = "{my-service.one: {plans: " + plans + "}}" }),
		Entry("from the environment", func() { s.env["GSB_SERVICE_MY_SERVICE_ONE_PLANS"] = plans }),
	)

	DescribeTable("are refused by name, without their values",
		func(text, message string) {
			s.env["GSB_SERVICE_MY_SERVICE_ONE_PLANS"] = text
			result := s.call("generate-manifest", instance().Generate(body(nil)))
			Expect(result.Code).To(Equal(1))
			Expect(result.Stdout).To(BeEmpty())
			Expect(result.Stderr).To(ContainSubstring(message))
			Expect(result.Stderr).NotTo(ContainSubstring("s3cret"))
		},
		Entry("no JSON", `[{"s3cret`, "environment variable GSB_SERVICE_MY_SERVICE_ONE_PLANS"),
		Entry("no list", `{"s3cret": 1}`, "environment variable GSB_SERVICE_MY_SERVICE_ONE_PLANS must be a JSON array of plans, not an object"),
		Entry("no object", `["s3cret"]`, "a plan must be an object, not a string"),
		Entry("no name", `[{"id": "s3cret"}]`, "needs id and name"),
		Entry("id is no text", `[{"id": 5, "name": "s3cret"}]`, "needs id and name"),
		Entry("overrides", `[{"id": "x", "name": "y", "bind_overrides": "s3cret"}]`, "bind_overrides must be an object, not a string"),
	)

	It("must have the required properties", func() {
		s.serve(s.pak("strict", replaced(definition{name: "my-service.one", properties: "{tier: a}"}.String(),
			"provision:\n", "provision:\n  plan_inputs: [{field_name: tier, type: string, required: true, details: x}]\n")))
		s.env["GSB_SERVICE_MY_SERVICE_ONE_PLANS"] = `[{"id": "x", "name": "custom"}]`
		result := s.call("generate-manifest", instance().Generate(body(nil)))
		Expect(result.Code).To(Equal(1))
		Expect(result.Stderr).To(ContainSubstring(`the required property \"tier\" is missing`))
	})
})
