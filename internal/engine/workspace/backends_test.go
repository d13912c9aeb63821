package workspace_test

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

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/spec/kit"
)

// machine returns an engine with a cache directory of its own, as on another machine.
func (s site) machine() *workspace.Engine {
	GinkgoHelper()
	s.cache = filepath.Join(GinkgoT().TempDir(), "cache")
	return s.engine()
}

var _ = Describe("the backend pg", func() {
	// The adapter and OpenTofu must interpret a setting in the same way.
	DescribeTable("stores its states where OpenTofu expects them", func(ctx context.Context, schema any) {
		s := newSite()
		s.store = newStore(ctx, "pg")
		Expect(readB1(ctx, s.engine())).To(BeNil()) // creates the default schema
		s.store.backend.Config["schema_name"] = schema
		engine := s.engine()
		s.createB1(ctx, engine)
		state, err := readB1(ctx, engine)
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		Expect(s.store.contents()).To(BeEmpty(), "the default schema")
	}, Entry("in a schema", "mine"), Entry("in one whose name is a number", 2024))
})

var _ = Describe("a state backend", func() {
	for _, kind := range []string{"local", "pg", "s3"} {
		Describe(kind, kit.SlowIf(kind != "pg"), func() {
			var (
				s        site
				engine   *workspace.Engine
				prepared *templates.Prepared
			)

			BeforeEach(func(ctx context.Context) {
				s = newSite()
				s.store = newStore(ctx, kind)
				engine = s.engine()
				prepared = prepare(ctx, engine, oneEntry)
			})

			It("contains a binding, and nothing after it was removed", func(ctx context.Context) {
				space := open(ctx, engine, "b-1")
				Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
				Expect(s.store.contents()).To(HaveLen(1))
				Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
				outputs, err := space.Outputs(ctx, prepared)
				Expect(err).NotTo(HaveOccurred())
				Expect(outputs["secret"]).To(HaveLen(26))
				Expect(space.Close()).To(Succeed())

				space = open(ctx, s.machine(), "b-1")
				Expect(space.Reserve(ctx, installation(), []byte("other"))).To(MatchError(workspace.ErrExists))
				state, err := space.State(ctx, installation())
				Expect(err).NotTo(HaveOccurred())
				Expect(state.Complete).To(BeTrue())
				Expect(string(state.Record)).To(Equal("record"))
				Expect(space.Remove(ctx, installation())).To(MatchError(workspace.ErrNotEmpty))
				Expect(space.Close()).To(Succeed())

				space = open(ctx, engine, "b-1")
				Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
				Expect(space.Remove(ctx, installation())).To(Succeed())
				Expect(space.Remove(ctx, installation())).To(Succeed())
				Expect(space.Close()).To(Succeed())
				Expect(s.store.contents()).To(BeEmpty())
				Expect(s.runs()).To(BeEmpty())
			})

			It("contains nothing after reads, "+
				"rejected applies and interrupted reservations", func(ctx context.Context) {
				space := open(ctx, engine, "b-1")
				DeferCleanup(space.Close)
				Expect(space.State(ctx, installation())).To(BeNil())
				Expect(s.store.contents()).To(BeEmpty())
				ended, cancel := context.WithCancel(ctx)
				cancel()
				Expect(space.Reserve(ended, installation(), []byte("record"))).To(MatchError(context.Canceled))
				Expect(s.store.contents()).To(BeEmpty())
				Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
				vars := s.vars()
				vars["fail"] = "no"
				Expect(space.Apply(ctx, prepared, vars)).To(MatchError(ContainSubstring("Entry refused: no")))
				Expect(space.Destroy(ctx, prepared, vars)).To(Succeed())
				Expect(space.Remove(ctx, installation())).To(Succeed())
				Expect(s.store.contents()).To(BeEmpty())
			})

			It("lets only one of two machines reserve a workspace", func(ctx context.Context) {
				engines := []*workspace.Engine{engine, s.machine()}
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
							space := open(ctx, e, name)
							err := space.Reserve(ctx, installation(), []byte("record"))
							if err == nil {
								won.Add(1)
							} else {
								Expect(err).To(MatchError(workspace.ErrExists))
							}
							Expect(space.Close()).To(Succeed())
						})
					}
					group.Wait()
				}
				Expect(won.Load()).To(BeEquivalentTo(5))
				Expect(s.store.contents()).To(HaveLen(5))
			})

			It("accepts thirty concurrent reservations", func(ctx context.Context) {
				var group sync.WaitGroup
				for n := range 30 {
					group.Go(func() {
						defer GinkgoRecover()
						space := open(ctx, engine, fmt.Sprintf("b-%02d", n))
						Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
						Expect(space.Close()).To(Succeed())
					})
				}
				group.Wait()
				Expect(engine.Workspaces(ctx, installation())).To(HaveLen(30))
				Expect(s.store.contents()).To(HaveLen(30))
			})

			It("lists workspaces and reads their states while another run works on them", func(ctx context.Context) {
				Expect(engine.Workspaces(ctx, installation())).To(BeEmpty())
				for _, name := range []string{"b-2", "b-1"} {
					space := open(ctx, engine, name)
					DeferCleanup(space.Close)
					Expect(space.Reserve(ctx, installation(), []byte("record of "+name))).To(Succeed())
				}
				Expect(engine.Workspaces(ctx, installation())).To(Equal([]string{"b-1", "b-2"}))
				state, err := engine.Peek(ctx, installation(), "b-2")
				Expect(err).NotTo(HaveOccurred())
				Expect(string(state.Record)).To(Equal("record of b-2"))
				Expect(engine.Peek(ctx, installation(), "b-3")).To(BeNil())
				Expect(s.store.contents()).To(HaveLen(2))
				_, err = engine.Peek(ctx, installation(), "../b-2")
				Expect(err).To(MatchError(ContainSubstring("the name must consist of")))
				Expect(filepath.Glob(filepath.Join(s.cache, "runs", "look-*"))).To(BeEmpty())
			})

			It("does not reveal its secrets", func(ctx context.Context) {
				space := open(ctx, engine, "b-1")
				DeferCleanup(space.Close)
				Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
				s.blockProvider("after-create")
				applied := make(chan error)
				go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
				provider := s.waitForProvider("after-create")
				for _, pid := range []int{provider, s.tofuPID("b-1")} {
					for _, name := range []string{"cmdline", "environ"} {
						text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
						Expect(err).NotTo(HaveOccurred())
						for _, secret := range s.store.secrets {
							Expect(string(text)).NotTo(ContainSubstring(secret))
						}
					}
				}
				expectPrivate(s.cache)
				s.releaseProvider("after-create")
				Eventually(applied).Should(Receive(BeNil()))
			})

			if kind == "local" {
				return
			}

			It("is named when it is down, and the error is not ErrExists", func(ctx context.Context) {
				space := open(ctx, engine, "b-1")
				DeferCleanup(space.Close)
				s.store.stop()
				err := space.Reserve(ctx, installation(), []byte("record"))
				Expect(err).To(MatchError(And(
					ContainSubstring("the state backend "+kind+" cannot be used"),
					ContainSubstring("connection refused"))))
				Expect(errors.Is(err, workspace.ErrExists)).To(BeFalse())
				var failure *opentofu.Error
				Expect(errors.As(err, &failure)).To(BeTrue())
				Expect(failure.Backend).To(Equal(kind))
				_, err = engine.Workspaces(ctx, installation())
				Expect(err).To(MatchError(ContainSubstring("cannot be used")))
				_, err = s.machine().Prepare(ctx, installation(),
					templates.Template{Files: map[string]string{"main.tf": oneEntry}})
				Expect(err).To(MatchError(ContainSubstring("the state backend " + kind + " cannot be used")))

				Expect(s.store.server.Start(ctx)).To(Succeed())
				Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
			})

			It("receives the state of a run that ended while it was down", func(ctx context.Context) {
				space := open(ctx, engine, "b-1")
				Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
				s.blockProvider("after-create")
				applied := make(chan error)
				go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
				s.waitForProvider("after-create")
				s.store.stop()
				s.releaseProvider("after-create")
				var err error
				Eventually(applied, "60s").Should(Receive(&err))
				Expect(err).To(MatchError(ContainSubstring("the state backend " + kind + " cannot be used")))
				Expect(space.Close()).To(Succeed())
				unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
				Expect(unsaved).To(BeARegularFile())

				Expect(s.store.server.Start(ctx)).To(Succeed())
				space = open(ctx, engine, "b-1")
				state, err := space.State(ctx, installation())
				Expect(err).NotTo(HaveOccurred())
				Expect(state.Resources).To(Equal([]string{"directory_entry.account"}))
				Expect(unsaved).NotTo(BeAnExistingFile())
				Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
				Expect(space.Remove(ctx, installation())).To(Succeed())
				Expect(space.Close()).To(Succeed())
				Expect(s.store.contents()).To(BeEmpty())
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
				broken, err := workspace.New(options)
				Expect(err).NotTo(HaveOccurred())
				_, err = broken.Workspaces(ctx, installation())
				Expect(err).To(HaveOccurred())
				Expect(err.Error()).NotTo(ContainSubstring("planted"))
			})
		})
	}
})

