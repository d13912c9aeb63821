package workspace_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/spec/kit"
)

// reservedSite returns a site with a workspace that the first machine has reserved.
func reservedSite(ctx context.Context, kind string) (site, *templates.Prepared, *workspace.Workspace) {
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
		It("is not applied by its first owner but by the new one: "+
			kind, kit.SlowIf(kind != "pg"), func(ctx context.Context) {
			s, prepared, first := reservedSite(ctx, kind)

			second := open(ctx, s.machine(), "b-1")
			DeferCleanup(second.Close)
			_, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(second.TakeOver(ctx, installation())).To(Succeed())
			Expect(first.Apply(ctx, prepared, s.vars())).To(MatchError(workspace.ErrTakenOver))
			Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
			Expect(second.Apply(ctx, prepared, s.vars())).To(Succeed())
			state, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(state.Complete).To(BeTrue())
			Expect(string(state.Record)).To(Equal("record"))
		})

		It("is not applied if all was removed and another run reserved it: "+
			kind, kit.SlowIf(kind != "pg"), func(ctx context.Context) {
			s, prepared, first := reservedSite(ctx, kind)
			Expect(first.Apply(ctx, prepared, s.vars())).To(Succeed())

			second := open(ctx, s.machine(), "b-1")
			DeferCleanup(second.Close)
			_, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(second.Destroy(ctx, prepared, s.vars())).To(Succeed())
			Expect(second.Remove(ctx, installation())).To(Succeed())
			Expect(second.Reserve(ctx, installation(), []byte("other"))).To(Succeed())

			var lost *workspace.LostError
			Expect(errors.As(first.Apply(ctx, prepared, s.vars()), &lost)).To(BeTrue())
			Expect(lost.Resources).To(Equal([]string{"directory_entry.account"}),
				"this run cannot know that it was destroyed")
			Expect(first.TakeOver(ctx, installation())).NotTo(Succeed(), "it is the second one's")
			Expect(second.Apply(ctx, prepared, s.vars())).To(Succeed())
		})

		It("is not destroyed and not removed by its first owner: "+
			kind, kit.SlowIf(kind != "pg"), func(ctx context.Context) {
			s, prepared, first := reservedSite(ctx, kind)
			Expect(first.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(first.Destroy(ctx, prepared, s.vars())).To(Succeed())

			second := open(ctx, s.machine(), "b-1")
			DeferCleanup(second.Close)
			_, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(second.TakeOver(ctx, installation())).To(Succeed())
			Expect(first.Remove(ctx, installation())).To(MatchError(workspace.ErrTakenOver), "only the guard is there")
			Expect(second.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(first.Remove(ctx, installation())).To(MatchError(workspace.ErrTakenOver))
			Expect(first.Destroy(ctx, prepared, s.vars())).To(MatchError(workspace.ErrTakenOver))
			Expect(filepath.Join(s.entries, "account")).To(BeARegularFile())
			state, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(state.Complete).To(BeTrue())
			Expect(second.Destroy(ctx, prepared, s.vars())).To(Succeed())
			Expect(second.Remove(ctx, installation())).To(Succeed())
		})

		It("stays with its owner if that changed the state first: "+
			kind, kit.SlowIf(kind != "pg"), func(ctx context.Context) {
			s, prepared, first := reservedSite(ctx, kind)
			second := open(ctx, s.machine(), "b-1")
			DeferCleanup(second.Close)
			_, err := second.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(first.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(second.TakeOver(ctx, installation())).To(MatchError(workspace.ErrTakenOver))
			state, err := first.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(state.Complete).To(BeTrue())
		})
	}
})

var _ = Describe("a state that was not completely written", func() {
	It("in the local backend is replaced by the state before the last change", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		file := filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate")
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file+".backup", text, 0o600)).To(Succeed())
		Expect(os.WriteFile(file, text[:len(text)/2], 0o600)).To(Succeed())
		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("record"))
		Expect(os.ReadFile(file)).To(Equal(text))
	})

	It("is not moved if it cannot be made private", func(ctx context.Context) {
		s := newSite()
		space := open(ctx, s.engine(), "b-1")
		DeferCleanup(space.Close)
		unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
		Expect(os.MkdirAll(filepath.Dir(unsaved), 0o700)).To(Succeed())
		// The kernel does not allow any user to change the mode of this file.
		Expect(os.Symlink("/proc/self/status", unsaved)).To(Succeed())
		_, err := space.State(ctx, installation())
		Expect(err).To(MatchError(ContainSubstring(unsaved)))
		Expect(os.Readlink(unsaved)).To(Equal("/proc/self/status"))
		Expect(filepath.Glob(filepath.Join(s.cache, "incomplete-*"))).To(BeEmpty())
	})

	DescribeTable("is set aside if the backend has an older one",
		func(ctx context.Context, text string) {
			s := newSite()
			var log lockedBuffer
			options := s.options()
			options.Logger = slog.New(slog.NewTextHandler(&log, nil))
			engine, err := workspace.New(options)
			Expect(err).NotTo(HaveOccurred())
			space := open(ctx, engine, "b-1")
			DeferCleanup(space.Close)
			Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
			unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
			Expect(os.MkdirAll(filepath.Dir(unsaved), 0o700)).To(Succeed())
			Expect(os.WriteFile(unsaved, []byte(text), 0o644)).To(Succeed())
			state, err := space.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(string(state.Record)).To(Equal("record"))
			Expect(unsaved).NotTo(BeAnExistingFile())
			kept, err := filepath.Glob(filepath.Join(s.cache, "incomplete-b-1-*.tfstate"))
			Expect(err).NotTo(HaveOccurred())
			Expect(kept).To(HaveLen(1))
			Expect(os.ReadFile(kept[0])).To(BeEquivalentTo(text))
			info, err := os.Stat(kept[0])
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
			Expect(log.String()).To(And(ContainSubstring("level=WARN"), ContainSubstring(kept[0])))
		},
		Entry("when it is empty", ""),
		Entry("when it is cut off", `{"version": 4, "resources": [{"name": "account", "inst`),
	)

	It("is an error of the run when a provider dies in the middle of a change", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		prepared := prepare(ctx, engine, oneEntry)
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.blockProvider("after-create")
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
		kill(s.waitForProvider("after-create"))
		s.releaseProvider("after-create")
		var err error
		Eventually(applied).Should(Receive(&err))
		var failure *opentofu.Error
		Expect(errors.As(err, &failure)).To(BeTrue())
		Expect(failure.ProviderDied).To(BeTrue())
		Expect(failure.ExitCode).To(Equal(1))
	})
})
