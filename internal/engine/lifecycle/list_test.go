package lifecycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/record"
	"service-adapter/spec/kit"
)

var _ = Describe("the list", func() {
	// listed returns the only entry of the list.
	listed := func(ctx context.Context, s *site) lifecycle.Stored {
		GinkgoHelper()
		all, err := s.List(ctx, "", nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(all).To(HaveLen(1))
		return all[0]
	}

	It("contains the owner and the versions of a binding, and no secrets", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record("b1"))
		found := listed(ctx, s)
		Expect(found.UpdatedAt).To(MatchRegexp(`^20\d\d-.*Z$`))
		Expect(found.Entry).To(Equal(lifecycle.Entry{
			Identity: lifecycle.Identity{
				Workspace: "b-b1", Kind: lifecycle.Binding, ID: "b1", InstanceID: "i1",
				Deployment: "service-instance_i1", Service: "service", Plan: "small",
			},
			AppliedWith: lifecycle.AppliedWith{Pak: "test", PakVersion: "1.0.0", Tofu: newTofu},
			Adapter:     oldAdapter,
			Condition:   lifecycle.Complete,
			Times:       lifecycle.Times{UpdatedAt: found.UpdatedAt},
			Resources:   []string{"terraform_data.account", "terraform_data.late"},
		}))
		Expect(fmt.Sprintf("%+v", found)).NotTo(ContainSubstring("planted-s3cret"))
		stored, err := s.Lookup(ctx, lifecycle.Binding, "b1")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Entry).To(Equal(found.Entry))
		Expect(stored.State.Outputs).To(Equal(map[string]any{"content": "planted-s3cret"}))
		Expect(stored.Record.Inputs).To(HaveKeyWithValue("content", "planted-s3cret"))
	})

	It("has the JSON form that scripts of operators read", func() {
		entry := lifecycle.Entry{
			Identity: lifecycle.Identity{
				Workspace: "b-1", Kind: lifecycle.Binding, ID: "1", InstanceID: "i", Deployment: "d",
				Service: "s", Plan: "p",
			},
			AppliedWith: lifecycle.AppliedWith{Pak: "pak", PakVersion: "2", Tofu: "1.12.6"},
			Adapter:     "3",
			Condition:   lifecycle.Unreadable,
			Times:       lifecycle.Times{CreatedAt: "c", UpdatedAt: "u"},
			Owner:       record.Owner{App: "a", Organization: "o", Space: "sp"},
			Resources:   []string{"a.b"}, Failure: &lifecycle.Failure{User: "x", Operator: "y"}, Error: "e",
		}
		Expect(json.Marshal(entry)).To(BeEquivalentTo(`{"workspace":"b-1","kind":"binding","id":"1",` +
			`"instance_id":"i","deployment":"d","service":"s","plan":"p",` +
			`"pak":"pak","pak_version":"2","tofu_version":"1.12.6","adapter_version":"3",` +
			`"condition":"unreadable","created_at":"c","updated_at":"u","app_guid":"a","organization_guid":"o",` +
			`"space_guid":"sp","resources":["a.b"],"last_failure":{"user":"x","operator":"y"},"error":"e"}`))
		Expect(json.Marshal(lifecycle.Entry{})).To(BeEquivalentTo(`{"workspace":"","kind":"","id":"","condition":""}`))
	})

	It("distinguishes bindings, instances and foreign workspaces, and reports its progress", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record("b1"))
		s.create(ctx, s.record("an id with blanks"))
		s.create(ctx, s.record(""))
		Expect(os.MkdirAll(filepath.Join(s.state, "workspaces", "somebody-elses"), 0o700)).To(Succeed())
		ids := func(kind lifecycle.Kind) (ids []string) {
			GinkgoHelper()
			var told []string
			all, err := s.List(ctx, kind, func(done, total int) {
				told = append(told, fmt.Sprintf("%d/%d", done, total))
			})
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
			stored, err := s.Lookup(ctx, lifecycle.Binding, name)
			Expect(err).NotTo(HaveOccurred())
			Expect(stored.ID).To(Equal("an id with blanks"))
		}
		for _, binding := range []string{"b1", hash} {
			_, err := s.Lookup(ctx, lifecycle.Instance, binding)
			Expect(err).To(MatchError(lifecycle.ErrNotStored), binding)
		}
	})

	It("omits a workspace without content, and contains those after it", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record("b1"))
		Expect(os.MkdirAll(filepath.Dir(s.file("b-a")), 0o700)).To(Succeed())
		Expect(os.WriteFile(s.file("b-a"), []byte(`{"version":4,"terraform_version":"`+newTofu+
			`","serial":1,"lineage":"l","outputs":{},"resources":[]}`), 0o600)).To(Succeed())
		Expect(s.Workspaces(ctx, "")).To(Equal([]string{"b-a", "b-b1"}))
		Expect(listed(ctx, s).ID).To(Equal("b1"))
	})

	It("is empty if the backend is empty", func(ctx context.Context) {
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
		Entry("complete", lifecycle.Complete, func(ctx context.Context, s *site) { s.create(ctx, s.record("b1")) }),
		Entry("creating, when the creation failed", lifecycle.Creating, func(ctx context.Context, s *site) {
			s.block()
			s.create(ctx, s.record("b1"))
		}),
		Entry("changing, when a change failed", lifecycle.Changing, func(ctx context.Context, s *site) {
			s.create(ctx, s.record(""))
			s.block()
			next := s.record("")
			next.Inputs["content"] = "other"
			s.change(ctx, next)
		}),
		Entry("complete, when the failed change was repeated", lifecycle.Complete, func(ctx context.Context, s *site) {
			s.create(ctx, s.record(""))
			next := s.record("")
			next.Inputs["content"] = "other"
			s.block()
			s.change(ctx, next)
			s.unblock()
			s.change(ctx, next)
		}),
		Entry("importing, "+
			"when the apply after an import failed", lifecycle.Importing, func(ctx context.Context, s *site) {
			record := s.record("")
			record.Imported = map[string]string{"terraform_data.account": "outside"}
			s.work(ctx, record, func(
				space *workspace.Workspace, installation opentofu.Installation, prepared *templates.Prepared,
			) {
				encoded, err := record.Encode("1.2.3")
				Expect(err).NotTo(HaveOccurred())
				Expect(space.Reserve(ctx, installation, encoded)).To(Succeed())
				Expect(space.Import(ctx, prepared, record.Inputs, "terraform_data.account", "outside")).To(Succeed())
				s.block()
				s.apply(ctx, space, prepared, record)
			})
		}),
		Entry("deleting, when the deletion failed", lifecycle.Deleting, func(ctx context.Context, s *site) {
			s.create(ctx, s.record("b1"))
			s.block()
			Expect(s.DestroyStored(ctx, lifecycle.Binding, "b1")).NotTo(Succeed())
		}),
		Entry("unreadable, when the state is cut off", lifecycle.Unreadable, func(ctx context.Context, s *site) {
			s.create(ctx, s.record("b1"))
			Expect(os.Truncate(s.file("b-b1"), 100)).To(Succeed())
			Expect(os.Remove(s.file("b-b1") + ".backup")).To(Succeed())
		}),
		Entry("complete, "+
			"when only the copy of the state is whole", lifecycle.Complete, func(ctx context.Context, s *site) {
			s.create(ctx, s.record("b1"))
			Expect(os.Truncate(s.file("b-b1"), 100)).To(Succeed())
		}),
		Entry("unreadable, when the record was removed", lifecycle.Unreadable, func(ctx context.Context, s *site) {
			s.create(ctx, s.record("b1"))
			replaceIn(s.file("b-b1"), `"name": "_binding"`, `"name": "other"`)
		}),
		Entry("unreadable, "+
			"when a newer adapter wrote the record", lifecycle.Unreadable, func(ctx context.Context, s *site) {
			s.create(ctx, s.record("b1"))
			replaceIn(s.file("b-b1"), `\"format\":1`, `\"format\":99`)
		}),
	)
})

