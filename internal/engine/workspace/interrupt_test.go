package workspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// scenarioVariable makes the test binary an adapter process that a spec can kill. Its value is the directory of the
// site.
const scenarioVariable = "TOFU_TEST_ADAPTER"

// The files of a site with which a spec makes an adapter process wait before it applies, and with which the process
// reports that it waits.
const (
	pauseFile  = "pause"
	pausedFile = "paused"
)

// adapterProcess reserves and applies the workspace b-1 of a site and returns the exit status.
func adapterProcess(dir string) int {
	err := func() error {
		ctx := context.Background()
		options := workspace.Options{
			CacheDir: filepath.Join(dir, "cache"),
			Backend:  backend.Local(filepath.Join(dir, "state")),
		}
		if text, err := os.ReadFile(filepath.Join(dir, "backend.json")); err == nil {
			options.Backend = backend.Backend{}
			if err := json.Unmarshal(text, &options.Backend); err != nil {
				return err
			}
		}
		engine, err := workspace.New(options)
		if err != nil {
			return err
		}
		prepared, err := engine.Prepare(ctx, installation(),
			templates.Template{Files: map[string]string{"main.tf": oneEntry}})
		if err != nil {
			return err
		}
		space, err := engine.Open(ctx, "b-1")
		if err != nil {
			return err
		}
		space.StartProviders(ctx, prepared)
		if err := space.Reserve(ctx, installation(), []byte("record")); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, pauseFile)); err == nil {
			if err := os.WriteFile(filepath.Join(dir, pausedFile), fmt.Append(nil, os.Getpid()), 0o600); err != nil {
				return err
			}
			select {}
		}
		return space.Apply(ctx, prepared, map[string]any{"path": filepath.Join(dir, "entries")})
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// startAdapter starts an adapter process for the site.
func (s site) startAdapter() *exec.Cmd {
	GinkgoHelper()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	if s.store.backend.Type != "" {
		text, err := json.Marshal(s.store.backend)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(filepath.Dir(s.cache), "backend.json"), text, 0o600)).To(Succeed())
	}
	adapter := exec.Command(self)
	adapter.Env = append(os.Environ(), scenarioVariable+"="+filepath.Dir(s.cache))
	adapter.Stderr = GinkgoWriter
	Expect(adapter.Start()).To(Succeed())
	return adapter
}

