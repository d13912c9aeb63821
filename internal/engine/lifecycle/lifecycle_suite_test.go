package lifecycle_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/record"
	"service-adapter/spec/kit"
)

func TestLifecycle(t *testing.T) {
	kit.Suite(t, "internal/engine/lifecycle")
}

// The versions of OpenTofu that the specs run.
const (
	oldTofu = kit.Older
	newTofu = kit.Newest
)

// The version of the adapter that wrote the records which the specs begin with, and that of the adapter under test.
const (
	oldAdapter = "1.0.0"
	newAdapter = "1.1.0"
)

// shared is the cache directory of all specs, so that OpenTofu initialises each template only once.
var shared string

var _ = BeforeSuite(func() {
	kit.OpenTofu(GinkgoT(), newTofu)
	var err error
	shared, err = os.MkdirTemp("", "life-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, shared)
})

// site is the environment of one spec: a state backend, an installed pak and a template.
type site struct {
	*lifecycle.Manager
	state string
	// blocker is the path of a file. While it exists, an apply and a destroy fail.
	blocker string
	logs    *strings.Builder
}

func newSite(versions ...string) *site {
	GinkgoHelper()
	s := &site{
		state: GinkgoT().TempDir(), blocker: filepath.Join(GinkgoT().TempDir(), "blocker"), logs: &strings.Builder{},
	}
	logger := slog.New(slog.NewTextHandler(s.logs, nil))
	engine, err := workspace.New(workspace.Options{
		CacheDir: filepath.Join(shared, "cache"), Backend: backend.Local(s.state), Logger: logger,
	})
	Expect(err).NotTo(HaveOccurred())
	s.Manager = &lifecycle.Manager{
		Engine: engine, Budget: time.Minute, Logger: logger, Installation: installation, AdapterVersion: newAdapter,
	}
	s.install(versions...)
	return s
}

// install replaces the installed paks by one with these OpenTofu versions; the last one is its default.
func (s *site) install(versions ...string) {
	GinkgoHelper()
	if len(versions) == 0 {
		versions = []string{newTofu}
	}
	s.Paks = []*brokerpak.Pak{openPak(GinkgoT().TempDir(), versions...)}
}

func openPak(dir string, versions ...string) *brokerpak.Pak {
	var binaries, path []string
	for i, version := range versions {
		binaries = append(binaries,
			fmt.Sprintf("{name: tofu, version: %s, default: %t}", version, i == len(versions)-1))
		path = append(path, fmt.Sprintf("{version: %s}", version))
		link := filepath.Join(dir, "bin", runtime.GOOS, runtime.GOARCH, version, "tofu")
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			panic(err)
		}
		if err := os.Symlink(kit.OpenTofuPath(version), link); err != nil {
			panic(err)
		}
	}
	manifest := fmt.Sprintf(`packversion: 1
name: test
version: 1.0.0
platforms: [{os: %s, arch: %s}]
terraform_binaries: [%s]
terraform_upgrade_path: [%s]
service_definitions: [service.yml]
`, runtime.GOOS, runtime.GOARCH, strings.Join(binaries, ", "), strings.Join(path, ", "))
	if len(versions) == 1 {
		manifest = strings.Replace(manifest, "terraform_upgrade_path: ["+path[0]+"]\n", "", 1)
	}
	const service = `version: 1
name: service
id: 00000000-0000-4000-8000-000000000001
description: A service
display_name: Service
image_url: https://example.com/x.png
documentation_url: https://example.com
support_url: https://example.com
plans: [{name: small, id: 00000000-0000-4000-8000-000000000011, description: Small, display_name: Small}]
provision: {bosh: {manifest: {stemcells: [{alias: default}],
    instance_groups: [{name: server, jobs: [{name: server}]}]}}}
bind: {template: ""}
`
	for name, text := range map[string]string{"manifest.yml": manifest, "service.yml": service} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			panic(err)
		}
	}
	pak, err := brokerpak.Open(dir)
	if err != nil {
		panic(err)
	}
	return pak
}

func installation(ctx context.Context, pak *brokerpak.Pak, version string) (opentofu.Installation, error) {
	if version == "" {
		var err error
		if version, err = pak.Manifest.DefaultVersion(); err != nil {
			return opentofu.Installation{}, err
		}
	}
	files, err := pak.Executables(ctx, brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH},
		filepath.Join(shared, "cache"))
	return opentofu.Installation{Binary: files.Tofu[version], Version: version}, err
}