var _ = Describe("the outputs that a binding reads from an instance", func() {
	It("are those of the last complete apply, also while a change is unfinished", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record(""))
		applied, condition, err := s.AppliedOutputs(ctx, "i1")
		Expect(err).NotTo(HaveOccurred())
		Expect(condition).To(Equal(lifecycle.Complete))
		Expect(applied).To(Equal(map[string]any{"content": "planted-s3cret"}))

		next := s.record("")
		next.Inputs["content"], next.Outputs = "other", map[string]any{"content": "of the last complete apply"}
		s.block()
		s.change(ctx, next)
		outputs, condition, err := s.AppliedOutputs(ctx, "i1")
		Expect(err).NotTo(HaveOccurred())
		Expect(condition).To(Equal(lifecycle.Changing))
		Expect(outputs).To(Equal(next.Outputs))

		s.unblock()
		s.change(ctx, next)
		outputs, condition, err = s.AppliedOutputs(ctx, "i1")
		Expect(err).NotTo(HaveOccurred())
		Expect(condition).To(Equal(lifecycle.Complete))
		Expect(outputs).To(Equal(map[string]any{"content": "other"}))
	})
})

// BenchmarkList measures a list of 1,000 instances in the local backend.
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
	engine, err := workspace.New(workspace.Options{
		CacheDir: filepath.Join(b.TempDir(), "cache"), Backend: backend.Local(dir),
	})
	if err != nil {
		b.Fatal(err)
	}
	manager := &lifecycle.Manager{
		Engine: engine, Budget: time.Minute, Logger: slog.New(slog.DiscardHandler),
		Paks: []*brokerpak.Pak{openPak(b.TempDir(), newTofu)},
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
