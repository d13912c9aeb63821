package lifecycle_test

import (
	"context"
	"os"
	"strings"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/lifecycle"
)

// replaced replaces a text that must be there.
func replaced(text, old, with string) string {
	GinkgoHelper()
	Expect(text).To(ContainSubstring(old))
	return strings.ReplaceAll(text, old, with)
}

// storedState is that of an instance with one resource.
const storedState = `{"version":4,"terraform_version":"1.12.6","serial":3,"lineage":"l","outputs":{},"resources":[
{"mode":"managed","type":"terraform_data","name":"_binding","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"attributes":{
"input":{"value":{"record":"{\"format\":1,\"instance_id\":\"i1\",\"deployment\":\"service-instance_i1\",\"pak\":\"test\",\"pak_version\":\"1.0.0\",\"service\":\"service\",\"service_id\":\"s\",\"tofu_version\":\"1.12.6\",\"templates\":{\"main.tf\":\"\"},\"inputs\":{}}","tofu":"1.12.6"},"type":["object",{"record":"string","tofu":"string"}]},
"triggers_replace":{"value":"nonce","type":"string"}}}]},
{"mode":"managed","type":"terraform_data","name":"account","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"attributes":{"input":{"value":"x","type":"string"}}}]}]}`

// applyStored applies what is stored, and is not told what that changed.
func (s *site) applyStored(ctx context.Context, kind lifecycle.Kind, id string) error {
	changes, err := s.ApplyStored(ctx, kind, id, false)
	Expect(changes).To(BeNil())
	return err
}

// upgraded are the versions of OpenTofu before and after an upgrade.
func (s *site) upgraded(ctx context.Context) []string {
	GinkgoHelper()
	from, to, err := s.UpgradeStored(ctx, lifecycle.Binding, "b1")
	Expect(err).NotTo(HaveOccurred())
	return []string{from, to}
}

