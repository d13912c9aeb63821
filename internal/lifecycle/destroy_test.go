package lifecycle_test

import (
	"context"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/tofu"
)

var _ = Describe("rolling back", func() {
	// beside makes something, lets another machine do its work, and rolls back.
	beside := func(ctx context.Context, s *site, other func(space *tofu.Workspace, installation opentofu.Installation) error) {
		GinkgoHelper()
		record := s.record("b1")
		s.work(ctx, record, func(space *tofu.Workspace, installation opentofu.Installation, prepared *tofu.Prepared) {
			encoded, err := record.Encode()
			Expect(err).NotTo(HaveOccurred())
			Expect(space.Reserve(ctx, installation, encoded)).To(Succeed())
			s.apply(ctx, space, prepared, record)
			machine, err := tofu.New(tofu.Options{CacheDir: filepath.Join(GinkgoT().TempDir(), "cache"), Backend: tofu.Local(s.state)})
			Expect(err).NotTo(HaveOccurred())
			theirs, err := machine.Open(ctx, "b-b1")
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(theirs.Close)
			Expect(other(theirs, installation)).To(Succeed())
			s.RollBack(ctx, space, installation, prepared, record)
		})
	}

	It("destroys what is ours", func(ctx context.Context) {
		s := newSite()
		beside(ctx, s, func(*tofu.Workspace, opentofu.Installation) error { return nil })
		Expect(s.Workspaces(ctx, "")).To(BeEmpty())
	})

	It("touches nothing that somebody took over", func(ctx context.Context) {
		s := newSite()
		beside(ctx, s, func(space *tofu.Workspace, installation opentofu.Installation) error {
			if _, err := space.State(ctx, installation); err != nil {
				return err
			}
			return space.TakeOver(ctx, installation)
		})
		stored, err := s.Read(ctx, lifecycle.Binding, "b1")
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Condition).To(Equal(lifecycle.Complete))
		Expect(stored.Resources).To(HaveLen(2))
		Expect(s.logs.String()).To(ContainSubstring("another run took over"))
	})
})
