package lifecycle_test

import (
	"context"
	"os"
	"strings"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/lifecycle"
)

// replaceIn replaces a part of a file, which must contain it.
func replaceIn(file, old, with string) {
	GinkgoHelper()
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	Expect(string(text)).To(ContainSubstring(old))
	Expect(os.WriteFile(file, []byte(strings.ReplaceAll(string(text), old, with)), 0o600)).To(Succeed())
}

// storedState returns the state of an instance with one resource.
const storedState = `{"version":4,"terraform_version":"1.12.6","serial":3,"lineage":"l","outputs":{},"resources":[
{"mode":"managed","type":"terraform_data","name":"_binding","provider":"provider[\"terraform.io/builtin/terraform\"]",
"instances":[{"attributes":{"input":{"value":{"record":"{\"format\":1,\"instance_id\":\"i1\",` +
	`\"deployment\":\"service-instance_i1\",\"pak\":\"test\",\"pak_version\":\"1.0.0\",\"service\":\"service\",` +
	`\"service_id\":\"s\",\"tofu_version\":\"1.12.6\",\"templates\":{\"main.tf\":\"\"},\"inputs\":{}}",` +
	`"tofu":"1.12.6"},"type":["object",{"record":"string","tofu":"string"}]},
"triggers_replace":{"value":"nonce","type":"string"}}}]},
{"mode":"managed","type":"terraform_data","name":"account","provider":"provider[\"terraform.io/builtin/terraform\"]",
"instances":[{"attributes":{"input":{"value":"x","type":"string"}}}]}]}`

// applyStored calls ApplyStored without a dry run and ignores the changes.
func (s *site) applyStored(ctx context.Context, kind lifecycle.Kind, id string) error {
	changes, err := s.ApplyStored(ctx, kind, id, false)
	Expect(changes).To(BeNil())
	return err
}

// upgraded upgrades the binding, and returns its OpenTofu versions before and after the upgrade.
func (s *site) upgraded(ctx context.Context) []string {
	GinkgoHelper()
	from, to, err := s.UpgradeStored(ctx, lifecycle.Binding, "b1")
	Expect(err).NotTo(HaveOccurred())
	return []string{from, to}
}

