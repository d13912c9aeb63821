package templates_test

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/spec/kit"
)

func TestTemplates(t *testing.T) {
	kit.Suite(t, "internal/engine/templates")
}

// installation returns OpenTofu with the test providers.
func installation() opentofu.Installation {
	build := kit.Path("build")
	return opentofu.Installation{
		Binary:  kit.Built(GinkgoT(), kit.OpenTofuPath(kit.Newest)),
		Version: kit.Newest,
		Providers: []opentofu.Provider{
			{
				FQN: "registry.terraform.io/service-adapter/directory", Version: "1.0.0",
				File: kit.Built(GinkgoT(), filepath.Join(build, "providers", "terraform-provider-directory")),
			},
			{
				FQN: "registry.terraform.io/hashicorp/random", Version: "3.6.0",
				File: kit.Built(GinkgoT(), filepath.Join(build, "providers", "terraform-provider-random")),
			},
		},
	}
}

// optionsOf returns the options of a cache in a directory, with the local backend.
func optionsOf(cacheDir string) templates.Options {
	logger := slog.New(slog.DiscardHandler)
	return templates.Options{
		CacheDir: cacheDir, Backend: backend.Local(filepath.Join(cacheDir, "state")),
		Runner: opentofu.Runner{Grace: time.Minute, Logger: logger}, Logger: logger,
	}
}

// newCache returns a new cache in a directory.
func newCache(cacheDir string) *templates.Cache {
	GinkgoHelper()
	cache, err := templates.New(optionsOf(cacheDir))
	Expect(err).NotTo(HaveOccurred())
	return cache
}

// oneEntry is a template with one entry of a directory.
const oneEntry = `
terraform {
  required_providers {
    directory = { source = "registry.terraform.io/service-adapter/directory" }
  }
}
variable "path" { type = string }
variable "content" {
  type    = string
  default = "nothing"
}
variable "fail" {
  type    = string
  default = null
}
resource "directory_entry" "account" {
  path    = var.path
  name    = "account"
  content = var.content
  fail    = var.fail
}
output "secret" { value = directory_entry.account.secret }
output "ports" { value = [1e6, 5.5] }
output "nothing" { value = null }
`
