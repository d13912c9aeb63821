package tofu_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/hclfile"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/opentofu/provider"
	"service-adapter/internal/tofu"
)

// directories are the prepared directories of a cache.
func directories(cache string) []string {
	GinkgoHelper()
	found, err := filepath.Glob(filepath.Join(cache, "prepared", "[^.]*"))
	Expect(err).NotTo(HaveOccurred())
	return found
}

// snapshot describes every file below a directory.
func snapshot(dir string) map[string]string {
	GinkgoHelper()
	files := map[string]string{}
	Expect(filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		content := ""
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = fmt.Sprintf("%x", sha256.Sum256(text))
		}
		files[path] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano(), content)
		return nil
	})).To(Succeed())
	return files
}

var _ = Describe("Prepare", func() {
	var (
		s      site
		engine *tofu.Engine
	)

	BeforeEach(func() {
		s = newSite()
		engine = s.engine()
	})

	It("tells what the template takes and gives, the second time from the cache", func(ctx context.Context) {
		text := oneEntry + `variable "password" { 
  default   = ""
  sensitive = true
}
locals { x = var.extra }
`
		for range 2 {
			prepared := prepare(ctx, engine, text, "extra", "unused")
			Expect(prepared.Variables).To(HaveLen(5))
			Expect(prepared.Variables).To(And(HaveKey("path"), HaveKeyWithValue("extra", hclfile.Variable{})))
			for _, name := range []string{"content", "fail", "password"} {
				Expect(prepared.Variables[name].HasDefault).To(BeTrue(), name)
				Expect(prepared.Variables[name].Sensitive).To(Equal(name == "password"), name)
			}
			Expect(prepared.Outputs).To(Equal([]string{"nothing", "ports", "secret"}))
			Expect(prepared.Shared).To(Equal([]provider.Shared{{
				Address: "registry.terraform.io/service-adapter/directory", File: installation().Providers[0].File,
			}}))
		}
		Expect(directories(s.cache)).To(HaveLen(1))
	})

	It("makes a new directory for whatever changes", func(ctx context.Context) {
		prepare(ctx, engine, oneEntry)
		prepare(ctx, engine, oneEntry+"# changed\n")
		options := s.options()
		options.Backend = tofu.Local(s.state + "-2")
		other, err := tofu.New(options)
		Expect(err).NotTo(HaveOccurred())
		prepare(ctx, other, oneEntry)
		i := installation()
		i.Providers = i.Providers[:1]
		_, err = engine.Prepare(ctx, i, tofu.Template{Files: map[string]string{"main.tf": oneEntry}})
		Expect(err).NotTo(HaveOccurred())
		Expect(directories(s.cache)).To(HaveLen(4))
	})

	It("is done once when many ask at the same time", func(ctx context.Context) {
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				defer GinkgoRecover()
				prepare(ctx, s.engine(), oneEntry)
			})
		}
		group.Wait()
		Expect(directories(s.cache)).To(HaveLen(1))
		Expect(filepath.Glob(filepath.Join(s.cache, "prepared", ".new-*"))).To(BeEmpty())
	})

	It("uses a directory that was prepared elsewhere and changes nothing in it", func(ctx context.Context) {
		prepare(ctx, engine, oneEntry)
		workspace := open(ctx, engine, "warm")
		_, err := workspace.State(ctx, installation()) // prepares the base directory
		Expect(err).NotTo(HaveOccurred())
		Expect(workspace.Close()).To(Succeed())
		before := snapshot(s.cache)

		options := s.options()
		options.CacheDir, options.PreparedDir = s.cache+"-2", s.cache
		second, err := tofu.New(options)
		Expect(err).NotTo(HaveOccurred())
		prepared := prepare(ctx, second, oneEntry)
		workspace = open(ctx, second, "b-1")
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(workspace.Remove(ctx, installation())).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
		Expect(snapshot(s.cache)).To(Equal(before))
		Expect(directories(options.CacheDir)).To(BeEmpty())
	})

	It("removes what an interrupted one left", func(ctx context.Context) {
		left := filepath.Join(s.cache, "prepared", ".new-1")
		Expect(os.Mkdir(left, 0o700)).To(Succeed())
		prepare(ctx, engine, oneEntry)
		Expect(left).NotTo(BeAnExistingFile())
	})

	DescribeTable("finds a provider under both registries",
		func(ctx context.Context, fqn, source string) {
			i := installation()
			i.Providers[1].FQN = fqn
			text := `resource "random_password" "p" { length = 12 }` + "\noutput \"password\" { value = random_password.p.result }\n"
			if source != "" {
				text += fmt.Sprintf("terraform {\n required_providers {\n random = { source = %q }\n }\n}\n", source)
			}
			prepared, err := engine.Prepare(ctx, i, tofu.Template{Files: map[string]string{"template.tf": text}})
			Expect(err).NotTo(HaveOccurred())
			workspace := open(ctx, engine, "b-1")
			DeferCleanup(workspace.Close)
			Expect(workspace.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(workspace.Apply(ctx, prepared, nil)).To(Succeed())
			outputs, err := workspace.Outputs(ctx, prepared)
			Expect(err).NotTo(HaveOccurred())
			Expect(outputs["password"]).To(HaveLen(12))
		},
		Entry("one of registry.terraform.io without required_providers", "registry.terraform.io/hashicorp/random", ""),
		Entry("one of registry.opentofu.org without required_providers", "registry.opentofu.org/hashicorp/random", ""),
		Entry("a short source", "registry.terraform.io/hashicorp/random", "hashicorp/random"),
		Entry("the other registry", "registry.opentofu.org/hashicorp/random", "registry.terraform.io/hashicorp/random"),
		Entry("the same registry", "registry.terraform.io/hashicorp/random", "registry.terraform.io/hashicorp/random"),
		Entry("a host of one's own", "example.com/hashicorp/random", "example.com/hashicorp/random"),
	)

	It("declares inputs that have no variable block", func(ctx context.Context) {
		prepared := prepare(ctx, engine, `output "all" { value = [var.text, var.list, var.object, var.null] }`, "text", "list", "object", "null")
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(workspace.Apply(ctx, prepared, map[string]any{
			"text": "${var.x}", "list": []any{int64(1), "b"}, "object": map[string]any{"a": true}, "null": nil,
		})).To(Succeed())
		outputs, err := workspace.Outputs(ctx, prepared)
		Expect(err).NotTo(HaveOccurred())
		Expect(outputs).To(HaveKeyWithValue("all", []any{"${var.x}", []any{int64(1), "b"}, map[string]any{"a": true}, nil}))
	})

	It("replaces the backend that a template chooses", func(ctx context.Context) {
		prepared := prepare(ctx, engine, oneEntry+"terraform {\n backend \"s3\" {\n bucket = \"b\"\n }\n}\n")
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(s.workspaces()).To(Equal([]string{"b-1"}))
	})

	DescribeTable("refuses a template",
		func(ctx context.Context, text, message string) {
			_, err := engine.Prepare(ctx, installation(), tofu.Template{Files: map[string]string{"main.tf": text}, Inputs: []string{"size"}})
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(directories(s.cache)).To(BeEmpty())
			Expect(filepath.Glob(filepath.Join(s.cache, "prepared", ".new-*"))).To(BeEmpty())
		},
		Entry("with a misspelt input", "locals {\n  a = var.sise\n}",
			"main.tf:2:7: var.sise is neither declared by a variable block nor an input of the action [undeclared-variable]"),
		Entry("with a reserved name", `resource "terraform_data" "_binding" {}`, `the name "_binding" of this resource is reserved`),
		Entry("with a provider that is not installed", `resource "null_resource" "x" {}`,
			"preparing OpenTofu: OpenTofu init ended with exit status 1: Failed to query available provider packages: "),
		Entry("with a resource without a name", `resource "directory_entry" {}`, "main.tf:1:28: Missing name for resource: "),
		Entry("that OpenTofu cannot read", "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"a\" {}",
			"OpenTofu init ended with exit status 1: "),
	)

	DescribeTable("refuses an installation",
		func(ctx context.Context, change func(i *opentofu.Installation, dir string), message string) {
			i, dir := installation(), GinkgoT().TempDir()
			change(&i, dir)
			_, err := engine.Prepare(ctx, i, tofu.Template{Files: map[string]string{"main.tf": oneEntry}})
			Expect(err).To(MatchError(And(ContainSubstring(message), ContainSubstring(dir))))
		},
		Entry("whose tofu is missing", func(i *opentofu.Installation, dir string) { i.Binary = filepath.Join(dir, "tofu") }, "looking for OpenTofu"),
		Entry("whose tofu is a directory", func(i *opentofu.Installation, dir string) { i.Binary = dir }, "regular file"),
		Entry("whose tofu may not be executed", func(i *opentofu.Installation, dir string) {
			i.Binary = filepath.Join(dir, "tofu")
			Expect(os.WriteFile(i.Binary, nil, 0o600)).To(Succeed())
		}, "not mounted noexec"),
		Entry("whose tofu is no program", func(i *opentofu.Installation, dir string) {
			i.Binary = filepath.Join(dir, "tofu")
			Expect(os.WriteFile(i.Binary, []byte("text"), 0o700)).To(Succeed())
		}, "exec format error"),
		Entry("whose provider may not be executed", func(i *opentofu.Installation, dir string) {
			i.Providers[0].File = filepath.Join(dir, "provider")
			Expect(os.WriteFile(i.Providers[0].File, nil, 0o600)).To(Succeed())
		}, `provider registry.terraform.io/service-adapter/directory "`),
		Entry("whose provider has a bad name", func(i *opentofu.Installation, dir string) { i.Providers[0].FQN = dir + "/.." },
			"must be named host/namespace/type"),
	)

	It("prepares again when a provider's file changed", func(ctx context.Context) {
		file := filepath.Join(GinkgoT().TempDir(), "provider")
		text, err := os.ReadFile(installation().Providers[0].File)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file, text, 0o700)).To(Succeed())
		i := installation()
		i.Providers[0].File = file
		for _, modified := range []time.Time{time.Unix(1, 0), time.Unix(2, 0)} {
			Expect(os.Chtimes(file, modified, modified)).To(Succeed())
			_, err = engine.Prepare(ctx, i, tofu.Template{Files: map[string]string{"main.tf": oneEntry}})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(directories(s.cache)).To(HaveLen(2))
	})
})
