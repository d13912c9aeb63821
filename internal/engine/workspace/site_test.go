package workspace_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/spec/kit/hold"
)

// providers declares the test provider.
const providers = `
terraform {
  required_providers {
    directory = { source = "registry.terraform.io/service-adapter/directory" }
  }
}
`

// oneEntry is a template with one entry of a directory, which an input can make fail.
const oneEntry = providers + `
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

// A site consists of the directories and the store that one spec uses.
type site struct {
	cache, state string
	entries      string // directory in which the provider directory stores its resources
	store        store  // the store of the states; the zero value is the directory state
}

// newSite returns a new site with the local backend.
func newSite() site {
	dir := GinkgoT().TempDir()
	s := site{
		cache: filepath.Join(dir, "cache"), state: filepath.Join(dir, "state"),
		entries: filepath.Join(dir, "entries"),
	}
	Expect(os.Mkdir(s.entries, 0o700)).To(Succeed())
	return s
}

// options returns the options of the engine.
func (s site) options() workspace.Options {
	return workspace.Options{CacheDir: s.cache, Backend: s.backend()}
}

// backend returns the state backend of the site.
func (s site) backend() backend.Backend {
	if s.store.backend.Type == "" {
		return backend.Local(s.state)
	}
	return s.store.backend
}

// engine returns a new engine of the site.
func (s site) engine() *workspace.Engine {
	engine, err := workspace.New(s.options())
	Expect(err).NotTo(HaveOccurred())
	return engine
}

// vars returns the variables of oneEntry.
func (s site) vars() map[string]any { return map[string]any{"path": s.entries} }

// workspaces returns the names of the workspaces in the state directory.
func (s site) workspaces() []string {
	entries, err := os.ReadDir(filepath.Join(s.state, "workspaces"))
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// runs returns the names of the files in the directory of scratch directories.
func (s site) runs() []string {
	files, err := filepath.Glob(filepath.Join(s.cache, "runs", "*"))
	Expect(err).NotTo(HaveOccurred())
	return files
}

// blockProvider makes the provider wait at a point. waitForProvider waits until the provider has reached the point, and
// returns its process id. releaseProvider lets the provider continue.
func (s site) blockProvider(point string) {
	Expect(os.WriteFile(filepath.Join(s.entries, ".hold-"+point), nil, 0o600)).To(Succeed())
}

func (s site) waitForProvider(point string) int {
	file := filepath.Join(s.entries, ".at-"+point)
	Eventually(file).Should(BeARegularFile())
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(string(text))
	Expect(err).NotTo(HaveOccurred())
	return pid
}

func (s site) releaseProvider(point string) {
	Expect(os.WriteFile(filepath.Join(s.entries, ".go-"+point), nil, 0o600)).To(Succeed())
}

// tofuPID returns the process id of the OpenTofu that runs for a workspace.
func (s site) tofuPID(space string) int {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(s.cache, "runs", space+".json"))
	Expect(err).NotTo(HaveOccurred())
	var holder struct {
		Tofu struct {
			PID int `json:"pid"`
		} `json:"tofu"`
	}
	Expect(json.Unmarshal(text, &holder)).To(Succeed())
	Expect(holder.Tofu.PID).To(BeNumerically(">", 1))
	return holder.Tofu.PID
}

// hasEnded returns a function that reports whether a process has ended.
func hasEnded(pid int) func() bool { return func() bool { return hold.Gone(pid) } }

// kill kills a process.
func kill(pid int) { Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed()) }

// prepare prepares a template, which must succeed.
func prepare(ctx context.Context, engine *workspace.Engine, text string, inputs ...string) *templates.Prepared {
	GinkgoHelper()
	prepared, err := engine.Prepare(ctx, installation(),
		templates.Template{Files: map[string]string{"main.tf": text}, Inputs: inputs})
	Expect(err).NotTo(HaveOccurred())
	return prepared
}

// open opens a workspace, which must succeed. The caller closes it.
func open(ctx context.Context, engine *workspace.Engine, name string) *workspace.Workspace {
	GinkgoHelper()
	space, err := engine.Open(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	return space
}

// shortContext returns a context that ends before an operation that waits for another run could complete.
func shortContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 100*time.Millisecond)
}
