package tofu_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/tofu"
	"service-adapter/spec/kit"
)

// plain runs OpenTofu alone, with all workspaces of a store in s3 before it, as earlier releases did.
func (s store) plain(ctx context.Context, version, workspace string, args ...string) string {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	config, err := json.Marshal(s.backend.Config)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "main.tf"), []byte("terraform {\n  backend \"s3\" {}\n}\n"), 0o600)).To(Succeed())
	var said []byte
	run := func(workspace string, args ...string) {
		GinkgoHelper()
		run := exec.CommandContext(ctx, kit.OpenTofu(GinkgoT(), version), args...)
		run.Dir, run.Env = dir, []string{"HOME=" + dir, "TF_WORKSPACE=" + workspace, "TF_CLI_CONFIG_FILE=" + os.DevNull}
		said, err = run.CombinedOutput()
		Expect(err == nil).To(BeTrue(), "%s", said)
	}
	run("default", "init", "-backend-config=config.json")
	run(workspace, args...)
	return string(said)
}

// siteOnS3 is a site whose states are in s3, with an engine.
func siteOnS3(ctx context.Context) (site, *tofu.Engine) {
	GinkgoHelper()
	s := newSite()
	s.store = newStore(ctx, "s3")
	return s, s.engine()
}

var _ = Describe("a workspace in s3", func() {
	DescribeTable("is where earlier releases have it", func(ctx context.Context, version string, settings map[string]any, object string) {
		s := newSite()
		s.store = newStore(ctx, "s3")
		maps.Copy(s.store.backend.Config, settings)
		s.store.backend.Config["use_lockfile"] = true
		engine := s.engine()
		i := installation()
		i.Binary, i.Version = kit.OpenTofu(GinkgoT(), version), version
		prepared, err := engine.Prepare(ctx, i, tofu.Template{Files: map[string]string{"main.tf": oneEntry}})
		Expect(err).NotTo(HaveOccurred())
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, i, []byte("the record"))).To(Succeed())
		Expect(s.store.left()).To(Equal([]string{object}))
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(s.store.left()).To(Equal([]string{object}))

		Expect(strings.Fields(s.store.plain(ctx, version, "default", "workspace", "list"))).To(ContainElement("b-1"))
		Expect(s.store.plain(ctx, version, "b-1", "state", "pull")).To(ContainSubstring("the record"))
		s.store.plain(ctx, version, "b-1", "state", "rm", "directory_entry.account")
		state, err := workspace.State(ctx, i)
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Resources).To(BeEmpty())
		Expect(workspace.Remove(ctx, i)).To(Succeed())
		Expect(s.store.left()).To(BeEmpty())
	},
		Entry("with the settings that are usual", kit.Newest, nil, "env:/b-1/state"),
		Entry("with an older OpenTofu", kit.Slow(), kit.Older, nil, "env:/b-1/state"),
		Entry("with a prefix", kit.Newest, map[string]any{"workspace_key_prefix": "a/b", "key": "c/d"}, "a/b/b-1/c/d"),
		Entry("without a prefix", kit.Slow(), kit.Newest, map[string]any{"workspace_key_prefix": ""}, "b-1/state"),
		Entry("with a key that is no text", kit.Slow(), kit.Newest, map[string]any{"key": 5}, "env:/b-1/5"),
	)

	It("has its name for a template that asks for it", func(ctx context.Context) {
		s, engine := siteOnS3(ctx)
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		prepared := prepare(ctx, engine, oneEntry+`output "name" { value = "${terraform.workspace} ${tofu.workspace}" }`)
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Outputs(ctx, prepared)).To(HaveKeyWithValue("name", "b-1 b-1"))
		Expect(s.store.left()).To(Equal([]string{"env:/b-1/state"}))
		Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Remove(ctx, installation())).To(Succeed())
		Expect(s.store.left()).To(BeEmpty())
	})

	It("is not there when its reservation could not be stored", func(ctx context.Context) {
		s, engine := siteOnS3(ctx)
		other := open(ctx, engine, "b-2")
		DeferCleanup(other.Close)
		Expect(other.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		place := filepath.Join(s.cache, "runs", "b-1", "base")
		Expect(os.MkdirAll(place, 0o700)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(place, "errored.tfstate"), read(s.store.object("env:/b-2/state")), 0o600)).To(Succeed())

		workspace := open(ctx, engine, "b-1")
		Expect(workspace.State(ctx, installation())).To(BeNil())
		Expect(workspace.Close()).To(Succeed())
		Expect(s.store.left()).To(Equal([]string{"env:/b-2/state"}))
		Expect(filepath.Glob(filepath.Join(s.cache, "superseded-*"))).To(BeEmpty())
		Expect(filepath.Join(s.cache, "runs", "b-1")).NotTo(BeAnExistingFile())
	})

	It("is refused where OpenTofu notes its settings in another way", func(ctx context.Context) {
		s, engine := siteOnS3(ctx)
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.State(ctx, installation())).To(BeNil())
		noted, err := filepath.Glob(filepath.Join(s.cache, "prepared", "*", "apply", ".terraform", "terraform.tfstate"))
		Expect(err).NotTo(HaveOccurred())
		Expect(noted).To(HaveLen(1))
		for _, text := range []string{"", `{"backend": {"type": "s3", "settings": {"key": "k"}}}`, `{"backend": {"type": "s4", "config": {"key": "k"}}}`, "[]"} {
			Expect(os.WriteFile(noted[0], []byte(text), 0o600)).To(Succeed())
			Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(MatchError(ContainSubstring("choosing the workspace")), text)
			Expect(s.store.left()).To(BeEmpty())
		}
	})
})
