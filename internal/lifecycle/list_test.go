package lifecycle_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/tofu"
)

var _ = Describe("the list", func() {
	// listed is the only entry.
	listed := func(ctx context.Context, s *site) lifecycle.Stored {
		GinkgoHelper()
		all, err := s.List(ctx, "", nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(HaveLen(1))
		return all[0]
	}

	It("tells whose a binding is and what made it, and holds no secrets", func(ctx context.Context) {
		s := newSite()
		s.made(ctx, s.record("b1"))
		found := listed(ctx, s)
		Expect(found.UpdatedAt).To(MatchRegexp(`^20\d\d-.*Z$`))
		Expect(found.Entry).To(Equal(lifecycle.Entry{
			Workspace: "b-b1", Kind: lifecycle.Binding, ID: "b1", InstanceID: "i1", Deployment: "service-instance_i1", Service: "service",
			Plan: "small", Pak: "test", PakVersion: "1.0.0", Tofu: newTofu, Condition: lifecycle.Complete,
			Resources: []string{"terraform_data.account", "terraform_data.late"}, UpdatedAt: found.UpdatedAt,
		}))
		Expect(fmt.Sprintf("%+v", found)).NotTo(ContainSubstring("planted-s3cret"))
		stored, err := s.Read(ctx, lifecycle.Binding, "b1")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Entry).To(Equal(found.Entry))
		Expect(stored.State.Outputs).To(Equal(map[string]any{"content": "planted-s3cret"}))
		Expect(stored.Record.Inputs).To(HaveKeyWithValue("content", "planted-s3cret"))
	})

	It("knows bindings from instances and from what others keep there, and tells how far it has got", func(ctx context.Context) {
		s := newSite()
		s.made(ctx, s.record("b1"))
		s.made(ctx, s.record("an id with blanks"))
		s.made(ctx, s.record(""))
		Expect(os.MkdirAll(filepath.Join(s.state, "workspaces", "somebody-elses"), 0o700)).To(Succeed())
		ids := func(kind lifecycle.Kind) (ids []string) {
			GinkgoHelper()
			var told []string
			all, err := s.List(ctx, kind, func(done, total int) { told = append(told, fmt.Sprintf("%d/%d", done, total)) })
			Expect(err).NotTo(HaveOccurred())
			for i, stored := range all {
				ids = append(ids, string(stored.Kind)+" "+stored.ID)
				Expect(told[i]).To(Equal(fmt.Sprintf("%d/%d", i+1, len(all))))
			}
			return ids
		}
		Expect(ids(lifecycle.Binding)).To(Equal([]string{"binding b1", "binding an id with blanks"}))
		Expect(ids(lifecycle.Instance)).To(Equal([]string{"instance i1"}))
		Expect(ids("")).To(HaveLen(3))
		Expect(s.Workspaces(ctx, "")).To(HaveLen(3))

		hash := lifecycle.Workspace(lifecycle.Binding, "an id with blanks")
		for _, name := range []string{"an id with blanks", hash} {
			stored, err := s.Read(ctx, lifecycle.Binding, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(stored.ID).To(Equal("an id with blanks"))
		}
		for _, binding := range []string{"b1", hash} {
			_, err := s.Read(ctx, lifecycle.Instance, binding)
			Expect(err).To(MatchError(lifecycle.ErrNotStored), binding)
		}
	})

	It("is empty where nothing is", func(ctx context.Context) {
		s := newSite()
		Expect(s.List(ctx, "", nil)).To(BeEmpty())
		Expect(s.DestroyStored(ctx, lifecycle.Binding, "b1")).To(MatchError(lifecycle.ErrNotStored))
		Expect(s.Workspaces(ctx, "")).To(BeEmpty(), "a look leaves nothing")
	})

	DescribeTable("has the condition",
		func(ctx context.Context, wanted lifecycle.Condition, produce func(context.Context, *site)) {
			s := newSite()
			produce(ctx, s)
			found := listed(ctx, s)
			Expect(found.Condition).To(Equal(wanted), found.Error)
			Expect(found.Error == "").To(Equal(wanted != lifecycle.Unreadable))
		},
		Entry("complete", lifecycle.Complete, func(ctx context.Context, s *site) { s.made(ctx, s.record("b1")) }),
		Entry("creating, when the creation failed", lifecycle.Creating, func(ctx context.Context, s *site) {
			s.block()
			s.made(ctx, s.record("b1"))
		}),
		Entry("changing, when a change failed", lifecycle.Changing, func(ctx context.Context, s *site) {
			s.made(ctx, s.record(""))
			s.block()
			next := s.record("")
			next.Inputs["content"] = "other"
			s.changed(ctx, next)
		}),
		Entry("complete again, when the change was repeated", lifecycle.Complete, func(ctx context.Context, s *site) {
			s.made(ctx, s.record(""))
			next := s.record("")
			next.Inputs["content"] = "other"
			s.block()
			s.changed(ctx, next)
			s.unblock()
			s.changed(ctx, next)
		}),
		Entry("importing, when the apply after an import failed", lifecycle.Importing, func(ctx context.Context, s *site) {
			record := s.record("")
			record.Imported = map[string]string{"terraform_data.account": "outside"}
			s.work(ctx, record, func(space *tofu.Workspace, installation opentofu.Installation, prepared *tofu.Prepared) {
				encoded, err := record.Encode()
				Expect(err).NotTo(HaveOccurred())
				Expect(space.Reserve(ctx, installation, encoded)).To(Succeed())
				Expect(space.Import(ctx, prepared, record.Inputs, "terraform_data.account", "outside")).To(Succeed())
				s.block()
				s.apply(ctx, space, prepared, record)
			})
		}),
		Entry("deleting, when the deletion failed", lifecycle.Deleting, func(ctx context.Context, s *site) {
			s.made(ctx, s.record("b1"))
			s.block()
			Expect(s.DestroyStored(ctx, lifecycle.Binding, "b1")).NotTo(Succeed())
		}),
		Entry("unreadable, when the state is cut off", lifecycle.Unreadable, func(ctx context.Context, s *site) {
			s.made(ctx, s.record("b1"))
			Expect(os.Truncate(s.file("b-b1"), 100)).To(Succeed())
			Expect(os.Remove(s.file("b-b1") + ".backup")).To(Succeed())
		}),
		Entry("complete, when the state is cut off and its copy is not", lifecycle.Complete, func(ctx context.Context, s *site) {
			s.made(ctx, s.record("b1"))
			Expect(os.Truncate(s.file("b-b1"), 100)).To(Succeed())
		}),
		Entry("unreadable, when the record is gone", lifecycle.Unreadable, func(ctx context.Context, s *site) {
			s.made(ctx, s.record("b1"))
			text, err := os.ReadFile(s.file("b-b1"))
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(s.file("b-b1"), []byte(replaced(string(text), `"name": "_binding"`, `"name": "other"`)), 0o600)).To(Succeed())
		}),
		Entry("unreadable, when a newer adapter made it", lifecycle.Unreadable, func(ctx context.Context, s *site) {
			s.made(ctx, s.record("b1"))
			text, err := os.ReadFile(s.file("b-b1"))
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(s.file("b-b1"), []byte(replaced(string(text), `\"format\":1`, `\"format\":99`)), 0o600)).To(Succeed())
		}),
	)
})

// BenchmarkList lists 1,000 instances of the local backend.
func BenchmarkList(b *testing.B) {
	const count = 1000
	dir := b.TempDir()
	for i := range count {
		workspace := filepath.Join(dir, "workspaces", fmt.Sprintf("i-%04d", i))
		if err := os.MkdirAll(workspace, 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(workspace, "terraform.tfstate"), []byte(storedState), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	engine, err := tofu.New(tofu.Options{CacheDir: filepath.Join(b.TempDir(), "cache"), Backend: tofu.Local(dir)})
	if err != nil {
		b.Fatal(err)
	}
	manager := &lifecycle.Manager{
		Engine: engine, Budget: time.Minute, Logger: slog.New(slog.DiscardHandler), Paks: []*brokerpak.Pak{openPak(b.TempDir(), newTofu)},
		Installation: func(context.Context, *brokerpak.Pak, string) (opentofu.Installation, error) {
			return opentofu.Installation{Binary: kit.OpenTofuPath(newTofu), Version: newTofu}, nil
		},
	}
	for b.Loop() {
		all, err := manager.List(b.Context(), lifecycle.Instance, nil)
		if err != nil || len(all) != count || all[0].Error != "" {
			b.Fatal(len(all), err, all[0].Error)
		}
	}
}