var _ = Describe("the configuration of a state backend", func() {
	It("must include locks", func() {
		options := newSite().options()
		options.Backend = backend.Backend{Type: "s3", Config: map[string]any{"use_lockfile": false}}
		_, err := workspace.New(options)
		Expect(err).To(MatchError(ContainSubstring("states are only safe with locks")))
		options.Backend.Config["dynamodb_table"] = "locks"
		_, err = workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
	})

	It("must be supported by the OpenTofu version if it uses the locks of s3", func(ctx context.Context) {
		options := newSite().options()
		options.Backend = backend.Backend{Type: "s3", Config: map[string]any{"bucket": "b"}}
		engine, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		i := installation()
		i.Version = "1.9.4"
		_, err = engine.Workspaces(ctx, i)
		Expect(err).To(MatchError(ContainSubstring("needs OpenTofu 1.10")))
	})

	It("may contain text that looks like a template", func(ctx context.Context) {
		st := newStore(ctx, "pg")
		const password = `a${b} %{if} "'\ ü`
		_, err := st.server.Query(ctx, "postgres",
			`DROP ROLE IF EXISTS odd; CREATE ROLE odd SUPERUSER LOGIN PASSWORD '`+
				strings.ReplaceAll(password, "'", "''")+`'`)
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

// keywords returns the connection string of another role, in the keyword form of PostgreSQL.
func keywords(st store, role, password string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
	return fmt.Sprintf("host=%s port=%d user=%s password='%s' dbname=postgres sslmode=disable", st.server.Host,
		st.server.Port, role, quoted)
}
