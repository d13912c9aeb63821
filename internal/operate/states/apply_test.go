package states_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/operate/states"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/site"
)

// bundle adds versions of OpenTofu to a pak and makes the last one its default. It returns the open pak.
func bundle(dir string, versions ...string) *brokerpak.Pak {
	GinkgoHelper()
	binaries, path := "", ""
	for i, version := range versions {
		link := filepath.Join(dir, "bin", runtime.GOOS, runtime.GOARCH, version, "tofu")
		Expect(os.MkdirAll(filepath.Dir(link), 0o700)).To(Succeed())
		Expect(os.Symlink(kit.OpenTofu(GinkgoT(), version), link)).To(Succeed())
		binaries += fmt.Sprintf("- {name: tofu, version: %s, default: %t}\n", version, i == len(versions)-1)
		path += fmt.Sprintf("- {version: %s}\n", version)
	}
	manifest := site.Replaced(site.ReadFile(filepath.Join(dir, "manifest.yml")),
		"terraform_binaries: [{name: tofu, version: 1.12.6, default: true}]", "terraform_binaries:\n"+binaries)
	if len(versions) > 1 {
		manifest += "terraform_upgrade_path:\n" + path
	}
	Expect(os.WriteFile(filepath.Join(dir, "manifest.yml"), []byte(manifest), 0o600)).To(Succeed())
	pak, err := brokerpak.Open(dir)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(pak.Close)
	return pak
}

// operate calls work with the operations of operators and errands.
func operate(s *site.Site, work func(operator *states.Operator)) {
	GinkgoHelper()
	var log bytes.Buffer
	operator, err := states.Open(session.Process{Stderr: &log, Getenv: s.Getenv}, "instance apply",
		states.Options{NewState: true})
	Expect(err).NotTo(HaveOccurred())
	defer operator.Close()
	work(operator)
	GinkgoWriter.Println(log.String())
}

var _ = Describe("the errand apply-instance", func() {
	const inputs = `
  - {field_name: size, type: integer, default: 1, details: A size}
  - {field_name: hosts, type: array, details: Secret hosts}
  - {field_name: limits, type: object, details: Secret limits}
  - {field_name: pin, type: integer, details: A secret number}
  template: |
    variable "size" { type = number }
    variable "hosts" { type = list(string) }
    variable "limits" { type = map(number) }
    variable "pin" { type = number }
    resource "terraform_data" "server" { input = var.size }
    output "first" { value = var.hosts[0] }
    output "limit" { value = var.limits["x"] + var.pin }
`
	var s *site.Site

	BeforeEach(func() { s = site.New(GinkgoT().TempDir()) })

	// apply performs the errand with the secrets as the job renders them, and returns the stored instance.
	apply := func(
		ctx context.Context, pak *brokerpak.Pak, tofu string, size int,
	) (stored *lifecycle.Stored, err error) {
		GinkgoHelper()
		s.Serve(pak.Path)
		intent := record.Intent{
			Instance: record.Instance{
				InstanceID: "i1", Deployment: "service-instance_i1", Service: "one", ServiceID: site.ServiceID,
				Plan: "small",
			},
			Versions: record.Versions{
				Pak: pak.Manifest.Name, PakVersion: pak.Manifest.Version, Tofu: tofu,
				Template: brokerpak.Digest(pak.Services[0].Provision.Templates),
			},
			Inputs: map[string]any{"size": size},
		}
		read, err := states.ReadIntent(value.MustJSON(map[string]any{
			"intent":  intent.Encode(),
			"secrets": map[string]any{"hosts": `["a", "b"]`, "limits": `{"x": 1}`, "pin": "2"},
		}))
		Expect(err).NotTo(HaveOccurred())
		operate(s, func(operator *states.Operator) {
			if err = operator.ApplyIntent(ctx, read); err == nil {
				stored, err = operator.Lookup(ctx, lifecycle.Instance, "i1")
			}
		})
		return stored, err
	}

	It("passes secrets, which CredHub stores as text, with the types of the inputs", func(ctx context.Context) {
		pak := bundle(s.Pak("one", site.Definition{Inputs: inputs}.String()), kit.Newest)
		stored, err := apply(ctx, pak, kit.Newest, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.State.Outputs).To(Equal(map[string]any{"first": "a", "limit": int64(3)}))
	})

	It("upgrades the instance only to the version of OpenTofu that the manifest names", func(ctx context.Context) {
		service := site.Definition{Inputs: inputs}.String()
		old := bundle(s.Pak("old", service), kit.Older)
		_, err := apply(ctx, old, kit.Older, 1)
		Expect(err).NotTo(HaveOccurred())

		both := bundle(s.Pak("old2", service), kit.Older, kit.Newest)
		stored, err := apply(ctx, both, kit.Older, 1)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Tofu).To(Equal(kit.Older))
		_, err = apply(ctx, both, "", 2)
		Expect(err).To(MatchError(ContainSubstring("the instance must be upgraded")))

		stored, err = apply(ctx, both, kit.Newest, 2)
		Expect(err).NotTo(HaveOccurred())
		Expect(stored.Tofu).To(Equal(kit.Newest))
	})
})

