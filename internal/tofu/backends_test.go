package tofu_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/tofu"
	"service-adapter/spec/kit"
)

// machine is an engine with a cache of its own, as on another machine.
func (s site) machine() *tofu.Engine {
	GinkgoHelper()
	s.cache = filepath.Join(GinkgoT().TempDir(), "cache")
	return s.engine()
}

var _ = Describe("the backend pg", func() {
	// The adapter and OpenTofu must not take a setting for two different things.
	DescribeTable("keeps its states where OpenTofu looks for them", func(ctx context.Context, schema any) {
		s := newSite()
		s.store = newStore(ctx, "pg")
		Expect(look(ctx, s.engine())).To(BeNil()) // makes the default schema
		s.store.backend.Config["schema_name"] = schema
		engine := s.engine()
		s.create(ctx, engine)
		state, err := look(ctx, engine)
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		Expect(s.store.left()).To(BeEmpty(), "the default schema")
	}, Entry("in a schema", "mine"), Entry("in one whose name is a number", 2024))
})

var _ = Describe("state backend", func() {
	for _, kind := range []string{"local", "pg", "s3"} {
		Describe(kind, kit.SlowIf(kind != "pg"), func() {
			var (
				s        site
				engine   *tofu.Engine
				prepared *tofu.Prepared
			)

			BeforeEach(func(ctx context.Context) {
				s = newSite()
				s.store = newStore(ctx, kind)
				engine = s.engine()
				prepared = prepare(ctx, engine, oneEntry)
			})

			It("keeps a binding and nothing after it", func(ctx context.Context) {
				workspace := open(ctx, engine, "b-1")
				Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
				Expect(s.store.left()).To(HaveLen(1))
				Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
				outputs, err := workspace.Outputs(ctx, prepared)
				Expect(err).NotTo(HaveOccurred())
				Expect(outputs["secret"]).To(HaveLen(26))
				Expect(workspace.Close()).To(Succeed())

				workspace = open(ctx, s.machine(), "b-1")
				Expect(workspace.Reserve(ctx, installation(), []byte("other"))).To(MatchError(tofu.ErrExists))
				state, err := workspace.State(ctx, installation())
				Expect(err).NotTo(HaveOccurred())
				Expect(state.Complete).To(BeTrue())
				Expect(string(state.Record)).To(Equal("record"))
				Expect(workspace.Remove(ctx, installation())).To(MatchError(tofu.ErrNotEmpty))
				Expect(workspace.Close()).To(Succeed())

				workspace = open(ctx, engine, "b-1")
				Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
				Expect(workspace.Remove(ctx, installation())).To(Succeed())
				Expect(workspace.Remove(ctx, installation())).To(Succeed())
				Expect(workspace.Close()).To(Succeed())
				Expect(s.store.left()).To(BeEmpty())
				Expect(s.runs()).To(BeEmpty())
			})

			It("keeps nothing of a look, of a refused apply's rollback and of a reservation that ended early", func(ctx context.Context) {
				workspace := open(ctx, engine, "b-1")
				DeferCleanup(workspace.Close)
				Expect(workspace.State(ctx, installation())).To(BeNil())
				Expect(s.store.left()).To(BeEmpty())
				ended, cancel := context.WithCancel(ctx)
				cancel()
				Expect(workspace.Reserve(ended, installation(), []byte("record"))).To(MatchError(context.Canceled))
				Expect(s.store.left()).To(BeEmpty())
				Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
				vars := s.vars()
				vars["fail"] = "no"
				Expect(workspace.Apply(ctx, prepared, vars)).To(MatchError(ContainSubstring("Entry refused: no")))
				Expect(workspace.Destroy(ctx, prepared, vars)).To(Succeed())
				Expect(workspace.Remove(ctx, installation())).To(Succeed())
				Expect(s.store.left()).To(BeEmpty())
			})

			It("lets one of two machines reserve", func(ctx context.Context) {
				engines := []*tofu.Engine{engine, s.machine()}
				for _, e := range engines {
					warm := open(ctx, e, "b-warm")
					Expect(warm.State(ctx, installation())).To(BeNil())
					Expect(warm.Close()).To(Succeed())
				}
				var won atomic.Int32
				for n := range 5 {
					name := fmt.Sprintf("b-%d", n)
					var group sync.WaitGroup
					for _, e := range engines {
						group.Go(func() {
							defer GinkgoRecover()
							workspace := open(ctx, e, name)
							err := workspace.Reserve(ctx, installation(), []byte("record"))
							if err == nil {
								won.Add(1)
							} else {
								Expect(err).To(MatchError(tofu.ErrExists))
							}
							Expect(workspace.Close()).To(Succeed())
						})
					}
					group.Wait()
				}
				Expect(won.Load()).To(BeEquivalentTo(5))
				Expect(s.store.left()).To(HaveLen(5))
			})

			It("takes thirty reservations at the same time", func(ctx context.Context) {
				var group sync.WaitGroup
				for n := range 30 {
					group.Go(func() {
						defer GinkgoRecover()
						workspace := open(ctx, engine, fmt.Sprintf("b-%02d", n))
						Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
						Expect(workspace.Close()).To(Succeed())
					})
				}
				group.Wait()
				Expect(engine.Workspaces(ctx, installation())).To(HaveLen(30))
				Expect(s.store.left()).To(HaveLen(30))
			})

			It("tells the names of workspaces, and what they hold while another run works on them", func(ctx context.Context) {
				Expect(engine.Workspaces(ctx, installation())).To(BeEmpty())
				for _, name := range []string{"b-2", "b-1"} {
					workspace := open(ctx, engine, name)
					DeferCleanup(workspace.Close)
					Expect(workspace.Reserve(ctx, installation(), []byte("record of "+name))).To(Succeed())
				}
				Expect(engine.Workspaces(ctx, installation())).To(Equal([]string{"b-1", "b-2"}))
				state, err := engine.Peek(ctx, installation(), "b-2")
				Expect(err).NotTo(HaveOccurred())
				Expect(string(state.Record)).To(Equal("record of b-2"))
				Expect(engine.Peek(ctx, installation(), "b-3")).To(BeNil())
				Expect(s.store.left()).To(HaveLen(2))
				_, err = engine.Peek(ctx, installation(), "../b-2")
				Expect(err).To(MatchError(ContainSubstring("no plain name")))
				Expect(filepath.Glob(filepath.Join(s.cache, "runs", "look-*"))).To(BeEmpty())
			})

			It("keeps its secrets to itself", func(ctx context.Context) {
				workspace := open(ctx, engine, "b-1")
				DeferCleanup(workspace.Close)
				Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
				s.hold("after-create")
				applied := make(chan error)
				go func() { applied <- workspace.Apply(ctx, prepared, s.vars()) }()
				provider := s.at("after-create")
				for _, pid := range []int{provider, s.tofu("b-1")} {
					for _, name := range []string{"cmdline", "environ"} {
						text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
						Expect(err).NotTo(HaveOccurred())
						for _, secret := range s.store.secrets {
							Expect(string(text)).NotTo(ContainSubstring(secret))
						}
					}
				}
				expectPrivate(s.cache)
				s.release("after-create")
				Eventually(applied).Should(Receive(BeNil()))
			})

			if kind == "local" {
				return
			}

			It("is named when it is down, and does not count as a binding that exists", func(ctx context.Context) {
				workspace := open(ctx, engine, "b-1")
				DeferCleanup(workspace.Close)
				s.store.stop()
				err := workspace.Reserve(ctx, installation(), []byte("record"))
				Expect(err).To(MatchError(And(
					ContainSubstring("the state backend "+kind+" cannot be used"), ContainSubstring("connection refused"))))
				Expect(errors.Is(err, tofu.ErrExists)).To(BeFalse())
				var failure *opentofu.Error
				Expect(errors.As(err, &failure)).To(BeTrue())
				Expect(failure.Backend).To(Equal(kind))
				_, err = engine.Workspaces(ctx, installation())
				Expect(err).To(MatchError(ContainSubstring("cannot be used")))
				_, err = s.machine().Prepare(ctx, installation(), tofu.Template{Files: map[string]string{"main.tf": oneEntry}})
				Expect(err).To(MatchError(ContainSubstring("the state backend " + kind + " cannot be used")))

				Expect(s.store.server.Start(ctx)).To(Succeed())
				Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
			})

			It("gets the state of a run that ended while it was down", func(ctx context.Context) {
				workspace := open(ctx, engine, "b-1")
				Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
				s.hold("after-create")
				applied := make(chan error)
				go func() { applied <- workspace.Apply(ctx, prepared, s.vars()) }()
				s.at("after-create")
				s.store.stop()
				s.release("after-create")
				var err error
				Eventually(applied, "60s").Should(Receive(&err))
				Expect(err).To(MatchError(ContainSubstring("the state backend " + kind + " cannot be used")))
				Expect(workspace.Close()).To(Succeed())
				unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
				Expect(unsaved).To(BeARegularFile())

				Expect(s.store.server.Start(ctx)).To(Succeed())
				workspace = open(ctx, engine, "b-1")
				state, err := workspace.State(ctx, installation())
				Expect(err).NotTo(HaveOccurred())
				Expect(state.Resources).To(Equal([]string{"directory_entry.account"}))
				Expect(unsaved).NotTo(BeAnExistingFile())
				Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
				Expect(workspace.Remove(ctx, installation())).To(Succeed())
				Expect(workspace.Close()).To(Succeed())
				Expect(s.store.left()).To(BeEmpty())
				Expect(s.runs()).To(BeEmpty())
			})

			It("masks its secrets in errors", func(ctx context.Context) {
				options := s.options()
				options.Backend.Config = maps.Clone(options.Backend.Config)
				const planted = "planted ${secret} %{x}"
				switch kind {
				case "pg":
					options.Backend.Config["conn_str"] = "postgres://u:" + planted + "@[bad/x"
				case "s3":
					options.Backend.Config["endpoints"] = map[string]any{"s3": "http://user:" + planted + "@[bad"}
				}
				broken, err := tofu.New(options)
				Expect(err).NotTo(HaveOccurred())
				_, err = broken.Workspaces(ctx, installation())
				Expect(err).To(HaveOccurred())
				Expect(err.Error()).NotTo(ContainSubstring("planted"))
			})
		})
	}
})

