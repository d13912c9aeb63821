package workspace_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// directories returns the prepared directories in a cache directory.
func directories(cache string) []string {
	GinkgoHelper()
	paths, err := filepath.Glob(filepath.Join(cache, "prepared", "[^.]*"))
	Expect(err).NotTo(HaveOccurred())
	return paths
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
		engine *workspace.Engine
	)

	BeforeEach(func() {
		s = newSite()
		engine = s.engine()
	})

	It("uses a directory that was prepared elsewhere, without changing it", func(ctx context.Context) {
		prepare(ctx, engine, oneEntry)
		space := open(ctx, engine, "warm")
		_, err := space.State(ctx, installation()) // builds the base directory
		Expect(err).NotTo(HaveOccurred())
		Expect(space.Close()).To(Succeed())
		before := snapshot(s.cache)

		options := s.options()
		options.CacheDir, options.PreparedDir = s.cache+"-2", s.cache
		second, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		prepared := prepare(ctx, second, oneEntry)
		space = open(ctx, second, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Destroy(ctx, prepared, s.vars())).To(Succeed())
		Expect(space.Remove(ctx, installation())).To(Succeed())
		Expect(space.Close()).To(Succeed())
		Expect(snapshot(s.cache)).To(Equal(before))
		Expect(directories(options.CacheDir)).To(BeEmpty())
	})

	DescribeTable("finds a provider under both registries",
		func(ctx context.Context, fqn, source string) {
			i := installation()
			i.Providers[1].FQN = fqn
			text := `resource "random_password" "p" { length = 12 }` + "\n" +
				"output \"password\" { value = random_password.p.result }\n"
			if source != "" {
				text += fmt.Sprintf("terraform {\n required_providers {\n random = { source = %q }\n }\n}\n", source)
			}
			prepared, err := engine.Prepare(ctx, i, templates.Template{Files: map[string]string{"template.tf": text}})
			Expect(err).NotTo(HaveOccurred())
			space := open(ctx, engine, "b-1")
			DeferCleanup(space.Close)
			Expect(space.Reserve(ctx, i, []byte("record"))).To(Succeed())
			Expect(space.Apply(ctx, prepared, nil)).To(Succeed())
			outputs, err := space.Outputs(ctx, prepared)
			Expect(err).NotTo(HaveOccurred())
			Expect(outputs["password"]).To(HaveLen(12))
		},
		Entry("one of registry.terraform.io without required_providers", "registry.terraform.io/hashicorp/random", ""),
		Entry("one of registry.opentofu.org without required_providers", "registry.opentofu.org/hashicorp/random", ""),
		Entry("a short source", "registry.terraform.io/hashicorp/random", "hashicorp/random"),
		Entry("the other registry", "registry.opentofu.org/hashicorp/random", "registry.terraform.io/hashicorp/random"),
		Entry("the same registry", "registry.terraform.io/hashicorp/random", "registry.terraform.io/hashicorp/random"),
		Entry("a private registry", "example.com/hashicorp/random", "example.com/hashicorp/random"),
	)

	It("declares inputs that have no variable block", func(ctx context.Context) {
		prepared := prepare(ctx, engine, `output "all" { value = [var.text, var.list, var.object, var.null] }`,
			"text", "list", "object", "null")
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, prepared, map[string]any{
			"text": "${var.x}", "list": []any{int64(1), "b"}, "object": map[string]any{"a": true}, "null": nil,
		})).To(Succeed())
		outputs, err := space.Outputs(ctx, prepared)
		Expect(err).NotTo(HaveOccurred())
		Expect(outputs).To(HaveKeyWithValue("all",
			[]any{"${var.x}", []any{int64(1), "b"}, map[string]any{"a": true}, nil}))
	})

	It("replaces the backend that a template selects", func(ctx context.Context) {
		prepared := prepare(ctx, engine, oneEntry+"terraform {\n backend \"s3\" {\n bucket = \"b\"\n }\n}\n")
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		Expect(space.Apply(ctx, prepared, s.vars())).To(Succeed())
		Expect(s.workspaces()).To(Equal([]string{"b-1"}))
	})
})
