package schemas_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/schemas"
)

var _ = Describe("CheckParameters", func() {
	action := &brokerpak.Action{
		UserInputs: []brokerpak.Variable{
			{Name: "size"},
			{Name: "maxclients"},
			{Name: "region", RequestRules: brokerpak.RequestRules{ProhibitUpdate: true}},
			{Name: "storage_gb"},
		},
		Import: brokerpak.Import{ImportInputs: []brokerpak.Variable{{Name: "existing_id"}}},
	}
	plan := map[string]any{"storage_gb": int64(10), "cores": int64(2)}

	DescribeTable("accepts or rejects the names of parameters",
		func(update bool, parameters, message string) {
			Expect(userMessage(schemas.CheckParameters(action, plan, object(parameters), update))).To(Equal(message))
		},
		Entry("nothing", false, `{}`, ``),
		Entry("declared inputs, whatever their values", false, `{"size": {}, "maxclients": "x", "region": null}`, ``),
		Entry("an import input of a create", false, `{"existing_id": "db-1"}`, ``),
		Entry("an import input of an update", true, `{"existing_id": "db-1"}`,
			`parameter "existing_id" is not supported; supported parameters: maxclients, size`),
		Entry("a misspelt name", false, `{"siez": 1}`,
			`parameter "siez" is not supported (did you mean "size"?); `+
				`supported parameters: existing_id, maxclients, region, size`),
		Entry("a name that other brokers use to skip the provisioning", false, `{"vacant": true}`,
			`parameter "vacant" is not supported; supported parameters: existing_id, maxclients, region, size`),
		Entry("a plan property that is an input", false, `{"storage_gb": 10}`,
			`parameter "storage_gb" is set by the plan and cannot be changed`),
		Entry("a plan property that is not an input", false, `{"cores": 2}`,
			`parameter "cores" is set by the plan and cannot be changed`),
		Entry("prohibit_update in an update", true, `{"region": "eu"}`,
			`parameter "region" cannot be changed after creation`),
		Entry("prohibit_update reset in an update", true, `{"region": null}`,
			`parameter "region" cannot be changed after creation`),
		Entry("several faults, by name", true, `{"zzz": 1, "region": 1, "cores": 1, "size": 1}`,
			`parameter "cores" is set by the plan and cannot be changed; `+
				`parameter "region" cannot be changed after creation; `+
				`parameter "zzz" is not supported; supported parameters: maxclients, size`),
		Entry("a name with control characters", false, `{"a\n\u0007": 1}`,
			`parameter "a\n\a" is not supported; supported parameters: existing_id, maxclients, region, size`),
	)

	It("accepts further names if the action has an additional input", func() {
		further := func(prohibit bool) *brokerpak.Action {
			return &brokerpak.Action{
				UserInputs: []brokerpak.Variable{
					{Name: "size", RequestRules: brokerpak.RequestRules{ProhibitUpdate: true}},
					{
						Name: "rest", Type: "object",
						RequestRules: brokerpak.RequestRules{Additional: true, ProhibitUpdate: prohibit},
					},
				},
				Import: action.Import,
			}
		}
		refused := func(prohibit, update bool, plan map[string]any, parameters string) string {
			return userMessage(schemas.CheckParameters(further(prohibit), plan, object(parameters), update))
		}
		Expect(refused(false, false, plan, `{"size": 1, "any": 2, "rest": 3, "existing_id": "db-1"}`)).To(BeEmpty())
		Expect(refused(false, true, plan, `{"any": 2, "rest": 3}`)).To(BeEmpty())
		Expect(refused(false, true, plan, `{"any": 2, "cores": 3, "existing_id": "db-1", "size": 1}`)).To(Equal(
			`parameter "cores" is set by the plan and cannot be changed; parameter "existing_id" is not supported; ` +
				`parameter "size" cannot be changed after creation; supported parameters: rest`))
		Expect(refused(true, false, plan, `{"any": 2}`)).To(BeEmpty())
		Expect(refused(true, true, plan, `{"any": 2}`)).To(Equal(`parameter "any" cannot be changed after creation`))
		Expect(refused(false, false, map[string]any{"rest": object(`{}`)}, `{"any": 2}`)).To(Equal(
			`parameter "any" is set by the plan and cannot be changed`))
	})

	It("allows a binding to set an input that the plan sets", func() {
		Expect(schemas.CheckParameters(action, nil, object(`{"storage_gb": 5}`), false)).To(Succeed())
	})

	It("reports if no parameters are supported", func() {
		Expect(userMessage(schemas.CheckParameters(&brokerpak.Action{}, nil, object(`{"a": 1}`), false))).To(
			Equal(`parameter "a" is not supported; no parameters are supported`))
	})

	It("keeps the message short for any request", func() {
		parameters := map[string]any{}
		for i := range 500 {
			parameters[strings.Repeat("ä", 400+i)] = nil
		}
		message := userMessage(schemas.CheckParameters(action, nil, parameters, false))
		Expect(message).To(ContainSubstring(`; and 491 more; supported parameters: `))
		Expect(len(message)).To(BeNumerically("<", 1500))
	})
})