var _ = Describe("working on what is stored", func() {
	It("saves what was left in a workspace that somebody else named", func(ctx context.Context) {
		s := newSite()
		var about lifecycle.Entry
		s.Audit = func(_ context.Context, entry lifecycle.Entry, change func(func(lifecycle.Entry)) error) error {
			about = entry
			return change(func(lifecycle.Entry) {})
		}
		Expect(s.Save(ctx, "foreign")).To(Succeed())
		Expect(about.ID).To(Equal("foreign"))
	})

	conditionOf := func(ctx context.Context, s *site, kind lifecycle.Kind, id string) lifecycle.Condition {
		GinkgoHelper()
		stored, err := s.Read(ctx, kind, id)
		Expect(err).NotTo(HaveOccurred())
		return stored.Condition
	}

	It("says that there is none", func(ctx context.Context) {
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

	It("destroys what is protected, and takes up a destruction that failed", func(ctx context.Context) {
		s := newSite()
		s.made(ctx, s.record(""))
		s.block()
		Expect(s.DestroyStored(ctx, lifecycle.Instance, "i1")).To(MatchError(ContainSubstring("terraform_data.late")))
		Expect(conditionOf(ctx, s, lifecycle.Instance, "i1")).To(Equal(lifecycle.Deleting))
		s.unblock()
		Expect(s.DestroyStored(ctx, lifecycle.Instance, "i1")).To(Succeed())
		Expect(s.Workspaces(ctx, "")).To(BeEmpty())
	})

	It("destroys only in the conditions that are meant", func(ctx context.Context) {
		s := newSite()
		s.made(ctx, s.record("b1"))
		Expect(s.DestroyStored(ctx, lifecycle.Binding, "b1", lifecycle.Creating, lifecycle.Deleting)).To(MatchError("it is complete by now"))
		_, err := s.Forget(ctx, lifecycle.Binding, "b1", lifecycle.Creating)
		Expect(err).To(MatchError("it is complete by now"))
		Expect(s.DestroyStored(ctx, lifecycle.Binding, "b1", lifecycle.Complete)).To(Succeed())
	})

	It("applies again: an interrupted destruction is taken back, an interrupted creation is finished", func(ctx context.Context) {
		s := newSite()
		s.block()
		s.made(ctx, s.record(""))
		Expect(s.applyStored(ctx, lifecycle.Instance, "i1")).To(MatchError(ContainSubstring("the way is blocked")))
		s.unblock()
		Expect(s.applyStored(ctx, lifecycle.Instance, "i1")).To(Succeed())
		Expect(conditionOf(ctx, s, lifecycle.Instance, "i1")).To(Equal(lifecycle.Complete))
		s.block()
		Expect(s.DestroyStored(ctx, lifecycle.Instance, "i1")).NotTo(Succeed())
		s.unblock()
		Expect(s.applyStored(ctx, lifecycle.Instance, "i1")).To(Succeed())
		stored, err := s.Read(ctx, lifecycle.Instance, "i1")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Condition).To(Equal(lifecycle.Complete))
		Expect(stored.Resources).To(HaveLen(2))
	})

	It("forgets, and says what it lets exist", func(ctx context.Context) {
		s := newSite()
		s.made(ctx, s.record("b1"))
		s.block() // a destroy would fail
		dropped, err := s.Forget(ctx, lifecycle.Binding, "b1")
		Expect(err).NotTo(HaveOccurred())
		Expect(dropped.Resources).To(Equal([]string{"terraform_data.account", "terraform_data.late"}))
		Expect(s.Workspaces(ctx, "")).To(BeEmpty())
	})

	It("forgets also what has no record, which nothing else works on", func(ctx context.Context) {
		s := newSite()
		s.made(ctx, s.record("b1"))
		text, err := os.ReadFile(s.file("b-b1"))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(s.file("b-b1"), []byte(replaced(string(text), `\"format\":1`, `\"format\":99`)), 0o600)).To(Succeed())
		newer := MatchError(ContainSubstring("was it made by a newer adapter?"))
		Expect(s.DestroyStored(ctx, lifecycle.Binding, "b1")).To(newer)
		Expect(s.applyStored(ctx, lifecycle.Binding, "b1")).To(newer)
		_, _, err = s.UpgradeStored(ctx, lifecycle.Binding, "b1")
		Expect(err).To(newer)
		_, err = s.Forget(ctx, lifecycle.Binding, "b1")
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Workspaces(ctx, "")).To(BeEmpty())
	})

	Describe("an upgrade", func() {
		BeforeEach(func() {
			kit.OpenTofu(GinkgoT(), oldTofu)
		})

		It("walks the pak's path with the recorded template, once", func(ctx context.Context) {
			s := newSite(oldTofu)
			s.made(ctx, s.record("b1"))
			s.install(oldTofu, newTofu)
			stored, err := s.Read(ctx, lifecycle.Binding, "b1")
			Expect(err).NotTo(HaveOccurred())
			Expect(stored.Tofu).To(Equal(oldTofu))
			Expect(s.Current(stored)).To(BeFalse())

			Expect(s.applyStored(ctx, lifecycle.Binding, "b1")).To(MatchError(ContainSubstring("upgrade it first")))
			Expect(s.upgraded(ctx)).To(Equal([]string{oldTofu, newTofu}))
			stored, err = s.Read(ctx, lifecycle.Binding, "b1")
			Expect(err).NotTo(HaveOccurred())
			Expect(stored.Tofu).To(Equal(newTofu))
			Expect(stored.Record.Tofu).To(Equal(newTofu))
			Expect(stored.Condition).To(Equal(lifecycle.Complete))
			Expect(stored.State.Outputs).To(HaveKeyWithValue("content", "planted-s3cret"))
			Expect(s.Current(stored)).To(BeTrue())
			Expect(s.upgraded(ctx)).To(Equal([]string{newTofu, newTofu}))
		})

		It("goes to the newest pak, also where the old one is kept", func(ctx context.Context) {
			s := newSite(oldTofu)
			s.made(ctx, s.record("b1"))
			old := s.Paks
			s.install(oldTofu, newTofu)
			s.Paks[0].Manifest.Version = "2.0.0"
			s.Paks = append(s.Paks, old...)
			Expect(s.upgraded(ctx)).To(Equal([]string{oldTofu, newTofu}))
		})

		It("that failed is repeated, and leaves what was made", func(ctx context.Context) {
			s := newSite(oldTofu)
			s.made(ctx, s.record("b1"))
			s.install(oldTofu, newTofu)
			s.block()
			_, _, err := s.UpgradeStored(ctx, lifecycle.Binding, "b1")
			Expect(err).To(MatchError(And(ContainSubstring("from OpenTofu 1.10.10 to 1.12.6"), ContainSubstring("the way is blocked"))))
			Expect(conditionOf(ctx, s, lifecycle.Binding, "b1")).To(Equal(lifecycle.Changing))
			s.unblock()
			_, _, err = s.UpgradeStored(ctx, lifecycle.Binding, "b1")
			Expect(err).NotTo(HaveOccurred())
			Expect(conditionOf(ctx, s, lifecycle.Binding, "b1")).To(Equal(lifecycle.Complete))
		})

		It("needs a path, a finished creation and the pak", func(ctx context.Context) {
			s := newSite(oldTofu)
			s.made(ctx, s.record("b1"))
			s.block()
			s.made(ctx, s.record("b2"))
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