var _ = Describe("the time that a command may take", func() {
	var s *site.Site

	BeforeEach(func() {
		s = site.New(GinkgoT().TempDir())
		s.Serve(bundle(s.Pak("one", site.Definition{}.String()), kit.Newest).Path)
		s.Env["SERVICE_ADAPTER_BUDGET"] = "1s"
	})

	// hung creates the files of a workspace whose adapter has died while its OpenTofu hangs. It returns the process in
	// the role of OpenTofu, and a channel that receives the result of that process.
	hung := func(workspace string) (run opentofu.Process, ended chan error) {
		GinkgoHelper()
		path := filepath.Join(s.Dir, "cache", "runs", workspace)
		Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		lock, err := os.Create(path + ".lock")
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)).To(Succeed())
		command := exec.Command("sleep", "1000")
		command.ExtraFiles = []*os.File{lock}
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		Expect(command.Start()).To(Succeed())
		Expect(lock.Close()).To(Succeed())
		ended = make(chan error, 1)
		go func() { ended <- command.Wait() }()
		DeferCleanup(func() { _ = command.Process.Kill() })
		run = opentofu.Identify(command.Process.Pid)
		text, err := json.Marshal(map[string]any{"adapter": opentofu.Process{PID: run.PID, Start: 1}, "tofu": run})
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(path+".json", text, 0o600)).To(Succeed())
		return run, ended
	}

	It("is that of an errand for a hung run of OpenTofu that changes an instance", func(ctx context.Context) {
		s.Env["SERVICE_ADAPTER_ERRAND_LIMIT"] = "1h"
		Expect(os.MkdirAll(filepath.Join(s.Dir, "state", "workspaces"), 0o700)).To(Succeed())
		binding, bindingEnded := hung(lifecycle.Workspace(lifecycle.Binding, "b1"))
		_, instanceEnded := hung(lifecycle.Workspace(lifecycle.Instance, "i1"))
		// Until then, the adapter and OpenTofu might do the work of a request.
		Eventually(binding.Age).WithTimeout(time.Minute).Should(BeNumerically(">", 3*time.Second))
		destroy := func(limit time.Duration, kind lifecycle.Kind, id string) {
			operate(s, func(operator *states.Operator) {
				limited, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				_ = operator.DestroyStored(limited, kind, id) // waits for the run
			})
		}
		destroy(time.Minute, lifecycle.Binding, "b1")
		Eventually(bindingEnded).WithTimeout(time.Minute).Should(Receive())
		destroy(time.Second, lifecycle.Instance, "i1")
		Expect(instanceEnded).NotTo(Receive())
	})
})
