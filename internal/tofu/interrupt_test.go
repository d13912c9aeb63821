package tofu_test

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

	"service-adapter/internal/tofu"
)

// scenarioVariable makes the test binary an adapter process that a spec can kill; its value is the site's directory.
const scenarioVariable = "TOFU_TEST_ADAPTER"

// The files of a site by which an adapter process is held before it applies, and tells that it is.
const (
	pauseFile  = "pause"
	pausedFile = "paused"
)

// adapterProcess reserves and applies the workspace b-1 of a site and returns the exit status.
func adapterProcess(dir string) int {
	err := func() error {
		ctx := context.Background()
		options := tofu.Options{CacheDir: filepath.Join(dir, "cache"), Backend: tofu.Local(filepath.Join(dir, "state"))}
		if text, err := os.ReadFile(filepath.Join(dir, "backend.json")); err == nil {
			options.Backend = tofu.Backend{}
			if err := json.Unmarshal(text, &options.Backend); err != nil {
				return err
			}
		}
		engine, err := tofu.New(options)
		if err != nil {
			return err
		}
		prepared, err := engine.Prepare(ctx, installation(), tofu.Template{Files: map[string]string{"main.tf": oneEntry}})
		if err != nil {
			return err
		}
		workspace, err := engine.Open(ctx, "b-1")
		if err != nil {
			return err
		}
		workspace.StartProviders(ctx, prepared)
		if err := workspace.Reserve(ctx, installation(), []byte("record")); err != nil {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, pauseFile)); err == nil {
			if err := os.WriteFile(filepath.Join(dir, pausedFile), fmt.Append(nil, os.Getpid()), 0o600); err != nil {
				return err
			}
			select {}
		}
		return workspace.Apply(ctx, prepared, map[string]any{"path": filepath.Join(dir, "entries")})
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

var _ = Describe("a run that is interrupted", func() {
	var (
		s        site
		engine   *tofu.Engine
		prepared *tofu.Prepared
	)

	BeforeEach(func(ctx context.Context) {
		s = newSite()
		engine = s.engine()
		prepared = prepare(ctx, engine, oneEntry)
	})

	It("saves its state when the context ends", func(ctx context.Context) {
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.hold("after-create")
		limited, cancel := context.WithCancel(ctx)
		applied := make(chan error)
		go func() { applied <- workspace.Apply(limited, prepared, s.vars()) }()
		s.at("after-create")
		cancel()
		Eventually(func() (string, error) {
			text, err := os.ReadFile(filepath.Join(s.cache, "runs", "b-1", "apply.stdout"))
			return string(text), err
		}).Should(ContainSubstring("Interrupt received"))
		s.release("after-create")
		var err error
		Eventually(applied).Should(Receive(&err))
		Expect(err).To(MatchError(context.Canceled))

		state, err := workspace.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Resources).To(Equal([]string{"directory_entry.account"}))
		Expect(state.Complete).To(BeFalse())
		Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
	})

	It("is killed with its providers when the grace has passed", func(ctx context.Context) {
		options := s.options()
		options.Grace = 1
		hasty, err := tofu.New(options)
		Expect(err).NotTo(HaveOccurred())
		workspace := open(ctx, hasty, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.hold("before-create")
		limited, cancel := context.WithCancel(ctx)
		applied := make(chan error)
		go func() { applied <- workspace.Apply(limited, prepared, s.vars()) }()
		provider := s.at("before-create")
		cancel()
		Eventually(applied).Should(Receive(&err))
		Expect(err).To(MatchError(context.Canceled))
		Expect(err).To(MatchError(ContainSubstring("ended with a signal")))
		Eventually(gone(provider)).Should(BeTrue())
	})

	It("leaves no provider when OpenTofu is killed", func(ctx context.Context) {
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.hold("before-create")
		applied := make(chan error)
		go func() { applied <- workspace.Apply(ctx, prepared, s.vars()) }()
		provider := s.at("before-create")
		kill(s.tofu("b-1"))
		var err error
		Eventually(applied).Should(Receive(&err))
		Expect(err).To(MatchError(ContainSubstring("ended with a signal")))
		Eventually(gone(provider)).Should(BeTrue())
	})

	It("goes on when the adapter is killed, and the next one waits for it", func(ctx context.Context) {
		s.hold("after-create")
		adapter := s.startAdapter()
		provider := s.at("after-create")
		kill(adapter.Process.Pid)
		Expect(adapter.Wait()).NotTo(Succeed())
		hurry, cancel := impatient(ctx)
		defer cancel()
		_, err := engine.Open(hurry, "b-1")
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(gone(provider)()).To(BeFalse())

		s.release("after-create")
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		state, err := workspace.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
	})

	Describe("and hangs after its adapter was killed", func() {
		// waiting starts an adapter that is killed in the middle of its run, and then waits for that run with an age limit and a grace.
		waiting := func(ctx context.Context, point string, grace time.Duration) (run int, opened chan *tofu.Workspace) {
			GinkgoHelper()
			s.hold(point)
			adapter := s.startAdapter()
			s.at(point)
			run = s.tofu("b-1")
			kill(adapter.Process.Pid)
			Expect(adapter.Wait()).NotTo(Succeed())
			hurry, cancel := impatient(ctx)
			defer cancel()
			_, err := engine.Open(hurry, "b-1")
			Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("OpenTofu, process %d, whose adapter is dead", run))))

			options := s.options()
			options.StaleLock, options.Grace = func(string) time.Duration { return 1 }, grace
			strict, err := tofu.New(options)
			Expect(err).NotTo(HaveOccurred())
			opened = make(chan *tofu.Workspace)
			go func() {
				defer GinkgoRecover()
				opened <- open(ctx, strict, "b-1")
			}()
			return run, opened
		}

		It("is killed when another run waits and the grace has passed", func(ctx context.Context) {
			run, opened := waiting(ctx, "before-create", 1)
			var workspace *tofu.Workspace
			Eventually(opened).Should(Receive(&workspace))
			Eventually(gone(run)).Should(BeTrue())
			Expect(workspace.Close()).To(Succeed())
			Expect(s.runs()).To(BeEmpty())
		})

		It("is interrupted once, and may save its state", func(ctx context.Context) {
			_, opened := waiting(ctx, "after-create", time.Hour)
			Eventually(func() (string, error) {
				text, err := os.ReadFile(filepath.Join(s.cache, "runs", "b-1", "apply.stdout"))
				return string(text), err
			}).Should(ContainSubstring("Interrupt received"))
			Consistently(opened, "100ms").ShouldNot(Receive())
			s.release("after-create")
			var workspace *tofu.Workspace
			Eventually(opened).Should(Receive(&workspace))
			state, err := workspace.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(state.Resources).To(Equal([]string{"directory_entry.account"}))
			Expect(state.Complete).To(BeFalse())
			Expect(workspace.Close()).To(Succeed())
			Expect(s.runs()).To(BeEmpty())
		})
	})

	It("is cleared away when the adapter and OpenTofu are killed", func(ctx context.Context) {
		s.hold("after-create")
		adapter := s.startAdapter()
		provider := s.at("after-create")
		run := s.tofu("b-1")
		kill(adapter.Process.Pid)
		Expect(adapter.Wait()).NotTo(Succeed())
		kill(run)
		Eventually(gone(run)).Should(BeTrue())
		Eventually(gone(provider)).Should(BeTrue(), "nobody needs to come by")

		workspace := open(ctx, engine, "b-1")
		state, err := workspace.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("record"))
		Expect(state.Complete).To(BeFalse())
		// The entry exists though no state knows it; applying again adopts it, so it can be destroyed.
		s.release("after-create")
		Expect(filepath.Join(s.entries, "account")).To(BeARegularFile())
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
		Expect(workspace.Remove(ctx, installation())).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
		Expect(s.runs()).To(BeEmpty())
	})
})
