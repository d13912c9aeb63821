package binding_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/binding"
	"service-adapter/brokerpak"
	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/instance"
	"service-adapter/spec/kit"
)

func TestBinding(t *testing.T) {
	kit.Suite(t, "binding")
}

type object = map[string]any

// waiting is how long a spec waits for an asynchronous event.
const waiting = 30 * time.Second

// shared is the directory of the state and the cache of all specs, so that OpenTofu initialises each template only
// once.
var shared string

var _ = BeforeSuite(func() {
	kit.OpenTofu(GinkgoT(), kit.Newest)
	kit.Provider(GinkgoT(), "directory")
	var err error
	shared, err = os.MkdirTemp("", "bind-") // short: OpenTofu makes sockets below it
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, shared)
})

// site is the environment of one spec: an installed pak, an instance, and the directory of the provider "directory".
type site struct {
	*binding.Binder
	entries string // where resources become files
	id      string
	view    *instance.View
	logs    *strings.Builder
}

func newSite(bind string) *site {
	GinkgoHelper()
	s := &site{entries: GinkgoT().TempDir(), id: "id-" + filepath.Base(GinkgoT().TempDir()), logs: &strings.Builder{}}
	logger := slog.New(slog.NewTextHandler(s.logs, nil))
	engine, err := workspace.New(workspace.Options{
		CacheDir: filepath.Join(shared, "cache"),
		Backend:  backend.Local(filepath.Join(shared, "state")),
		Logger:   logger,
	})
	Expect(err).NotTo(HaveOccurred())
	s.Binder = &binding.Binder{Manager: &lifecycle.Manager{
		Engine: engine, Budget: time.Minute, Logger: logger, Installation: installation,
	}}
	// Files of a failed spec must not make the next one fail.
	DeferCleanup(os.RemoveAll, filepath.Join(shared, "state", "workspaces"))
	s.view = s.deployed("old-password")
	s.install(pak{bind: bind})
	return s
}

// deployed returns the instance as the broker describes it, with this administrator password.
func (s *site) deployed(password string) *instance.View {
	return &instance.View{
		Manifest: []byte("name: service-instance_inst-1\nproperties: {password: ((/odb/password))}\n"),
		Secrets:  map[string]string{"((/odb/password))": password},
		VMs:      map[string][]string{"server": {"10.0.8.5", "10.0.8.6"}},
	}
}

// pak holds the parts of a pak that a spec can choose. provider is the address of its provider, "" for none.
type pak struct {
	version, service, bind, provider string
}

const directoryProvider = "registry.terraform.io/service-adapter/directory"

// install replaces the installed paks. The first pak has the provider "directory", unless it names another provider.
func (s *site) install(paks ...pak) {
	GinkgoHelper()
	s.Paks = nil
	for i, p := range paks {
		if i == 0 && p.provider == "" {
			p.provider = directoryProvider
		}
		s.Paks = append(s.Paks, p.open())
	}
}

func (p pak) open() *brokerpak.Pak {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	bin := filepath.Join(dir, "bin", runtime.GOOS, runtime.GOARCH)
	Expect(os.MkdirAll(bin, 0o700)).To(Succeed())
	Expect(os.Symlink(kit.OpenTofuPath(kit.Newest), filepath.Join(bin, "tofu"))).To(Succeed())
	provider := ""
	if p.provider != "" && p.provider != "none" {
		Expect(os.Symlink(kit.Provider(GinkgoT(), "directory"),
			filepath.Join(bin, "terraform-provider-directory_v1.0.0"))).To(Succeed())
		provider = ", {name: terraform-provider-directory, version: 1.0.0, provider: " + p.provider + "}"
	}
	or := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	manifest := fmt.Sprintf(`packversion: 1
name: test
version: %s
platforms: [{os: %s, arch: %s}]
terraform_binaries: [{name: tofu, version: 1.12.6, default: true}%s]
service_definitions: [service.yml]
`, or(p.version, "1.0.0"), runtime.GOOS, runtime.GOARCH, provider)
	service := fmt.Sprintf(`version: 1
name: %s
id: 00000000-0000-4000-8000-000000000001
description: A service
display_name: Service
image_url: https://example.com/x.png
documentation_url: https://example.com
support_url: https://example.com
plans: [{name: small, id: 00000000-0000-4000-8000-000000000011, description: Small, display_name: Small}]
provision:
  bosh:
    manifest: {stemcells: [{alias: default}], instance_groups: [{name: server, jobs: [{name: server}]}]}
    outputs:
      port: 6379
      host: '${bosh.host("server")}'
      status: of the instance
      backup_agent_url: https://backup.example.com
      overlaid: by the instance
bind:%s`, or(p.service, "service"), p.bind)
	Expect(os.WriteFile(filepath.Join(dir, "manifest.yml"), []byte(manifest), 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, "service.yml"), []byte(service), 0o600)).To(Succeed())
	opened, err := brokerpak.Open(dir)
	Expect(err).NotTo(HaveOccurred())
	return opened
}

