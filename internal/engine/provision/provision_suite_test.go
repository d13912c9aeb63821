package provision_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/engine/workspace"
	"service-adapter/internal/record"
	"service-adapter/spec/kit"
)

func TestProvision(t *testing.T) {
	kit.Suite(t, "provision")
}

type object = map[string]any

// The OpenTofu versions of the paks.
const (
	older  = kit.Older
	newest = kit.Newest
)

const directoryProvider = "registry.terraform.io/service-adapter/directory"

// shared is the directory of the state and the cache of all specs, so that OpenTofu initialises each template only
// once.
var shared string

var _ = BeforeSuite(func() {
	var err error
	shared, err = os.MkdirTemp("", "prov-") // short: OpenTofu makes sockets below it
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, shared)
	for _, version := range []string{older, newest} {
		script := fmt.Sprintf(wrapperScript, version, commandLog(), kit.OpenTofu(GinkgoT(), version), failing(atEnd),
			failing(halfway))
		Expect(os.WriteFile(wrapper(version), []byte(script), 0o700)).To(Succeed())
	}
})

// wrapper returns the path of an OpenTofu that writes its version and command to the log before it runs.
func wrapper(version string) string { return filepath.Join(shared, "tofu-"+version) }

// wrapperScript takes the version, the log, the real OpenTofu, and the files that make the apply of a template go
// wrong.
const wrapperScript = `#!/bin/sh
echo "%s $1" >>%s
tofu=%s
case "$*" in
apply*-target=*) ;;
apply*)
  if [ -e %s ]; then "$tofu" "$@"; exit 1; fi
  if [ -e %s ]; then exec "$tofu" "$@" -target=directory_entry.data; fi ;;
esac
exec "$tofu" "$@"
`

// The faults of an apply: it creates everything and fails, or creates a part and succeeds.
const (
	atEnd   = "at-end"
	halfway = "halfway"
)

func failing(how string) string { return filepath.Join(shared, "fails-"+how) }

// fail causes a fault in each apply of a template until the spec ends or calls the returned function.
func fail(how string) (mend func()) {
	GinkgoHelper()
	Expect(os.WriteFile(failing(how), nil, 0o600)).To(Succeed())
	DeferCleanup(os.RemoveAll, failing(how))
	return func() {
		GinkgoHelper()
		Expect(os.Remove(failing(how))).To(Succeed())
	}
}

func commandLog() string { return filepath.Join(shared, "commands") }

// changes returns the OpenTofu commands since the last call that may have changed a state, such as "1.12.6 apply".
func changes() []string {
	GinkgoHelper()
	text, err := os.ReadFile(commandLog())
	if !os.IsNotExist(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(os.RemoveAll(commandLog())).To(Succeed())
	found := []string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if _, command, _ := strings.Cut(line, " "); command == "apply" || command == "destroy" || command == "import" {
			found = append(found, line)
		}
	}
	return found
}

// site is the environment of one spec: an installed pak, an instance, and the directory of the provider "directory".
type site struct {
	*provision.Provisioner
	pak     *brokerpak.Pak
	entries string // where resources become files
	id      string
	known   bool
	logs    *strings.Builder
}

func newSite(p pak) *site {
	GinkgoHelper()
	s := &site{entries: GinkgoT().TempDir(), id: "id-" + filepath.Base(GinkgoT().TempDir()), logs: &strings.Builder{}}
	logger := slog.New(slog.NewTextHandler(s.logs, nil))
	engine, err := workspace.New(workspace.Options{
		CacheDir: filepath.Join(shared, "cache"),
		Backend:  backend.Local(filepath.Join(shared, "state")),
		Logger:   logger,
	})
	Expect(err).NotTo(HaveOccurred())
	s.Provisioner = &provision.Provisioner{
		Manager: &lifecycle.Manager{
			Engine: engine, Budget: time.Minute, Logger: logger, Installation: installation, AdapterVersion: "1.0.0",
		},
	}
	// Files of a failed spec must not make the next one fail.
	DeferCleanup(os.RemoveAll, filepath.Join(shared, "state", "workspaces"))
	DeferCleanup(os.RemoveAll, filepath.Join(shared, "cache", "runs"))
	s.install(p)
	changes()
	return s
}

