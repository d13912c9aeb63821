package rabbitmq_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = DescribeTable("a plan of the operator is rejected",
	func(ctx context.Context, change func(plan, group object), text string) {
		s := prepared(plain())
		change(s.Plan["properties"].(object), s.Plan["instance_groups"].([]any)[0].(object))
		got := s.GenerateManifest(ctx, nil)
		Expect(got.Exit).To(Equal(1), got.Stderr)
		Expect(got.Stderr).To(ContainSubstring(text))
	},
	Entry("without a disk", func(_, group object) {
		delete(group, "persistent_disk_type")
	}, "the instance group node requires a persistent_disk_type"),
	Entry("without a network", func(_, group object) {
		group["networks"] = []string{}
	}, "expected 1 network for node, got 0"),
	Entry("with two networks", func(_, group object) {
		group["networks"] = []string{"a", "b"}
	}, "expected 1 network for node, got 2"),
	Entry("without the group", func(_, group object) { group["name"] = "server" },
		"that is not a group of the service"),
	Entry("with two nodes", func(properties, _ object) { properties["nodes"] = 2 }, "must be one of 1, 3, 5"),
)

var _ = Describe("an update", func() {
	It("expands one node to a cluster, and rejects the reverse", func(ctx context.Context) {
		s := newSite(ctx, plain())
		s.Plan["properties"].(object)["nodes"] = 3
		s.deploy(ctx, nil)
		Expect(s.Manifest).To(And(ContainSubstring("instances: 3"), ContainSubstring("plan: cluster")))
		s.Plan["properties"].(object)["nodes"] = 1
		got := s.GenerateManifest(ctx, nil)
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stdout).To(Equal(`the service instance has 3 instances of "node" and cannot be reduced to 1`))
	})

	It("does not enable or disable TLS, because that would invalidate all credentials", func(ctx context.Context) {
		s := newSite(ctx, plain())
		got := s.GenerateManifest(ctx, object{"tls": true})
		Expect(got.Exit).To(Equal(1))
		Expect(got.Stdout).To(Equal(`parameter "tls" cannot be changed after creation`))
	})
})