func installation(ctx context.Context, pak *brokerpak.Pak, _ string) (opentofu.Installation, error) {
	files, err := pak.Executables(ctx, brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH},
		filepath.Join(shared, "cache"))
	if err != nil {
		return opentofu.Installation{}, err
	}
	found := opentofu.Installation{Binary: files.Tofu["1.12.6"], Version: "1.12.6"}
	for _, p := range files.Providers {
		found.Providers = append(found.Providers, opentofu.Provider{FQN: p.FQN, Version: p.Version, File: p.File})
	}
	return found, nil
}

// accepted returns the path of the file with the only value of the variable live that the provider accepts as a
// password. If the file does not exist, the provider accepts any value.
func accepted() string { return filepath.Join(shared, "accepted") }

// accept restricts the provider to one value of the variable live until the spec ends, as a server does after its
// password was changed.
func accept(live string) {
	GinkgoHelper()
	Expect(os.WriteFile(accepted(), []byte(live), 0o600)).To(Succeed())
	DeferCleanup(os.RemoveAll, accepted())
}

// bind returns the section of a service whose template creates two entries and has an input, live, that is computed by
// an expression. Further lines of the section are indented by two.
func bind(live string, lines ...string) string {
	return `
  user_inputs:
  - {field_name: path, type: string, required: true, details: x}
  - {field_name: fail, type: string, default: "", details: x}
  computed_inputs:
  - {name: name, type: string, default: 'entry-${request.plan_id}', overwrite: true}
  - {name: live, type: string, default: '` + live + `', overwrite: true}
` + strings.Join(lines, "\n") + `
  template: |
    terraform {
      required_providers {
        directory = { source = "registry.terraform.io/service-adapter/directory" }
      }
    }
    variable "live" { type = string }
    provider "directory" {
      password      = var.live
      password_file = "` + accepted() + `"
    }
    resource "directory_entry" "account" {
      path    = var.path
      name    = "account"
      content = var.live
    }
    resource "directory_entry" "second" {
      path = directory_entry.account.path
      name = "second"
      fail = var.fail
    }
    output "live" { value = var.live }
    output "overlaid" { value = "by the binding" }
    output "status" { value = "made" }
    output "syslog_drain_url" { value = "syslog://drain" }
    output "route_service_url" { value = "https://route" }
`
}

// request returns a create-binding request for the binding of the site.
func (s *site) request(parameters object) binding.Request {
	pak := s.Paks[0]
	all := object{"path": s.entries}
	maps.Copy(all, parameters)
	return binding.Request{
		Pak: pak, Service: pak.Services[0], Plan: pak.Services[0].Plans[0], ServiceID: "service-id", PlanID: "plan-id",
		BindingID: s.id, Instance: s.view, Parameters: all,
		Body: object{
			"bind_resource": object{"app_guid": "app"},
			"context":       object{"platform": "cloudfoundry"},
			"parameters":    all,
		},
	}
}

func (s *site) create(ctx context.Context, parameters object) (*binding.Binding, error) {
	return s.Create(ctx, s.request(parameters))
}

// delete deletes the binding of the site with a request that names neither the service nor the plan.
func (s *site) delete(ctx context.Context) error {
	return s.Delete(ctx, binding.Request{Pak: s.Paks[0], BindingID: s.id, Instance: s.view, Body: object{}})
}

// files returns the names of the resources that exist.
func (s *site) files() []string {
	GinkgoHelper()
	entries, err := os.ReadDir(s.entries)
	Expect(err).NotTo(HaveOccurred())
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// states returns the names of the workspaces that exist.
func states() []string {
	GinkgoHelper()
	entries, err := os.ReadDir(filepath.Join(shared, "state", "workspaces"))
	if !os.IsNotExist(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// record returns the record in the state of the binding.
func (s *site) record(workspace string) object {
	GinkgoHelper()
	text, err := fs.ReadFile(os.DirFS(shared), "state/workspaces/"+workspace+"/terraform.tfstate")
	Expect(err).NotTo(HaveOccurred())
	var state struct {
		Resources []struct {
			Name      string
			Instances []struct {
				Attributes struct {
					Input struct{ Value json.RawMessage }
				}
			}
		}
	}
	Expect(json.Unmarshal(text, &state)).To(Succeed())
	for _, resource := range state.Resources {
		if resource.Name == "_binding" {
			var guard struct{ Record string }
			Expect(json.Unmarshal(resource.Instances[0].Attributes.Input.Value, &guard)).To(Succeed())
			var record object
			Expect(json.Unmarshal([]byte(guard.Record), &record)).To(Succeed())
			return record
		}
	}
	Fail("no guard in the state")
	return nil
}
