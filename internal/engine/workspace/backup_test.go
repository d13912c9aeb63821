package workspace_test

import (
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/workspace"
)

var _ = Describe("the backup of a local state", func() {
	It("is the state before the last run, even if that was killed while it wrote", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		s.createB1(ctx, engine)
		space := open(ctx, engine, "b-1")
		_, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(space.Apply(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
		Expect(space.Close()).To(Succeed())
		for _, damagedState := range []string{"", `{"version": 4, "ser`} {
			Expect(os.WriteFile(s.statePath(), []byte(damagedState), 0o600)).To(Succeed())
			state, err := readB1(ctx, engine)
			Expect(err).NotTo(HaveOccurred())
			Expect(state).NotTo(BeNil())
			Expect(state.Complete).To(BeTrue())
			Expect(state.Resources).To(ContainElement("directory_entry.account"))
		}
	})

	It("is restored by a run that reserves the same workspace", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		s.createB1(ctx, engine)
		Expect(os.Rename(s.statePath(), s.statePath()+".backup")).To(Succeed())
		Expect(os.WriteFile(s.statePath(), nil, 0o600)).To(Succeed())
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("other"))).To(MatchError(workspace.ErrExists))
	})
})