// pak holds the parts of a pak that a spec can choose.
type pak struct {
	version string // of the pak; "1.0.0" without
	tofu    []string
	// provision are lines of the section, template the text of main.tf and further its other file.
	provision, template, further string
}

// install replaces the installed pak and keeps the files of the earlier ones.
func (s *site) install(p pak) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	bin := filepath.Join(dir, "bin", runtime.GOOS, runtime.GOARCH)
	if p.version == "" {
		p.version = "1.0.0"
	}
	if p.tofu == nil {
		p.tofu = []string{newest}
	}
	manifest := "packversion: 1\nname: test\nversion: " + p.version + "\nservice_definitions: [service.yml]\n" +
		fmt.Sprintf("platforms: [{os: %s, arch: %s}]\n", runtime.GOOS, runtime.GOARCH) +
		"terraform_binaries:\n" +
		"- {name: terraform-provider-directory, version: 1.0.0, provider: " + directoryProvider + "}\n"
	path := "terraform_upgrade_path:\n"
	for i, version := range p.tofu {
		Expect(os.MkdirAll(filepath.Join(bin, version), 0o700)).To(Succeed())
		Expect(os.Symlink(wrapper(version), filepath.Join(bin, version, "tofu"))).To(Succeed())
		manifest += fmt.Sprintf("- {name: tofu, version: %s, default: %t}\n", version, i == len(p.tofu)-1)
		path += "- version: " + version + "\n"
	}
	Expect(os.Symlink(kit.Provider(GinkgoT(), "directory"),
		filepath.Join(bin, "terraform-provider-directory_v1.0.0"))).To(Succeed())
	service := `version: 1
name: service
id: 00000000-0000-4000-8000-000000000001
description: A service
display_name: Service
image_url: https://example.com/x.png
documentation_url: https://example.com
support_url: https://example.com
plans: [{name: small, id: 00000000-0000-4000-8000-000000000011, description: Small, display_name: Small}]
provision:
  plan_inputs: [{field_name: path, type: string, details: x}]
  templates:
    main: |
` + indent(p.template) + "    provider: |\n" + indent(provider+p.further) + p.provision + "bind: {}\n"
	for name, text := range map[string]string{"manifest.yml": manifest + path, "service.yml": service} {
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	opened, err := brokerpak.Open(dir)
	Expect(err).NotTo(HaveOccurred())
	s.pak, s.Paks = opened, []*brokerpak.Pak{opened}
}

const provider = `terraform {
  required_providers {
    directory = { source = "registry.terraform.io/service-adapter/directory" }
  }
}
variable "path" {}
`

func indent(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("      " + line)
	}
	return out.String()
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
	if err != nil {
		return opentofu.Installation{}, err
	}
	found := opentofu.Installation{Binary: files.Tofu[version], Version: version}
	for _, p := range files.Providers {
		found.Providers = append(found.Providers, opentofu.Provider{FQN: p.FQN, Version: p.Version, File: p.File})
	}
	return found, nil
}

// request returns a request for the instance of the site with these inputs.
func (s *site) request(inputs object) provision.Request {
	all := object{"path": s.entries}
	maps.Copy(all, inputs)
	return provision.Request{
		Pak: s.pak, Service: s.pak.Services[0], Inputs: all, MustExist: s.known,
		Instance: record.Instance{
			InstanceID: s.id, Deployment: "service-instance_" + s.id,
			Service: s.pak.Services[0].Name, ServiceID: "service-id", Plan: "small", PlanID: "plan-id",
		},
		Resolve: func(found map[string]any) (map[string]any, map[string]map[string]any, error) {
			again := maps.Clone(all)
			for name, item := range found {
				if _, given := inputs[name]; !given {
					again[name] = item
				}
			}
			return again, nil, nil
		},
	}
}