// template is a template with two resources of the built-in provider.
const template = `
variable "blocker" { type = string }
variable "content" { type = string }
resource "terraform_data" "account" {
  input = { content = var.content, blocker = var.blocker }
  lifecycle { prevent_destroy = true }
}
resource "terraform_data" "late" {
  input = var.blocker
  lifecycle {
    precondition {
      condition     = !fileexists(var.blocker)
      error_message = "the way is blocked"
    }
  }
  provisioner "local-exec" {
    when    = destroy
    command = "test ! -e '${self.input}'"
  }
}
output "content" {
  value     = var.content
  sensitive = true
}
`

// record returns the record of a binding, or of an instance if the binding id is empty.
func (s *site) record(binding string) *lifecycle.StateRecord {
	made := &lifecycle.StateRecord{
		Subject: lifecycle.Subject{BindingID: binding, Instance: record.Instance{
			InstanceID: "i1", Deployment: "service-instance_i1", Service: "service",
			ServiceID: "service-id", Plan: "small",
		}},
		Source: lifecycle.Source{Templates: map[string]string{"main.tf": template}, Declared: []string{}},
		ResolvedInputs: lifecycle.ResolvedInputs{
			Inputs: map[string]any{"blocker": s.blocker, "content": "planted-s3cret"},
		},
	}
	found, err := installation(context.Background(), s.Paks[0], "")
	Expect(err).NotTo(HaveOccurred())
	made.SetInstallation(s.Paks[0], found)
	return made
}

// create applies the template of a record in a new workspace. While the blocker exists, the apply fails and stays
// interrupted.
func (s *site) create(ctx context.Context, record *lifecycle.StateRecord) {
	GinkgoHelper()
	s.work(ctx, record, func(
		space *workspace.Workspace, installation opentofu.Installation, prepared *templates.Prepared,
	) {
		encoded, err := record.Encode(oldAdapter)
		Expect(err).NotTo(HaveOccurred())
		Expect(space.Reserve(ctx, installation, encoded)).To(Succeed())
		s.apply(ctx, space, prepared, record)
	})
}

// change applies another record of an existing workspace.
func (s *site) change(ctx context.Context, record *lifecycle.StateRecord) {
	GinkgoHelper()
	s.work(ctx, record, func(
		space *workspace.Workspace, installation opentofu.Installation, prepared *templates.Prepared,
	) {
		_, err := space.State(ctx, installation)
		Expect(err).NotTo(HaveOccurred())
		encoded, err := record.Encode(oldAdapter)
		Expect(err).NotTo(HaveOccurred())
		space.SetRecord(encoded)
		s.apply(ctx, space, prepared, record)
	})
}

func (s *site) apply(
	ctx context.Context, space *workspace.Workspace, prepared *templates.Prepared, record *lifecycle.StateRecord,
) {
	GinkgoHelper()
	err := space.Apply(ctx, prepared, record.Inputs)
	if _, missing := os.Stat(s.blocker); missing != nil {
		Expect(err).NotTo(HaveOccurred())
	} else {
		Expect(err).To(MatchError(ContainSubstring("the way is blocked")))
	}
}

func (s *site) work(
	ctx context.Context, record *lifecycle.StateRecord,
	work func(*workspace.Workspace, opentofu.Installation, *templates.Prepared),
) {
	GinkgoHelper()
	installation, err := s.Installation(ctx, s.Paks[0], "")
	Expect(err).NotTo(HaveOccurred())
	prepared, err := s.Engine.Prepare(ctx, installation, record.Template())
	Expect(err).NotTo(HaveOccurred())
	kind, id := record.KindAndID()
	space, err := s.Engine.Open(ctx, lifecycle.Workspace(kind, id))
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(space.Close()).To(Succeed()) }()
	work(space, installation, prepared)
}

// block makes all applies and destroys fail until unblock is called.
func (s *site) block() { Expect(os.WriteFile(s.blocker, nil, 0o600)).To(Succeed()) }

func (s *site) unblock() { Expect(os.Remove(s.blocker)).To(Succeed()) }

// file returns the path of a workspace's state.
func (s *site) file(workspace string) string {
	return filepath.Join(s.state, "workspaces", workspace, "terraform.tfstate")
}
