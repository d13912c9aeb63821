package brokerpak_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
)

var _ = DescribeTable("the groups and jobs that an ops file adds", func(text string, groups, jobs []string) {
	bosh := &brokerpak.Bosh{}
	bosh.Ops = []brokerpak.Conditional{{Document: brokerpak.Document{Text: text}}}
	var names []string
	for _, group := range bosh.InstanceGroups() {
		names = append(names, group.Name)
	}
	Expect(names).To(Equal(groups))
	Expect(bosh.JobNames()).To(ContainElements(jobs))
	if jobs == nil {
		Expect(bosh.JobNames()).To(BeEmpty())
	}
},
	Entry("are those of a group", "- {type: replace, path: /instance_groups/-, value: {name: a, jobs: [{name: b}]}}\n",
		[]string{"a"}, []string{"b"}),
	Entry("are not those that an operation tests",
		"- {type: test, path: /instance_groups/0, value: {name: a, jobs: [{name: b}]}}\n", nil, nil),
)
