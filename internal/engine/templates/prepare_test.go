package templates_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/provider"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/hclfile"
)

// directories returns the prepared directories in a cache directory.
func directories(cache string) []string {
	GinkgoHelper()
	paths, err := filepath.Glob(filepath.Join(cache, "prepared", "[^.]*"))
	Expect(err).NotTo(HaveOccurred())
	return paths
}

// prepare returns the prepared directory of a template with one file.
func prepare(ctx context.Context, cache *templates.Cache, text string, inputs ...string) *templates.Prepared {
	GinkgoHelper()
	prepared, err := cache.Prepare(ctx, installation(),
		templates.Template{Files: map[string]string{"main.tf": text}, Inputs: inputs})
	Expect(err).NotTo(HaveOccurred())
	return prepared
}

var _ = Describe("Prepare", func() {
	var (
		cacheDir string
		cache    *templates.Cache
	)

	BeforeEach(func() {
		cacheDir = GinkgoT().TempDir()
		cache = newCache(cacheDir)
	})

	It("returns the variables and outputs of the template, the second time from the cache", func(ctx context.Context) {
		text := oneEntry + `variable "password" { 
  default   = ""
  sensitive = true
}
locals { x = var.extra }
`
		for range 2 {
			prepared := prepare(ctx, cache, text, "extra", "unused")
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
		Expect(directories(cacheDir)).To(HaveLen(1))
	})

	It("builds a new directory for every change", func(ctx context.Context) {
		prepare(ctx, cache, oneEntry)
		prepare(ctx, cache, oneEntry+"# changed\n")
		options := optionsOf(cacheDir)
		options.Backend = backend.Local("/another")
		other, err := templates.New(options)
		Expect(err).NotTo(HaveOccurred())
		prepare(ctx, other, oneEntry)
		i := installation()
		i.Providers = i.Providers[:1]
		_, err = cache.Prepare(ctx, i, templates.Template{Files: map[string]string{"main.tf": oneEntry}})
		Expect(err).NotTo(HaveOccurred())
		Expect(directories(cacheDir)).To(HaveLen(4))
	})

	It("builds a directory once when many need it at the same time", func(ctx context.Context) {
		var group sync.WaitGroup
		for range 5 {
			group.Go(func() {
				defer GinkgoRecover()
				prepare(ctx, newCache(cacheDir), oneEntry)
			})
		}
		group.Wait()
		Expect(directories(cacheDir)).To(HaveLen(1))
		Expect(filepath.Glob(filepath.Join(cacheDir, "prepared", ".new-*"))).To(BeEmpty())
	})

	It("removes the files of an interrupted build", func(ctx context.Context) {
		abandoned := filepath.Join(cacheDir, "prepared", ".new-1")
		Expect(os.Mkdir(abandoned, 0o700)).To(Succeed())
		prepare(ctx, cache, oneEntry)
		Expect(abandoned).NotTo(BeAnExistingFile())
	})

	DescribeTable("rejects a template",
		func(ctx context.Context, text, message string) {
			_, err := cache.Prepare(ctx, installation(),
				templates.Template{Files: map[string]string{"main.tf": text}, Inputs: []string{"size"}})
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(directories(cacheDir)).To(BeEmpty())
			Expect(filepath.Glob(filepath.Join(cacheDir, "prepared", ".new-*"))).To(BeEmpty())
		},
		Entry("with a misspelt input", "locals {\n  a = var.sise\n}",
			"main.tf:2:7: var.sise is neither declared by a variable block nor an input of the action "+
				"[undeclared-variable]"),
		Entry("with a reserved name", `resource "terraform_data" "_binding" {}`,
			`the name "_binding" of this resource is reserved`),
		Entry("with a provider that is not installed", `resource "null_resource" "x" {}`,
			"preparing OpenTofu: OpenTofu init ended with exit status 1: "+
				"Failed to query available provider packages: "),
		Entry("with a resource without a name", `resource "directory_entry" {}`,
			"main.tf:1:28: Missing name for resource: "),
		Entry("that OpenTofu cannot read", "resource \"terraform_data\" \"a\" {}\nresource \"terraform_data\" \"a\" {}",
			"OpenTofu init ended with exit status 1: "),
	)

	DescribeTable("rejects an installation",
		func(ctx context.Context, change func(i *opentofu.Installation, dir string), message string) {
			i, dir := installation(), GinkgoT().TempDir()
			change(&i, dir)
			_, err := cache.Prepare(ctx, i, templates.Template{Files: map[string]string{"main.tf": oneEntry}})
			Expect(err).To(MatchError(And(ContainSubstring(message), ContainSubstring(dir))))
		},
		Entry("whose tofu is missing",
			func(i *opentofu.Installation, dir string) { i.Binary = filepath.Join(dir, "tofu") },
			"finding OpenTofu"),
		Entry("whose tofu is a directory", func(i *opentofu.Installation, dir string) { i.Binary = dir },
			"regular file"),
		Entry("whose tofu may not be executed", func(i *opentofu.Installation, dir string) {
			i.Binary = filepath.Join(dir, "tofu")
			Expect(os.WriteFile(i.Binary, nil, 0o600)).To(Succeed())
		}, "not mounted noexec"),
		Entry("whose tofu is not a program", func(i *opentofu.Installation, dir string) {
			i.Binary = filepath.Join(dir, "tofu")
			Expect(os.WriteFile(i.Binary, []byte("text"), 0o700)).To(Succeed())
		}, "exec format error"),
		Entry("whose provider may not be executed", func(i *opentofu.Installation, dir string) {
			i.Providers[0].File = filepath.Join(dir, "provider")
			Expect(os.WriteFile(i.Providers[0].File, nil, 0o600)).To(Succeed())
		}, `provider registry.terraform.io/service-adapter/directory "`),
		Entry("whose provider has an invalid name",
			func(i *opentofu.Installation, dir string) { i.Providers[0].FQN = dir + "/.." },
			"must be named host/namespace/type"),
	)

	It("builds the directory again when the file of a provider changed", func(ctx context.Context) {
		file := filepath.Join(GinkgoT().TempDir(), "provider")
		text, err := os.ReadFile(installation().Providers[0].File)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(file, text, 0o700)).To(Succeed())
		i := installation()
		i.Providers[0].File = file
		for _, modified := range []time.Time{time.Unix(1, 0), time.Unix(2, 0)} {
			Expect(os.Chtimes(file, modified, modified)).To(Succeed())
			_, err = cache.Prepare(ctx, i, templates.Template{Files: map[string]string{"main.tf": oneEntry}})
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(directories(cacheDir)).To(HaveLen(2))
	})
})