var _ = Describe("an interrupted run", func() {
	var (
		s        site
		engine   *workspace.Engine
		prepared *templates.Prepared
	)

	BeforeEach(func(ctx context.Context) {
		s = newSite()
		engine = s.engine()
		prepared = prepare(ctx, engine, oneEntry)
	})

	It("saves its state when the context ends", func(ctx context.Context) {
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.blockProvider("after-create")
		limited, cancel := context.WithCancel(ctx)
		applied := make(chan error)
		go func() { applied <- space.Apply(limited, prepared, s.vars()) }()
		s.waitForProvider("after-create")
		cancel()
		Eventually(func() (string, error) {
			text, err := os.ReadFile(filepath.Join(s.cache, "runs", "b-1", "apply.stdout"))
			return string(text), err
		}).Should(ContainSubstring("Interrupt received"))
		s.releaseProvider("after-create")
		var err error
		Eventually(applied).Should(Receive(&err))
		Expect(err).To(MatchError(context.Canceled))

		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Resources).To(Equal([]string{"directory_entry.account"}))
		Expect(state.Complete).To(BeFalse())
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
	})

	It("is killed with its providers when the grace period has passed", func(ctx context.Context) {
		options := s.options()
		options.Grace = 1
		hasty, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		space := open(ctx, hasty, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.blockProvider("before-create")
		limited, cancel := context.WithCancel(ctx)
		applied := make(chan error)
		go func() { applied <- space.Apply(limited, prepared, s.vars()) }()
		provider := s.waitForProvider("before-create")
		cancel()
		Eventually(applied).Should(Receive(&err))
		Expect(err).To(MatchError(context.Canceled))
		Expect(err).To(MatchError(ContainSubstring("ended with a signal")))
		Eventually(hasEnded(provider)).Should(BeTrue())
	})

	It("leaves no provider running when OpenTofu is killed", func(ctx context.Context) {
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.blockProvider("before-create")
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
		provider := s.waitForProvider("before-create")
		kill(s.tofuPID("b-1"))
		var err error
		Eventually(applied).Should(Receive(&err))
		Expect(err).To(MatchError(ContainSubstring("ended with a signal")))
		Eventually(hasEnded(provider)).Should(BeTrue())
	})

	It("continues when the adapter is killed, and the next one waits for it", func(ctx context.Context) {
		s.blockProvider("after-create")
		adapter := s.startAdapter()
		provider := s.waitForProvider("after-create")
		kill(adapter.Process.Pid)
		Expect(adapter.Wait()).NotTo(Succeed())
		hurry, cancel := shortContext(ctx)
		defer cancel()
		_, err := engine.Open(hurry, "b-1")
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(hasEnded(provider)()).To(BeFalse())

		s.releaseProvider("after-create")
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
	})

	Describe("that hangs after its adapter was killed", func() {
		// waiting starts an adapter, kills it in the middle of its run, and then waits for that run with an age limit
		// and a grace period.
		waiting := func(
			ctx context.Context, point string, grace time.Duration,
		) (run int, opened chan *workspace.Workspace) {
			GinkgoHelper()
			s.blockProvider(point)
			adapter := s.startAdapter()
			s.waitForProvider(point)
			run = s.tofuPID("b-1")
			kill(adapter.Process.Pid)
			Expect(adapter.Wait()).NotTo(Succeed())
			hurry, cancel := shortContext(ctx)
			defer cancel()
			_, err := engine.Open(hurry, "b-1")
			Expect(err).To(MatchError(
				ContainSubstring(fmt.Sprintf("OpenTofu, process %d, whose adapter is dead", run))))

			options := s.options()
			options.StaleLock, options.Grace = func(string) time.Duration { return 1 }, grace
			strict, err := workspace.New(options)
			Expect(err).NotTo(HaveOccurred())
			opened = make(chan *workspace.Workspace)
			go func() {
				defer GinkgoRecover()
				opened <- open(ctx, strict, "b-1")
			}()
			return run, opened
		}

		It("is killed when another run waits and the grace period has passed", func(ctx context.Context) {
			run, opened := waiting(ctx, "before-create", 1)
			var space *workspace.Workspace
			Eventually(opened).Should(Receive(&space))
			Eventually(hasEnded(run)).Should(BeTrue())
			Expect(space.Close()).To(Succeed())
			Expect(s.runs()).To(BeEmpty())
		})

		It("is interrupted once, and may save its state", func(ctx context.Context) {
			_, opened := waiting(ctx, "after-create", time.Hour)
			Eventually(func() (string, error) {
				text, err := os.ReadFile(filepath.Join(s.cache, "runs", "b-1", "apply.stdout"))
				return string(text), err
			}).Should(ContainSubstring("Interrupt received"))
			Consistently(opened, "100ms").ShouldNot(Receive())
			s.releaseProvider("after-create")
			var space *workspace.Workspace
			Eventually(opened).Should(Receive(&space))
			state, err := space.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(state.Resources).To(Equal([]string{"directory_entry.account"}))
			Expect(state.Complete).To(BeFalse())
			Expect(space.Close()).To(Succeed())
			Expect(s.runs()).To(BeEmpty())
		})
	})

	It("is cleaned up when the adapter and OpenTofu are killed", func(ctx context.Context) {
		s.blockProvider("after-create")
		adapter := s.startAdapter()
		provider := s.waitForProvider("after-create")
		run := s.tofuPID("b-1")
		kill(adapter.Process.Pid)
		Expect(adapter.Wait()).NotTo(Succeed())
		kill(run)
		Eventually(hasEnded(run)).Should(BeTrue())
		Eventually(hasEnded(provider)).Should(BeTrue(), "nobody needs to come by")

		space := open(ctx, engine, "b-1")
		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("record"))
		Expect(state.Complete).To(BeFalse())
		// The entry exists, although no state contains it. Applying again adopts it, so it can be destroyed.
		s.releaseProvider("after-create")
		Expect(filepath.Join(s.entries, "account")).To(BeARegularFile())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
		Expect(space.Remove(ctx, installation())).To(Succeed())
		Expect(space.Close()).To(Succeed())
		Expect(s.runs()).To(BeEmpty())
	})
})
