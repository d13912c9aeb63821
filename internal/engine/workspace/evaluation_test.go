package workspace_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/spec/kit"
)

// withCommand returns a template with a resource whose destroy-time command writes a file, followed by text that cannot
// be evaluated for the role "admin".
func withCommand(file, failing string) string {
	return `
resource "terraform_data" "account" {
  input = "account"
  provisioner "local-exec" {
    when    = destroy
    command = "echo deleted >> ` + file + `"
  }
}
` + failing
}

// failures are texts that cannot be evaluated for the role "admin", by description.
var failures = map[string]string{
	"an index": `
variable "role" { type = string }
resource "terraform_data" "b" {
  input = { reader = "r", writer = "w" }[var.role]
}`,
	"a validation": `
variable "role" {
  type = string
  validation {
    condition     = var.role != "admin"
    error_message = "The role must not be admin."
  }
}`,
	"a data source": `
variable "role" { type = string }
data "terraform_remote_state" "other" {
  count   = var.role == "admin" ? 1 : 0
  backend = "local"
  config  = { path = "/nowhere" }
}`,
}

var _ = Describe("a template that can no longer be evaluated", func() {
	for _, version := range []string{kit.Newest, kit.Older, kit.Oldest} {
		for name, failing := range failures {
			It("is destroyed with its destroy-time commands: "+
				name+", "+version, kit.SlowIf(version != kit.Newest), func(ctx context.Context) {
				s := newSite()
				engine := s.engine()
				installation := opentofu.Installation{Binary: kit.OpenTofu(GinkgoT(), version), Version: version}
				deleted := filepath.Join(GinkgoT().TempDir(), "deleted")
				files := map[string]string{"main.tf": withCommand(deleted, failing)}
				prepared, err := engine.Prepare(ctx, installation, templates.Template{Files: files})
				Expect(err).NotTo(HaveOccurred())
				space := open(ctx, engine, "b-1")
				DeferCleanup(space.Close)
				Expect(space.Reserve(ctx, installation, []byte("record"))).To(Succeed())
				Expect(space.Apply(ctx, prepared, map[string]any{"role": "reader"})).To(Succeed())
				Expect(deleted).NotTo(BeAnExistingFile())

				Expect(space.Destroy(ctx, prepared, map[string]any{"role": "admin"})).To(Succeed())
				Expect(os.ReadFile(deleted)).To(BeEquivalentTo("deleted\n"))
				Expect(space.Remove(ctx, installation)).To(Succeed())
				Expect(s.workspaces()).To(BeEmpty())
			})
		}
	}

	It("is an error if a provider block cannot be evaluated", func(ctx context.Context) {
		s := newSite()
		engine := s.engine()
		prepared := prepare(ctx, engine, oneEntry+`
variable "role" { type = string }
provider "directory" {
  password = { reader = "r" }[var.role]
}`)
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		vars := s.vars()
		vars["role"] = "reader"
		Expect(space.Apply(ctx, prepared, vars)).To(Succeed())
		vars["role"] = "admin"
		Expect(space.Destroy(ctx, prepared, vars)).To(MatchError(ContainSubstring("Invalid index")))
		Expect(filepath.Join(s.entries, "account")).To(BeARegularFile())
	})
})
