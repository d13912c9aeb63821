package tofu_test

import (
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/tofu"
)

var _ = Describe("the backup of a local state", func() {
	It("is the state before the last run, even if that changed nothing and was killed while it wrote", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		s.create(ctx, engine)
		workspace := open(ctx, engine, "b-1")
		_, err := workspace.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(workspace.Apply(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
		for _, left := range []string{"", `{"version": 4, "ser`} {
			Expect(os.WriteFile(s.stored(), []byte(left), 0o600)).To(Succeed())
			state, err := look(ctx, engine)
			Expect(err).NotTo(HaveOccurred())
			Expect(state).NotTo(BeNil())
			Expect(state.Complete).To(BeTrue())
			Expect(state.Resources).To(ContainElement("directory_entry.account"))
		}
	})

	It("is put back by who reserves the same workspace", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		s.create(ctx, engine)
		Expect(os.Rename(s.stored(), s.stored()+".backup")).To(Succeed())
		Expect(os.WriteFile(s.stored(), nil, 0o600)).To(Succeed())
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("other"))).To(MatchError(tofu.ErrExists))
	})
})
