package tofu_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/tofu"
	"service-adapter/spec/kit"
)

// reserved makes a site with a reservation, which its first machine made.
func reserved(ctx context.Context, kind string) (site, *tofu.Prepared, *tofu.Workspace) {
	GinkgoHelper()
	s := newSite()
	s.store = newStore(ctx, kind)
	engine := s.engine()
	prepared := prepare(ctx, engine, oneEntry)
	first := open(ctx, engine, "b-1")
	DeferCleanup(first.Close)
	Expect(first.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
	return s, prepared, first
}

var _ = Describe("a reservation that is taken over", func() {
	for _, kind := range []string{"local", "pg", "s3"} {
		It("is not applied by who made it, and by who took it: "+kind, kit.SlowIf(kind != "pg"), func(ctx context.Context) {
			s, prepared, first := reserved(ctx, kind)

			second := open(ctx, s.machine(), "b-1")
			DeferCleanup(second.Close)
			_, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(second.TakeOver(ctx, installation())).To(Succeed())
			Expect(first.Apply(ctx, prepared, s.vars())).To(MatchError(tofu.ErrExists))
			Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
			Expect(second.Apply(ctx, prepared, s.vars())).To(Succeed())
			state, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(state.Complete).To(BeTrue())
			Expect(string(state.Record)).To(Equal("record"))
		})

		It("made by another run after all was removed gives no outputs: "+kind, kit.SlowIf(kind != "pg"), func(ctx context.Context) {
			s, prepared, first := reserved(ctx, kind)
			Expect(first.Apply(ctx, prepared, s.vars())).To(Succeed())

			second := open(ctx, s.machine(), "b-1")
			DeferCleanup(second.Close)
			_, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(second.Destroy(ctx, prepared, s.vars())).To(Succeed())
			Expect(second.Remove(ctx, installation())).To(Succeed())
			Expect(second.Reserve(ctx, installation(), []byte("other"))).To(Succeed())

			_, err = first.Outputs(ctx, prepared)
			Expect(err).To(MatchError(tofu.ErrExists))
			Expect(first.TakeOver(ctx, installation())).NotTo(Succeed(), "it is the second one's")
			Expect(second.Apply(ctx, prepared, s.vars())).To(Succeed())
		})

		It("is not destroyed and not removed by who made it: "+kind, kit.SlowIf(kind != "pg"), func(ctx context.Context) {
			s, prepared, first := reserved(ctx, kind)
			Expect(first.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(first.Destroy(ctx, prepared, s.vars())).To(Succeed())

			second := open(ctx, s.machine(), "b-1")
			DeferCleanup(second.Close)
			_, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(second.TakeOver(ctx, installation())).To(Succeed())
			Expect(first.Remove(ctx, installation())).To(MatchError(tofu.ErrExists), "only the guard is there")
			Expect(second.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(first.Remove(ctx, installation())).To(MatchError(tofu.ErrExists))
			Expect(first.Destroy(ctx, prepared, s.vars())).To(MatchError(tofu.ErrExists))
			Expect(filepath.Join(s.entries, "account")).To(BeARegularFile())
			state, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(state.Complete).To(BeTrue())
			Expect(second.Destroy(ctx, prepared, s.vars())).To(Succeed())
			Expect(second.Remove(ctx, installation())).To(Succeed())
		})

		It("stays whose it is when that one was faster: "+kind, kit.SlowIf(kind != "pg"), func(ctx context.Context) {
			s, prepared, first := reserved(ctx, kind)
			second := open(ctx, s.machine(), "b-1")
			DeferCleanup(second.Close)
			_, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(first.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(second.TakeOver(ctx, installation())).To(MatchError(tofu.ErrExists))
			state, err := first.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(state.Complete).To(BeTrue())
		})
	}
})

var _ = Describe("a state that was not written to its end", func() {
	It("in the local backend is what it was before the last change", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		file := filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate")
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file+".backup", text, 0o600)).To(Succeed())
		Expect(os.WriteFile(file, text[:len(text)/2], 0o600)).To(Succeed())
		state, err := workspace.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("record"))
		Expect(os.ReadFile(file)).To(Equal(text))
	})

	It("is dropped where the backend has an older one", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
		Expect(os.MkdirAll(filepath.Dir(unsaved), 0o700)).To(Succeed())
		Expect(os.WriteFile(unsaved, nil, 0o600)).To(Succeed())
		state, err := workspace.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("record"))
		Expect(unsaved).NotTo(BeAnExistingFile())
	})

	It("is an error of the run when a provider dies in the middle of a change", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		prepared := prepare(ctx, engine, oneEntry)
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.hold("after-create")
		applied := make(chan error)
		go func() { applied <- workspace.Apply(ctx, prepared, s.vars()) }()
		kill(s.at("after-create"))
		s.release("after-create")
		var err error
		Eventually(applied).Should(Receive(&err))
		var failure *opentofu.Error
		Expect(errors.As(err, &failure)).To(BeTrue())
		Expect(failure.ProviderDied).To(BeTrue())
		Expect(failure.ExitCode).To(Equal(1))
	})
})