var _ = Describe("the configuration of a state backend", func() {
	It("has locks", func() {
		options := newSite().options()
		options.Backend = tofu.Backend{Type: "s3", Config: map[string]any{"use_lockfile": false}}
		_, err := tofu.New(options)
		Expect(err).To(MatchError(ContainSubstring("states are only safe with locks")))
		options.Backend.Config["dynamodb_table"] = "locks"
		_, err = tofu.New(options)
		Expect(err).NotTo(HaveOccurred())
	})

	It("needs an OpenTofu that knows the locks of s3", func(ctx context.Context) {
		options := newSite().options()
		options.Backend = tofu.Backend{Type: "s3", Config: map[string]any{"bucket": "b"}}
		engine, err := tofu.New(options)
		Expect(err).NotTo(HaveOccurred())
		i := installation()
		i.Version = "1.9.4"
		_, err = engine.Workspaces(ctx, i)
		Expect(err).To(MatchError(ContainSubstring("needs OpenTofu 1.10")))
	})

	It("may hold what looks like a template", func(ctx context.Context) {
		st := newStore(ctx, "pg")
		const password = `a${b} %{if} "'\ ü`
		_, err := st.server.Query(ctx, "postgres", `DROP ROLE IF EXISTS odd; CREATE ROLE odd SUPERUSER LOGIN PASSWORD '`+strings.ReplaceAll(password, "'", "''")+`'`)
		Expect(err).NotTo(HaveOccurred())
		odd := keywords(st, "odd", password)
		s := newSite()
		s.store = st
		s.store.backend.Config = map[string]any{"conn_str": odd}
		names, err := s.engine().Workspaces(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(names).To(BeEmpty())
	})
})

// keywords is the connection string of another role, in the form of keywords.
func keywords(st store, role, password string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
	return fmt.Sprintf("host=%s port=%d user=%s password='%s' dbname=postgres sslmode=disable", st.server.Host, st.server.Port, role, quoted)
}
