package vars_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/vars"
)

var _ = It("the groups of a plan depend on its properties rather than on its overrides, as in requests", func() {
	condition, err := expr.Parse(expr.Source{Text: "${ha}"})
	Expect(err).NotTo(HaveOccurred())
	service := &brokerpak.Service{}
	service.Provision.Bosh = &brokerpak.Bosh{}
	service.Provision.Bosh.Ops = []brokerpak.Conditional{{
		If:       condition,
		Document: brokerpak.Document{Text: "- {type: replace, path: /instance_groups/-, value: {name: a}}"},
	}}
	for _, properties := range []bool{true, false} {
		plan := brokerpak.Plan{
			Properties:         map[string]any{"ha": properties},
			ProvisionOverrides: map[string]any{"ha": !properties},
		}
		present, conditional := vars.GroupsOfPlan(service, plan)
		if !properties {
			present, conditional = conditional, present
		}
		Expect(present).To(ConsistOf(HaveField("Name", "a")))
		Expect(conditional).To(BeEmpty())
	}
})
