package tofu_test

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

	"service-adapter/internal/tofu"
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

// oneEntry is a template with one entry of a directory, which an input may make fail.
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

// site is the directories of one spec.
type site struct {
	cache, state string
	entries      string // where the provider directory keeps its resources
	store        store  // where the states are; the zero value is the directory state
}

func newSite() site {
	dir := GinkgoT().TempDir()
	s := site{cache: filepath.Join(dir, "cache"), state: filepath.Join(dir, "state"), entries: filepath.Join(dir, "entries")}
	Expect(os.Mkdir(s.entries, 0o700)).To(Succeed())
	return s
}

func (s site) options() tofu.Options {
	return tofu.Options{CacheDir: s.cache, Backend: s.backend()}
}

// backend is the state backend of the site.
func (s site) backend() tofu.Backend {
	if s.store.backend.Type == "" {
		return tofu.Local(s.state)
	}
	return s.store.backend
}

func (s site) engine() *tofu.Engine {
	engine, err := tofu.New(s.options())
	Expect(err).NotTo(HaveOccurred())
	return engine
}

func (s site) vars() map[string]any { return map[string]any{"path": s.entries} }

// workspaces are the names of the workspaces in the state directory.
func (s site) workspaces() []string {
	entries, err := os.ReadDir(filepath.Join(s.state, "workspaces"))
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// runs are the files left in the directory of runs.
func (s site) runs() []string {
	files, err := filepath.Glob(filepath.Join(s.cache, "runs", "*"))
	Expect(err).NotTo(HaveOccurred())
	return files
}

// hold makes the provider wait at a point; at waits until it is there and returns its process id; release lets it go on.
func (s site) hold(point string) {
	Expect(os.WriteFile(filepath.Join(s.entries, ".hold-"+point), nil, 0o600)).To(Succeed())
}

func (s site) at(point string) int {
	file := filepath.Join(s.entries, ".at-"+point)
	Eventually(file).Should(BeARegularFile())
	text, err := os.ReadFile(file)
	Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(string(text))
	Expect(err).NotTo(HaveOccurred())
	return pid
}

func (s site) release(point string) {
	Expect(os.WriteFile(filepath.Join(s.entries, ".go-"+point), nil, 0o600)).To(Succeed())
}

// tofu returns the process id of the OpenTofu that runs for a workspace.
func (s site) tofu(workspace string) int {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(s.cache, "runs", workspace+".json"))
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

// gone tells whether a process has ended, whoever has to wait for it.
func gone(pid int) func() bool { return func() bool { return hold.Gone(pid) } }

func kill(pid int) { Expect(syscall.Kill(pid, syscall.SIGKILL)).To(Succeed()) }

func prepare(ctx context.Context, engine *tofu.Engine, text string, inputs ...string) *tofu.Prepared {
	GinkgoHelper()
	prepared, err := engine.Prepare(ctx, installation(), tofu.Template{Files: map[string]string{"main.tf": text}, Inputs: inputs})
	Expect(err).NotTo(HaveOccurred())
	return prepared
}

func open(ctx context.Context, engine *tofu.Engine, name string) *tofu.Workspace {
	GinkgoHelper()
	workspace, err := engine.Open(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	return workspace
}

// impatient is a context that ends before anything that waits for another run is done.
func impatient(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 100*time.Millisecond)
}
