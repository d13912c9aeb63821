package workspace_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/spec/kit"
)

// runPlainTofu runs OpenTofu alone, in a named workspace of a store in s3, as earlier releases did.
func (s store) runPlainTofu(ctx context.Context, version, space string, args ...string) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	config, err := json.Marshal(s.backend.Config)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "main.tf"), []byte("terraform {\n  backend \"s3\" {}\n}\n"), 0o600)).To(
		Succeed())
	var output []byte
	run := func(space string, args ...string) {
		GinkgoHelper()
		run := exec.CommandContext(ctx, kit.OpenTofu(GinkgoT(), version), args...)
		run.Dir, run.Env = dir, []string{"HOME=" + dir, "TF_WORKSPACE=" + space, "TF_CLI_CONFIG_FILE=" + os.DevNull}
		output, err = run.CombinedOutput()
		Expect(err == nil).To(BeTrue(), "%s", output)
	}
	run("default", "init", "-backend-config=config.json")
	run(space, args...)
	return string(output)
}

// expectUnsavedStateNotStored asserts that a state that could not be saved in a working directory of the workspace b-1,
// which does not exist, is not stored when the workspace is read. The state is that of b-2, the only stored one.
func expectUnsavedStateNotStored(ctx context.Context, s site, engine *workspace.Engine, workingDir string) {
	GinkgoHelper()
	dir := filepath.Join(s.cache, "runs", "b-1", workingDir)
	Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "errored.tfstate"), readFile(s.store.object("env:/b-2/state")),
		0o600)).To(Succeed())
	space := open(ctx, engine, "b-1")
	Expect(space.State(ctx, installation())).To(BeNil())
	Expect(space.Close()).To(Succeed())
	Expect(s.store.contents()).To(Equal([]string{"env:/b-2/state"}))
}

// siteOnS3 returns a site whose states are in s3, with an engine.
func siteOnS3(ctx context.Context) (site, *workspace.Engine) {
	GinkgoHelper()
	s := newSite()
	s.store = newStore(ctx, "s3")
	return s, s.engine()
}

var _ = Describe("a workspace in s3", func() {
	DescribeTable("is stored where earlier releases stored it", func(
		ctx context.Context, version string, settings map[string]any, object string,
	) {
		s := newSite()
		s.store = newStore(ctx, "s3")
		maps.Copy(s.store.backend.Config, settings)
		s.store.backend.Config["use_lockfile"] = true
		engine := s.engine()
		i := installation()
		i.Binary, i.Version = kit.OpenTofu(GinkgoT(), version), version
		prepared, err := engine.Prepare(ctx, i, templates.Template{Files: map[string]string{"main.tf": oneEntry}})
		Expect(err).NotTo(HaveOccurred())
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, i, []byte("the record"))).To(Succeed())
		Expect(s.store.contents()).To(Equal([]string{object}))
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(s.store.contents()).To(Equal([]string{object}))

		Expect(strings.Fields(s.store.runPlainTofu(ctx, version, "default", "workspace", "list"))).To(
			ContainElement("b-1"))
		Expect(s.store.runPlainTofu(ctx, version, "b-1", "state", "pull")).To(ContainSubstring("the record"))
		s.store.runPlainTofu(ctx, version, "b-1", "state", "rm", "directory_entry.account")
		state, err := space.State(ctx, i)
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Resources).To(BeEmpty())
		Expect(space.Remove(ctx, i)).To(Succeed())
		Expect(s.store.contents()).To(BeEmpty())
	},
		Entry("with the usual settings", kit.Newest, nil, "env:/b-1/state"),
		Entry("with an older OpenTofu", kit.Slow(), kit.Older, nil, "env:/b-1/state"),
		Entry("with a prefix", kit.Newest, map[string]any{"workspace_key_prefix": "a/b", "key": "c/d"}, "a/b/b-1/c/d"),
		Entry("without a prefix", kit.Slow(), kit.Newest, map[string]any{"workspace_key_prefix": ""}, "b-1/state"),
		Entry("with a key that is not a text", kit.Slow(), kit.Newest, map[string]any{"key": 5}, "env:/b-1/5"),
	)

	It("is visible under its name to a template that asks for it", func(ctx context.Context) {
		s, engine := siteOnS3(ctx)
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		prepared := prepare(ctx, engine,
			oneEntry+`output "name" { value = "${terraform.workspace} ${tofu.workspace}" }`)
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Outputs(ctx, prepared)).To(HaveKeyWithValue("name", "b-1 b-1"))
		Expect(s.store.contents()).To(Equal([]string{"env:/b-1/state"}))
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Remove(ctx, installation())).To(Succeed())
		Expect(s.store.contents()).To(BeEmpty())
	})

	It("does not exist if its reservation could not be stored", func(ctx context.Context) {
		s, engine := siteOnS3(ctx)
		other := open(ctx, engine, "b-2")
		DeferCleanup(other.Close)
		Expect(other.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		expectUnsavedStateNotStored(ctx, s, engine, "base")
		Expect(filepath.Glob(filepath.Join(s.cache, "superseded-*"))).To(BeEmpty())
		Expect(filepath.Join(s.cache, "runs", "b-1")).NotTo(BeAnExistingFile())
	})

	It("that was deleted is not created again by a state that could not be saved", func(ctx context.Context) {
		s, _ := siteOnS3(ctx)
		var log lockedBuffer
		options := s.options()
		options.Logger = slog.New(slog.NewTextHandler(&log, nil))
		engine, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		other := open(ctx, engine, "b-2")
		DeferCleanup(other.Close)
		Expect(other.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		builtin := prepare(ctx, engine, `resource "terraform_data" "lost" {}`)
		Expect(other.Apply(ctx, builtin, nil)).To(Succeed())
		expectUnsavedStateNotStored(ctx, s, engine, "apply")
		Expect(filepath.Glob(filepath.Join(s.cache, "superseded-*"))).To(HaveLen(1))
		Expect(log.String()).To(MatchRegexp(
			`level=WARN.*set aside.* reason="its workspace has been deleted since".*terraform_data.lost`))
	})

	DescribeTable("is rejected if OpenTofu stores its settings",
		func(ctx context.Context, metadata string) {
			s, engine := siteOnS3(ctx)
			i := installation()
			program := filepath.Join(GinkgoT().TempDir(), "tofu")
			const script = "#!/bin/sh\n%s \"$@\" || exit\n" +
				"test \"$1\" != init || printf %%s '%s' >.terraform/terraform.tfstate\n"
			Expect(os.WriteFile(program, fmt.Appendf(nil, script, i.Binary, metadata), 0o700)).To(Succeed())
			i.Binary = program
			space := open(ctx, engine, "b-1")
			DeferCleanup(space.Close)
			Expect(space.Reserve(ctx, i, []byte("record"))).To(MatchError(ContainSubstring("choosing the workspace")))
			Expect(s.store.contents()).To(BeEmpty())
		},
		Entry("not at all", ""),
		Entry("under another name", `{"backend": {"type": "s3", "settings": {"key": "k"}}}`),
		Entry("for another backend", `{"backend": {"type": "s4", "config": {"key": "k"}}}`),
		Entry("without names", "[]"),
	)
})
