package provision_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/provision"
	"service-adapter/spec/kit"
)

var _ = Describe("a newer pak", func() {
	var s *site
	first := object{"content": "first"}
	changed := strings.Replace(simple, `"data is there"`, `"another text"`, 1) + "output \"more\" { value = 1 }\n"

	BeforeEach(func(ctx context.Context) {
		s = newSite(pak{template: simple, provision: inputs})
		s.must(ctx, first)
		changes()
		s.install(pak{version: "2.0.0", template: changed, provision: inputs})
	})

	It("does not change an existing instance", func(ctx context.Context) {
		Expect(s.pending(ctx, first)).To(BeFalse())
		result := s.must(ctx, first)
		Expect(result.Changed).To(BeFalse())
		Expect(result.Outputs).NotTo(HaveKey("more"))
		Expect(changes()).To(BeEmpty())
	})

	It("keeps the template of an instance when the inputs change", func(ctx context.Context) {
		result := s.must(ctx, object{"content": "second"})
		Expect(result.Outputs).To(HaveKeyWithValue("content", "second"))
		Expect(result.Outputs).NotTo(HaveKey("more"))
		Expect(s.record(ctx).Templates["main.tf"]).To(Equal(simple))
		Expect(s.record(ctx).PakVersion).To(Equal("2.0.0"))
	})

	DescribeTable("replaces the template if enabled", func(ctx context.Context, enable func(*provision.Provisioner)) {
		enable(s.Provisioner)
		Expect(s.pending(ctx, first)).To(BeTrue())
		result := s.must(ctx, first)
		Expect(result.Outputs).To(HaveKeyWithValue("more", int64(1)))
		Expect(result.Outputs).To(HaveKeyWithValue("status", "another text"))
		changes()
		Expect(s.must(ctx, first).Changed).To(BeFalse())
		Expect(changes()).To(BeEmpty())

		// After the operator disables it again, the instance keeps the last template that was applied.
		s.UseInstalledTemplate, s.AllowUpgrade = true, false
		s.install(pak{
			version: "3.0.0", template: changed + "output \"wrong\" { value = file(\"/nowhere\") }\n",
			provision: inputs,
		})
		_, err := s.apply(ctx, object{"content": "second"})
		Expect(err).To(HaveOccurred())
		s.install(pak{
			version: "3.0.1", template: changed + "output \"wrong\" { value = 1 + var.content }\n",
			provision: inputs,
		})
		_, err = s.apply(ctx, object{"content": "second"})
		Expect(err).To(HaveOccurred())
		s.UseInstalledTemplate = false
		Expect(s.must(ctx, object{"content": "second"}).Outputs).To(And(HaveKey("more"), Not(HaveKey("wrong"))))
	},
		Entry("brokerpak_updates_enabled", func(p *provision.Provisioner) { p.UseInstalledTemplate = true }),
		Entry("terraform_upgrades_enabled", kit.Slow(), func(p *provision.Provisioner) { p.AllowUpgrade = true }),
	)
})

var _ = Describe("a newer pak for an instance that was never finished", func() {
	It("creates it with the template and the OpenTofu of the newer pak", func(ctx context.Context) {
		s := newSite(pak{tofu: []string{older}, template: simple, provision: inputs})
		_ = s.killed(ctx, afterCreate, object{"content": "first"})
		s.install(pak{
			version: "2.0.0", tofu: []string{older, newest}, template: simple + "output \"more\" { value = 1 }\n",
			provision: inputs,
		})
		Expect(s.must(ctx, object{"content": "first"}).Outputs).To(HaveKey("more"))
		Expect(s.record(ctx).Tofu).To(Equal(newest))
	})
})

var _ = Describe("a pak with a newer OpenTofu", func() {
	var s *site
	var before *provision.Result
	first := object{"content": "first"}
	both := pak{version: "2.0.0", tofu: []string{older, newest}, template: simple, provision: inputs}

	BeforeEach(func(ctx context.Context) {
		s = newSite(pak{tofu: []string{older}, template: simple, provision: inputs})
		before = s.must(ctx, first)
		Expect(changes()).To(HaveEach(older + " apply"))
		s.install(both)
	})

	It("does not affect an instance with unchanged inputs", func(ctx context.Context) {
		Expect(s.pending(ctx, first)).To(BeFalse())
		Expect(s.must(ctx, first).Outputs).To(Equal(before.Outputs))
		Expect(changes()).To(BeEmpty())
	})

	It("does not change an instance before its upgrade", func(ctx context.Context) {
		stored := s.stored()
		_, err := s.apply(ctx, object{"content": "second"})
		Expect(err).To(MatchError(ContainSubstring("its state was written by OpenTofu 1.10.10 and the pak has 1.12.6")))
		Expect(changes()).To(BeEmpty())
		Expect(s.stored()).To(Equal(stored))
	})

	It("upgrades along its upgrade path, and keeps the resources", func(ctx context.Context) {
		s.AllowUpgrade = true
		Expect(s.pending(ctx, first)).To(BeTrue())
		after := s.must(ctx, first)
		Expect(after.Outputs).To(Equal(before.Outputs), "the secret is the resource's identity")
		Expect(changes()).To(And(Not(BeEmpty()), HaveEach(newest+" apply")))
		Expect(s.pending(ctx, first)).To(BeFalse())
		Expect(s.must(ctx, first).Changed).To(BeFalse())
		s.destroy(ctx)
		Expect(s.entry("data")).To(BeNil())
	})

	It("continues a failed upgrade", func(ctx context.Context) {
		s.AllowUpgrade = true
		_, err := s.apply(ctx, object{"content": "second", "second": "second", "fail": "no space"})
		Expect(err).To(MatchError(ContainSubstring("upgrading from OpenTofu 1.10.10 to 1.12.6")))
		Expect(s.pending(ctx, first)).To(BeTrue())
		after := s.must(ctx, first)
		Expect(after.Outputs).To(Equal(before.Outputs))
	})

	It("destroys an instance without upgrading it", func(ctx context.Context) {
		s.destroy(ctx)
		Expect(s.entry("data")).To(BeNil())
	})

	It("cannot be replaced by a pak with an older OpenTofu", func(ctx context.Context) {
		s.AllowUpgrade = true
		s.must(ctx, first)
		s.install(pak{version: "3.0.0", tofu: []string{older}, template: simple, provision: inputs})
		_, err := s.apply(ctx, object{"content": "second"})
		Expect(err).To(MatchError(ContainSubstring("newer OpenTofu")))
	})
})