var _ = Describe("a change of a stored binding or instance", func() {
	It("saves an unsaved state of a workspace that the adapter did not name", func(ctx context.Context) {
		s := newSite()
		var about lifecycle.Entry
		s.Audit = func(_ context.Context, entry lifecycle.Entry, change func(func(lifecycle.Entry)) error) error {
			about = entry
			return change(func(lifecycle.Entry) {})
		}
		Expect(s.SaveUnsaved(ctx, "foreign")).To(Succeed())
		Expect(about.ID).To(Equal("foreign"))
	})

	It("no longer has a recorded failure after a successful apply", func(ctx context.Context) {
		s := newSite()
		record := s.record("")
		record.Failure = &lifecycle.Failure{Operator: "an errand failed"}
		s.block()
		s.create(ctx, record)
		stored, err := s.Lookup(ctx, lifecycle.Instance, "i1")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Failure).NotTo(BeNil())
		s.unblock()
		Expect(s.applyStored(ctx, lifecycle.Instance, "i1")).To(Succeed())
		stored, err = s.Lookup(ctx, lifecycle.Instance, "i1")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Condition).To(Equal(lifecycle.Complete))
		Expect(stored.Failure).To(BeNil())
		Expect(stored.Adapter).To(Equal(newAdapter))
	})

	conditionOf := func(ctx context.Context, s *site, kind lifecycle.Kind, id string) lifecycle.Condition {
		GinkgoHelper()
		stored, err := s.Lookup(ctx, kind, id)
		Expect(err).NotTo(HaveOccurred())
		return stored.Condition
	}

	It("fails with ErrNotStored if there is none", func(ctx context.Context) {
		s := newSite()
		Expect(s.DestroyStored(ctx, lifecycle.Instance, "i1")).To(MatchError(lifecycle.ErrNotStored))
		Expect(s.applyStored(ctx, lifecycle.Instance, "i1")).To(MatchError(lifecycle.ErrNotStored))
		_, err := s.Forget(ctx, lifecycle.Instance, "i1")
		Expect(err).To(MatchError(lifecycle.ErrNotStored))
		_, _, err = s.UpgradeStored(ctx, lifecycle.Instance, "i1")
		Expect(err).To(MatchError(lifecycle.ErrNotStored))
		Expect(s.Unlock(ctx, lifecycle.Instance, "i1", "")).To(Succeed())
		Expect(s.Workspaces(ctx, "")).To(BeEmpty())
	})

	It("destroys protected resources, and continues a failed destruction", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record(""))
		s.block()
		Expect(s.DestroyStored(ctx, lifecycle.Instance, "i1")).To(MatchError(ContainSubstring("terraform_data.late")))
		Expect(conditionOf(ctx, s, lifecycle.Instance, "i1")).To(Equal(lifecycle.Deleting))
		s.unblock()
		Expect(s.DestroyStored(ctx, lifecycle.Instance, "i1")).To(Succeed())
		Expect(s.Workspaces(ctx, "")).To(BeEmpty())
	})

	It("destroys only in the allowed conditions", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record("b1"))
		err := s.DestroyStored(ctx, lifecycle.Binding, "b1", lifecycle.Creating, lifecycle.Deleting)
		Expect(err).To(MatchError("its condition is now complete"))
		_, err = s.Forget(ctx, lifecycle.Binding, "b1", lifecycle.Creating)
		Expect(err).To(MatchError("its condition is now complete"))
		Expect(s.DestroyStored(ctx, lifecycle.Binding, "b1", lifecycle.Complete)).To(Succeed())
	})

	It("applies again after an interrupted destruction or creation", func(ctx context.Context) {
		s := newSite()
		s.block()
		s.create(ctx, s.record(""))
		Expect(s.applyStored(ctx, lifecycle.Instance, "i1")).To(MatchError(ContainSubstring("the way is blocked")))
		s.unblock()
		Expect(s.applyStored(ctx, lifecycle.Instance, "i1")).To(Succeed())
		Expect(conditionOf(ctx, s, lifecycle.Instance, "i1")).To(Equal(lifecycle.Complete))
		s.block()
		Expect(s.DestroyStored(ctx, lifecycle.Instance, "i1")).NotTo(Succeed())
		s.unblock()
		Expect(s.applyStored(ctx, lifecycle.Instance, "i1")).To(Succeed())
		stored, err := s.Lookup(ctx, lifecycle.Instance, "i1")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Condition).To(Equal(lifecycle.Complete))
		Expect(stored.Resources).To(HaveLen(2))
	})

	It("forgets a binding and returns the resources that remain", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record("b1"))
		s.block() // a destroy would fail
		dropped, err := s.Forget(ctx, lifecycle.Binding, "b1")
		Expect(err).NotTo(HaveOccurred())
		Expect(dropped.Resources).To(Equal([]string{"terraform_data.account", "terraform_data.late"}))
		Expect(s.Workspaces(ctx, "")).To(BeEmpty())
	})

	It("forgets a state without a record, which all other commands reject", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record("b1"))
		replaceIn(s.file("b-b1"), `\"format\":1`, `\"format\":99`)
		newer := MatchError(ContainSubstring("a newer adapter may have written it"))
		Expect(s.DestroyStored(ctx, lifecycle.Binding, "b1")).To(newer)
		Expect(s.applyStored(ctx, lifecycle.Binding, "b1")).To(newer)
		_, _, err := s.UpgradeStored(ctx, lifecycle.Binding, "b1")
		Expect(err).To(newer)
		_, err = s.Forget(ctx, lifecycle.Binding, "b1")
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Workspaces(ctx, "")).To(BeEmpty())
	})

	Describe("an upgrade", func() {
		BeforeEach(func() {
			kit.OpenTofu(GinkgoT(), oldTofu)
		})

		It("applies the recorded template along the upgrade path, and only once", func(ctx context.Context) {
			s := newSite(oldTofu)
			s.create(ctx, s.record("b1"))
			s.install(oldTofu, newTofu)
			stored, err := s.Lookup(ctx, lifecycle.Binding, "b1")
			Expect(err).NotTo(HaveOccurred())
			Expect(stored.Tofu).To(Equal(oldTofu))
			Expect(s.UpToDate(stored)).To(BeFalse())

			Expect(s.applyStored(ctx, lifecycle.Binding, "b1")).To(MatchError(ContainSubstring("upgrade it first")))
			Expect(s.upgraded(ctx)).To(Equal([]string{oldTofu, newTofu}))
			stored, err = s.Lookup(ctx, lifecycle.Binding, "b1")
			Expect(err).NotTo(HaveOccurred())
			Expect(stored.Tofu).To(Equal(newTofu))
			Expect(stored.Record.Tofu).To(Equal(newTofu))
			Expect(stored.Adapter).To(Equal(newAdapter))
			Expect(stored.Condition).To(Equal(lifecycle.Complete))
			Expect(stored.State.Outputs).To(HaveKeyWithValue("content", "planted-s3cret"))
			Expect(s.UpToDate(stored)).To(BeTrue())
			Expect(s.upgraded(ctx)).To(Equal([]string{newTofu, newTofu}))
		})

		It("uses the newest pak even if the recorded one is still installed", func(ctx context.Context) {
			s := newSite(oldTofu)
			s.create(ctx, s.record("b1"))
			old := s.Paks
			s.install(oldTofu, newTofu)
			s.Paks[0].Manifest.Version = "2.0.0"
			s.Paks = append(s.Paks, old...)
			Expect(s.upgraded(ctx)).To(Equal([]string{oldTofu, newTofu}))
		})

		It("can be repeated after a failure, which leaves the resources", func(ctx context.Context) {
			s := newSite(oldTofu)
			s.create(ctx, s.record("b1"))
			s.install(oldTofu, newTofu)
			s.block()
			_, _, err := s.UpgradeStored(ctx, lifecycle.Binding, "b1")
			Expect(err).To(MatchError(And(ContainSubstring("from OpenTofu 1.10.10 to 1.12.6"),
				ContainSubstring("the way is blocked"))))
			stored, err := s.Lookup(ctx, lifecycle.Binding, "b1")
			Expect(err).NotTo(HaveOccurred())
			Expect(stored.Condition).To(Equal(lifecycle.Changing))
			Expect(stored.Adapter).To(Equal(newAdapter), "it recorded the failure")
			s.unblock()
			_, _, err = s.UpgradeStored(ctx, lifecycle.Binding, "b1")
			Expect(err).NotTo(HaveOccurred())
			Expect(conditionOf(ctx, s, lifecycle.Binding, "b1")).To(Equal(lifecycle.Complete))
		})

		It("fails without an upgrade path, a finished creation or the pak", func(ctx context.Context) {
			s := newSite(oldTofu)
			s.create(ctx, s.record("b1"))
			s.block()
			s.create(ctx, s.record("b2"))
			s.install(newTofu)
			_, _, err := s.UpgradeStored(ctx, lifecycle.Binding, "b1")
			Expect(err).To(MatchError(ContainSubstring("no terraform_upgrade_path that leads to it")))
			s.install(oldTofu, newTofu)
			_, _, err = s.UpgradeStored(ctx, lifecycle.Binding, "b2")
			Expect(err).To(MatchError(ContainSubstring("it is creating: finish or delete it first")))
			s.Paks[0].Manifest.Name = "other"
			_, _, err = s.UpgradeStored(ctx, lifecycle.Binding, "b1")
			Expect(err).To(MatchError(ContainSubstring(`no installed pak is named "test"`)))
		})
	})
})
