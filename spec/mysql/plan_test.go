package mysql_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = DescribeTable("a plan of the operator is rejected",
	func(ctx context.Context, plan string, change func(object), message string) {
		s := prepared(plan, server.Host)
		change(s.Plan)
		answer := s.GenerateManifest(ctx, nil)
		Expect(answer.Exit).To(Equal(1), answer.Stderr)
		Expect(answer.Stderr).To(ContainSubstring(message))
	},
	Entry("without a disk", single, func(plan object) {
		delete(plan["instance_groups"].([]any)[0].(object), "persistent_disk_type")
	}, "the instance group mysql requires a persistent_disk_type"),
	Entry("of a cluster without proxies", cluster, func(plan object) {
		plan["instance_groups"] = plan["instance_groups"].([]any)[:1]
	}, "the plan lacks the instance group"),
	Entry("of one server with proxies", cluster, func(plan object) {
		plan["properties"].(object)["nodes"] = 1
	}, "that is not a group of the service"),
	Entry("of two servers", single, func(plan object) {
		plan["properties"].(object)["nodes"] = 2
	}, "must be one of 1, 3, 5"),
)

var _ = Describe("an update", func() {
	It("does not turn a single server into a cluster, because all credentials contain the server's name",
		func(ctx context.Context) {
			s, other := newSite(ctx), prepared(cluster, server.Host)
			s.Plan, s.PlanID = other.Plan, cluster
			answer := s.GenerateManifest(ctx, nil)
			Expect(answer.Exit).To(Equal(1))
			Expect(answer.Stdout).To(Equal(
				"a single server cannot become a cluster, and a cluster cannot become a single server"))
		})

	It("adds servers to a cluster, and rejects removing them", func(ctx context.Context) {
		s := newCluster(ctx, server.Host)
		s.Plan["properties"].(object)["nodes"] = 5
		s.deploy(ctx)
		Expect(s.Manifest).To(ContainSubstring("instances: 5"))
		s.Plan["properties"].(object)["nodes"] = 3
		answer := s.GenerateManifest(ctx, nil)
		Expect(answer.Exit).To(Equal(1))
		Expect(answer.Stdout).To(Equal(`the service instance has 5 instances of "mysql" and cannot be reduced to 3`))
	})
})
