package workspace_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

var _ = Describe("a workspace", func() {
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

	It("is reserved, applied, read, destroyed and removed, and leaves nothing behind", func(ctx context.Context) {
		space := open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte(`{"plan":"small"}`))).To(Succeed())

		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal(`{"plan":"small"}`))
		Expect(state.TofuVersion).To(Equal(tofuVersion))
		Expect(state.Complete).To(BeFalse())
		Expect(state.Resources).To(BeEmpty())

		Expect(space.Apply(ctx, prepared, map[string]any{"path": s.entries, "unknown": "x"})).To(Succeed())
		Expect(filepath.Join(s.entries, "account")).To(BeARegularFile())
		outputs, err := space.Outputs(ctx, prepared)
		Expect(err).NotTo(HaveOccurred())
		Expect(outputs).To(HaveLen(2))
		Expect(outputs).To(HaveKeyWithValue("ports", []any{int64(1000000), 5.5}))
		Expect(outputs["secret"]).To(HaveLen(26))
		Expect(space.Close()).To(Succeed())

		space = open(ctx, engine, "b-1")
		state, err = space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		Expect(state.Resources).To(Equal([]string{"directory_entry.account"}))
		Expect(state.Providers).To(Equal([]string{"registry.terraform.io/service-adapter/directory"}))
		Expect(space.Remove(ctx, installation())).To(MatchError(workspace.ErrNotEmpty))

		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(filepath.Join(s.entries, "account")).NotTo(BeAnExistingFile())
		state, err = space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal(`{"plan":"small"}`), "the record outlives the resources")
		Expect(state.Complete).To(BeFalse())
		Expect(space.Remove(ctx, installation())).To(Succeed())
		Expect(space.Remove(ctx, installation())).To(Succeed())
		Expect(space.Close()).To(Succeed())
		Expect(s.workspaces()).To(BeEmpty())
		Expect(s.runs()).To(BeEmpty())
	})

	It("runs no command of a user before its state has been read", func(ctx context.Context) {
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		var output strings.Builder
		terminal := opentofu.Terminal{Out: &output, Err: &output}
		changed, err := space.Exec(ctx, prepared, s.vars(), terminal, "state", "list")
		Expect(err).To(MatchError(ContainSubstring("its state has not been read")))
		Expect(changed).To(BeFalse())
		Expect(output.String()).To(BeEmpty())

		_, err = space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(space.Exec(ctx, prepared, s.vars(), terminal, "state", "list")).To(BeFalse())
		Expect(output.String()).To(ContainSubstring("terraform_data._binding"))
	})

	It("can be reserved only once", func(ctx context.Context) {
		first := open(ctx, engine, "b-1")
		Expect(first.Reserve(ctx, installation(), []byte("first"))).To(Succeed())
		Expect(first.Reserve(ctx, installation(), []byte("second"))).To(MatchError(workspace.ErrExists))
		Expect(first.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(first.Close()).To(Succeed())
		before, err := os.ReadFile(filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate"))
		Expect(err).NotTo(HaveOccurred())

		second := open(ctx, engine, "b-1")
		DeferCleanup(second.Close)
		Expect(second.Reserve(ctx, installation(), []byte("second"))).To(MatchError(workspace.ErrExists))
		Expect(os.ReadFile(filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate"))).To(Equal(before))
		Expect(second.Apply(ctx, prepared, s.vars())).To(MatchError(ContainSubstring("not reserved")))
	})

	It("keeps its resources when it lost its guard and is reserved", func(ctx context.Context) {
		// The resource needs no provider of the installation, so only the target protects it.
		builtin := prepare(ctx, engine, `resource "terraform_data" "kept" { input = "kept" }`)
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("first"))).To(Succeed())
		Expect(space.Apply(ctx, builtin, nil)).To(Succeed())
		dropFromState(filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate"), "_binding")

		Expect(space.Reserve(ctx, installation(), []byte("second"))).To(Succeed())
		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Resources).To(Equal([]string{"terraform_data.kept"}))
		Expect(state.Complete).To(BeFalse())
	})

	It("that is missing is not created by another run that reads it", func(ctx context.Context) {
		space := open(ctx, engine, "b-1")
		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state).To(BeNil())
		Expect(space.Close()).To(Succeed())
		Expect(s.workspaces()).To(BeEmpty())
		Expect(s.runs()).To(BeEmpty())
	})

	It("is incomplete after a failed apply, and complete after one that succeeds", func(ctx context.Context) {
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		err := space.Apply(ctx, prepared, map[string]any{"path": s.entries, "fail": "no"})
		var failure *opentofu.Error
		Expect(err).To(MatchError(
			ContainSubstring(`applying workspace "b-1": OpenTofu apply ended with exit status 1: ` +
				`directory_entry.account (main.tf:17): Entry refused: no`)))
		Expect(errors.As(err, &failure)).To(BeTrue())
		Expect(failure.Address).To(Equal("directory_entry.account"))

		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeFalse())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		state, err = space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
	})

	It("keeps its record when a destroy fails", func(ctx context.Context) {
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		// A directory that is not empty cannot be removed as a file.
		Expect(os.Remove(filepath.Join(s.entries, "account"))).To(Succeed())
		Expect(os.MkdirAll(filepath.Join(s.entries, "account", "x"), 0o700)).To(Succeed())
		Expect(space.Destroy(ctx, prepared, s.vars())).NotTo(Succeed())
		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("record"))
		Expect(state.Resources).To(Equal([]string{"directory_entry.account"}))
	})

	DescribeTable("is destroyed although the template protects its resources", func(
		ctx context.Context, main, override string,
	) {
		protected, err := engine.Prepare(ctx, installation(), templates.Template{Files: map[string]string{
			"main.tf": providers + fmt.Sprintf(`
variable "path" { type = string }
resource "directory_entry" "account" {
  path = var.path
  name = "account"
  %s
}`, main), "zz_override.tf": override,
		}})
		Expect(err).NotTo(HaveOccurred())
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, protected, s.vars())).To(Succeed())
		Expect(space.Destroy(ctx, protected, s.vars())).To(Succeed())
		Expect(space.Remove(ctx, installation())).To(Succeed())
	},
		Entry(nil, "lifecycle { prevent_destroy = true }", ""),
		Entry("with an override file", "", `resource "directory_entry" "account" {
  lifecycle { prevent_destroy = true }
}`),
	)

	It("is destroyed with its guard by an OpenTofu that cannot exclude resources", func(ctx context.Context) {
		i := calledVersion("1.8.9")
		old, err := engine.Prepare(ctx, i, templates.Template{Files: map[string]string{"main.tf": oneEntry}})
		Expect(err).NotTo(HaveOccurred())
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, old, s.vars())).To(Succeed())
		Expect(space.Destroy(ctx, old, s.vars())).To(Succeed())
		Expect(space.Remove(ctx, i)).To(Succeed())
		Expect(s.workspaces()).To(BeEmpty())
	})

	It("has a lease that only one process can hold", func(ctx context.Context) {
		first := open(ctx, engine, "b-1")
		hurry, cancel := shortContext(ctx)
		defer cancel()
		_, err := engine.Open(hurry, "b-1")
		Expect(err).To(MatchError(context.DeadlineExceeded))
		Expect(err).To(MatchError(ContainSubstring(fmt.Sprintf("of process %d", os.Getpid()))))
		other := open(ctx, engine, "b-2")
		Expect(other.Close()).To(Succeed())

		opened := make(chan *workspace.Workspace)
		go func() {
			defer GinkgoRecover()
			opened <- open(ctx, engine, "b-1")
		}()
		Consistently(opened, "100ms").ShouldNot(Receive())
		Expect(first.Close()).To(Succeed())
		var second *workspace.Workspace
		Eventually(opened).Should(Receive(&second))
		Expect(second.Close()).To(Succeed())
		Expect(s.runs()).To(BeEmpty())
	})

	It("receives a state that an earlier run could not save", func(ctx context.Context) {
		space := open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		file := filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate")
		reserved, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Close()).To(Succeed())
		// This is the state of a run that could not write to the backend.
		unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
		Expect(os.MkdirAll(filepath.Dir(unsaved), 0o700)).To(Succeed())
		Expect(os.Rename(file, unsaved)).To(Succeed())
		Expect(os.WriteFile(file, reserved, 0o600)).To(Succeed())

		space = open(ctx, engine, "b-1")
		Expect(space.Close()).To(Succeed())
		Expect(unsaved).To(BeARegularFile(), "closing keeps it")

		space = open(ctx, engine, "b-1")
		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		Expect(unsaved).NotTo(BeAnExistingFile())
		Expect(space.Close()).To(Succeed())
		Expect(s.runs()).To(BeEmpty())
	})

	DescribeTable("sets aside a state that could not be saved if the stored one is newer",
		func(
			ctx context.Context,
			theirs func(ctx context.Context, machine *workspace.Engine, space *workspace.Workspace),
		) {
			space := open(ctx, engine, "b-1")
			Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
			file := filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate")
			reserved := readFile(file)
			Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
			Expect(space.Close()).To(Succeed())
			unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
			Expect(os.MkdirAll(filepath.Dir(unsaved), 0o700)).To(Succeed())
			Expect(os.Rename(file, unsaved)).To(Succeed())
			Expect(os.WriteFile(file, reserved, 0o600)).To(Succeed())
			unsavedState := readFile(unsaved)

			machine := s.machine()
			other := open(ctx, machine, "b-1")
			_, err := other.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			theirs(ctx, machine, other)
			Expect(other.Close()).To(Succeed())
			stored := readFile(file)

			logs := &strings.Builder{}
			options := s.options()
			options.Logger = slog.New(slog.NewTextHandler(logs, nil))
			engine, err := workspace.New(options)
			Expect(err).NotTo(HaveOccurred())
			space = open(ctx, engine, "b-1")
			_, err = space.State(ctx, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(space.Close()).To(Succeed())
			Expect(readFile(file)).To(Equal(stored))
			Expect(s.runs()).To(BeEmpty())
			kept, err := filepath.Glob(filepath.Join(s.cache, "superseded-b-1-*.tfstate"))
			Expect(err).NotTo(HaveOccurred())
			Expect(kept).To(HaveLen(1))
			Expect(readFile(kept[0])).To(Equal(unsavedState))
			info, err := os.Stat(kept[0])
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
			Expect(logs.String()).To(MatchRegexp(
				`level=WARN.*set aside.* reason="another run changed the stored one since".*directory_entry.account`))
		},
		Entry("with a higher serial", func(ctx context.Context, machine *workspace.Engine, space *workspace.Workspace) {
			builtin := prepare(ctx, machine, `resource "terraform_data" "theirs" {}`)
			for n := range 4 {
				space.SetRecord(fmt.Append(nil, "record ", n))
				Expect(space.Apply(ctx, builtin, nil)).To(Succeed())
			}
		}),
		Entry("from another run that took it over", func(
			ctx context.Context, _ *workspace.Engine, space *workspace.Workspace,
		) {
			Expect(space.TakeOver(ctx, installation())).To(Succeed())
		}),
	)

	It("keeps a state that cannot be saved", func(ctx context.Context) {
		unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
		Expect(os.MkdirAll(filepath.Dir(unsaved), 0o700)).To(Succeed())
		Expect(os.WriteFile(unsaved, []byte(`{"version":99}`), 0o600)).To(Succeed())
		space := open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(MatchError(ContainSubstring(unsaved)))
		Expect(space.Close()).To(Succeed())
		Expect(os.ReadFile(unsaved)).To(BeEquivalentTo(`{"version":99}`))
	})

	It("finds instances again whose keys are quoted in addresses", func(ctx context.Context) {
		keyed := prepare(ctx, engine, `resource "terraform_data" "a" {
  for_each = toset(["$${a}", "%%{b}", "c\"d", "e\\f", "g\u0007\u2028h"])
  input    = each.key
}`)
		space := open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, keyed, nil)).To(Succeed())
		Expect(space.Forget(ctx, installation(), `terraform_data.a["$${a}"]`, `terraform_data.a["c\"d"]`)).To(Succeed())
		state, err := space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Instances).To(ContainElements(`terraform_data.a["%%{b}"]`, `terraform_data.a["e\\f"]`,
			`terraform_data.a["g\u0007\u2028h"]`))
		Expect(state.Has(`terraform_data.a["$${a}"]`)).To(BeFalse())
		Expect(state.Has(`terraform_data.a["c\"d"]`)).To(BeFalse())
		Expect(space.Close()).To(Succeed())
	})

	It("can be set aside with a state that cannot be saved, and its name used again", func(ctx context.Context) {
		unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
		space := open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(space.Close()).To(Succeed())
		Expect(os.MkdirAll(filepath.Dir(unsaved), 0o700)).To(Succeed())
		Expect(os.WriteFile(unsaved, []byte(`{"version":99}`), 0o600)).To(Succeed())
		space = open(ctx, engine, "b-1")
		Expect(space.SetAside(ctx, installation())).To(MatchRegexp("^aside-b-1-[0-9]+$"))
		Expect(space.Close()).To(Succeed())
		kept, err := filepath.Glob(filepath.Join(s.cache, "unreadable-b-1-*.tfstate"))
		Expect(err).NotTo(HaveOccurred())
		Expect(kept).To(HaveLen(1))
		Expect(readFile(kept[0])).To(BeEquivalentTo(`{"version":99}`))

		space = open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(space.Close()).To(Succeed())
		Expect(s.runs()).To(BeEmpty())
	})

	It("is one of ten that are created at the same time", func(ctx context.Context) {
		var group sync.WaitGroup
		for n := range 10 {
			group.Go(func() {
				defer GinkgoRecover()
				path := filepath.Join(s.entries, fmt.Sprint(n))
				Expect(os.Mkdir(path, 0o700)).To(Succeed())
				space := open(ctx, engine, fmt.Sprintf("b-%d", n))
				Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
				Expect(space.Apply(ctx, prepared, map[string]any{"path": path})).To(Succeed())
				Expect(space.Close()).To(Succeed())
				Expect(filepath.Join(path, "account")).To(BeARegularFile())
			})
		}
		group.Wait()
		Expect(s.workspaces()).To(HaveLen(10))
	})

	DescribeTable("must have a name that is",
		func(ctx context.Context, name string) {
			_, err := engine.Open(ctx, name)
			Expect(err).To(MatchError(ContainSubstring("the name must consist of")))
		},
		Entry("not empty", ""), Entry("not a path", "../b-1"), Entry("without dots", "b-1.lock"),
		Entry("not the default one", "default"),
	)
})

// dropFromState removes the resources with a name from a state file.
func dropFromState(path, name string) {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	var state map[string]any
	Expect(json.Unmarshal(text, &state)).To(Succeed())
	var kept []any
	for _, r := range state["resources"].([]any) {
		if r.(map[string]any)["name"] != name {
			kept = append(kept, r)
		}
	}
	state["resources"] = kept
	text, err = json.Marshal(state)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
}