func (s *site) apply(ctx context.Context, inputs object) (*provision.Result, error) {
	return s.Apply(ctx, s.request(inputs))
}

func (s *site) must(ctx context.Context, inputs object) *provision.Result {
	GinkgoHelper()
	result, err := s.apply(ctx, inputs)
	Expect(err).NotTo(HaveOccurred(), s.logs.String())
	s.known = true
	return result
}

func (s *site) pending(ctx context.Context, inputs object) bool {
	GinkgoHelper()
	before := s.stored()
	planned, err := s.Plan(ctx, s.request(inputs), false)
	Expect(err).NotTo(HaveOccurred())
	Expect(s.stored()).To(Equal(before), "a check changes nothing")
	return len(planned.Reasons) > 0
}

// destroy destroys the instance as an operator does.
func (s *site) destroy(ctx context.Context) {
	GinkgoHelper()
	Expect(s.DestroyStored(ctx, lifecycle.Instance, s.id)).To(Succeed(), s.logs.String())
	Expect(s.stored()).To(BeEmpty())
}

// entry returns the resource with this name, and nil if it does not exist.
func (s *site) entry(name string) object {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(s.entries, name))
	if os.IsNotExist(err) {
		return nil
	}
	Expect(err).NotTo(HaveOccurred())
	var found object
	Expect(json.Unmarshal(text, &found)).To(Succeed())
	return found
}

// make creates a resource without OpenTofu and returns its path, which is its id.
func (s *site) make(name, content string) string {
	GinkgoHelper()
	text, err := json.Marshal(object{"content": content, "secret": "made by hand"})
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(s.entries, name)
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
	return path
}

// stored returns the state of the instance from the backend, and "" if there is none.
func (s *site) stored() string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(shared, "state", "workspaces", "i-"+s.id, "terraform.tfstate"))
	if !os.IsNotExist(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	return string(text)
}

// record returns the record in the state of the instance.
func (s *site) record(ctx context.Context) *lifecycle.StateRecord {
	GinkgoHelper()
	stored, err := s.Lookup(ctx, lifecycle.Instance, s.id)
	Expect(err).NotTo(HaveOccurred())
	Expect(stored.Record).NotTo(BeNil(), stored.Error)
	return stored.Record
}

// The points at which the provider can be held.
const (
	beforeCreate = "before-create"
	afterCreate  = "after-create"
)

// hold stops the provider when it reaches this point.
func (s *site) hold(point string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(s.entries, ".hold-"+point), nil, 0o600)).To(Succeed())
}

// kill waits until the provider is stopped at this point, kills OpenTofu, and then lets the provider continue.
func (s *site) kill(point string) {
	GinkgoHelper()
	at := filepath.Join(s.entries, ".at-"+point)
	Eventually(at).Should(BeAnExistingFile())
	Expect(syscall.Kill(running(), syscall.SIGKILL)).To(Succeed())
	Expect(os.Remove(filepath.Join(s.entries, ".hold-"+point))).To(Succeed())
	Expect(os.Remove(at)).To(Succeed())
}

// running returns the process id of the OpenTofu that runs in the shared directory.
func running() int {
	GinkgoHelper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	Expect(err).NotTo(HaveOccurred())
	for _, process := range processes {
		cwd, _ := os.Readlink(filepath.Join(process, "cwd")) // it may have ended
		command, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		if strings.HasPrefix(cwd, shared+"/") && strings.Contains(string(command), "/tofu\x00") {
			id, err := strconv.Atoi(filepath.Base(process))
			Expect(err).NotTo(HaveOccurred())
			return id
		}
	}
	Fail("no OpenTofu is running")
	return 0
}

// killed starts an apply and kills OpenTofu when the provider reaches this point.
func (s *site) killed(ctx context.Context, point string, inputs object) error {
	GinkgoHelper()
	s.hold(point)
	ended := make(chan error)
	go func() {
		_, err := s.apply(ctx, inputs)
		ended <- err
	}()
	s.kill(point)
	var err error
	Eventually(ended).Should(Receive(&err))
	Expect(err).To(HaveOccurred())
	return err
}
