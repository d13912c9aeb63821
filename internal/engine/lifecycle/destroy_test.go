package lifecycle_test

import (
	"context"
	"errors"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

var _ = Describe("a rollback", func() {
	// rollBackAfter creates a binding, calls other with the workspace as another machine opens it, and rolls back.
	rollBackAfter := func(
		ctx context.Context, s *site, other func(space *workspace.Workspace, installation opentofu.Installation) error,
	) {
		GinkgoHelper()
		record := s.record("b1")
		s.work(ctx, record, func(
			space *workspace.Workspace, installation opentofu.Installation, prepared *templates.Prepared,
		) {
			encoded, err := record.Encode("1.2.3")
			Expect(err).NotTo(HaveOccurred())
			Expect(space.Reserve(ctx, installation, encoded)).To(Succeed())
			s.apply(ctx, space, prepared, record)
			machine, err := workspace.New(workspace.Options{
				CacheDir: filepath.Join(GinkgoT().TempDir(), "cache"), Backend: backend.Local(s.state),
			})
			Expect(err).NotTo(HaveOccurred())
			theirs, err := machine.Open(ctx, "b-b1")
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(theirs.Close)
			Expect(other(theirs, installation)).To(Succeed())
			Expect(s.RollBack(ctx, space, prepared, record, errors.New("it failed"))).To(Succeed())
		})
	}

	It("destroys the resources of its own creation", func(ctx context.Context) {
		s := newSite()
		rollBackAfter(ctx, s, func(*workspace.Workspace, opentofu.Installation) error { return nil })
		Expect(s.Workspaces(ctx, "")).To(BeEmpty())
	})

	It("leaves the resources alone if another run took over the workspace", func(ctx context.Context) {
		s := newSite()
		rollBackAfter(ctx, s, func(space *workspace.Workspace, installation opentofu.Installation) error {
			if _, err := space.State(ctx, installation); err != nil {
				return err
			}
			return space.TakeOver(ctx, installation)
		})
		stored, err := s.Lookup(ctx, lifecycle.Binding, "b1")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Condition).To(Equal(lifecycle.Complete))
		Expect(stored.Resources).To(HaveLen(2))
		Expect(s.logs.String()).To(ContainSubstring("another run took over"))
	})
})
