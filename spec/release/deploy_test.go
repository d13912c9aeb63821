package main_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/release/maker"
)

// Paths on the VM.
const (
	installedAdapter = "/var/vcap/packages/odb-service-adapter/bin/service-adapter"
	installedPak     = "/var/vcap/packages/service-adapter-paks/entries"
	stateDir         = "/var/vcap/store/service-adapter"
)

// A vm imitates the broker's VM.
type vm struct {
	// release is the directory of an unpacked release tarball, and vcap that of the VM's /var/vcap.
	release, vcap string
	// shares are directories of this machine that the VM can access. online is true if the VM has network access.
	shares []string
	online bool
	// coreutils is a directory with programs that replace GNU's coreutils; "" for none.
	coreutils string
}

// bareVM returns a VM on which no package or job is installed.
func bareVM() *vm {
	GinkgoHelper()
	kit.Root(GinkgoT(), "make containers")
	v := &vm{vcap: filepath.Join(kit.Directory(GinkgoT()), "vcap")}
	for _, name := range []string{"data/packages", "packages", "jobs", "store"} {
		Expect(os.MkdirAll(filepath.Join(v.vcap, name), 0o755)).To(Succeed())
	}
	return v
}

// newVM returns a VM with an unpacked release.
func newVM(ctx context.Context, tarball string) *vm {
	GinkgoHelper()
	v := bareVM()
	v.release = unpack(ctx, tarball)
	return v
}

// compile runs a package's packaging script as the agent does on a compilation VM, and installs the result. It returns
// the output and the error of the script.
func (v *vm) compile(ctx context.Context, name string) (output string, err error) {
	GinkgoHelper()
	source, installed := filepath.Join(v.vcap, "data", "compile", name), filepath.Join(v.vcap, "data", "packages", name,
		"0123abc")
	Expect(os.MkdirAll(source, 0o755)).To(Succeed())
	Expect(os.MkdirAll(installed, 0o755)).To(Succeed())
	run(ctx, source, "tar", "-xzf", filepath.Join(v.release, "packages", name+".tgz"))
	target := filepath.Join("/var/vcap/data/packages", name, "0123abc")
	Expect(os.Symlink(target, filepath.Join(v.vcap, "packages", name))).To(Succeed())
	return v.run(ctx, "/bin/bash", "-c", `cd "$0" && exec env -i PATH="$PATH" BOSH_COMPILE_TARGET="$PWD" \
BOSH_INSTALL_TARGET="$1" BOSH_PACKAGE_NAME="$2" BOSH_PACKAGE_VERSION=1 bash -x packaging`,
		"/var/vcap/data/compile/"+name, target, name)
}

// run runs a command as root in the VM, and returns its standard output and standard error in one text. The error is
// that of the command's exit status.
func (v *vm) run(ctx context.Context, command ...string) (output string, err error) {
	GinkgoHelper()
	container := exec.CommandContext(ctx, "./container", append([]string{"vm", v.vcap}, command...)...)
	container.Env = append(os.Environ(), v.environment()...)
	text, err := container.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		Expect(err).NotTo(HaveOccurred())
	}
	return string(text), err
}

// environment returns the environment variables that containers of the VM get in addition to those of their parent
// process.
func (v *vm) environment() []string {
	env := []string{
		"CONTAINER_SHARES=" + strings.Join(v.shares, " "), "CONTAINER_COREUTILS=" + v.coreutils,
	}
	if v.online {
		env = append(env, "CONTAINER_NETWORK=machine")
	}
	return env
}

// deploy installs a job with properties, as the agent does on the first VM of an instance group.
func (v *vm) deploy(ctx context.Context, job string, values properties) {
	GinkgoHelper()
	v.install(job, render(ctx, job, values))
}

// install writes the rendered templates of a job, given as texts by their destinations.
func (v *vm) install(job string, rendered map[string]string) {
	GinkgoHelper()
	installed := filepath.Join(v.vcap, "jobs", job)
	Expect(os.RemoveAll(installed)).To(Succeed())
	for name, text := range rendered {
		writeFile(text, installed, name)
	}
	Expect(filepath.WalkDir(installed, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o640)
		if entry.IsDir() || strings.Contains(path, "/bin/") {
			mode = 0o750
		}
		return errors.Join(os.Chown(path, 0, vcapID), os.Chmod(path, mode))
	})).To(Succeed())
}

// vcapID is the user and group id of vcap in VMs and containers.
const vcapID = 1000

// preStart runs the script pre-start of the job service-adapter.
func (v *vm) preStart(ctx context.Context) (output string, err error) {
	GinkgoHelper()
	return v.run(ctx, "/var/vcap/jobs/service-adapter/bin/pre-start")
}

// adapter returns the installed adapter in the broker's container.
func (v *vm) adapter() broker.Adapter {
	GinkgoHelper()
	container, err := filepath.Abs("container")
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(filepath.Dir(v.vcap), "adapter")
	script := "#!/bin/sh\nexec " + container + " broker " + v.vcap + " " + installedAdapter + " \"$@\"\n"
	Expect(os.WriteFile(path, []byte(script), 0o755)).To(Succeed())
	return broker.Adapter{Path: path, Env: append(v.environment(), "PATH="+os.Getenv("PATH"))}
}

// call runs a command of the broker with the installed adapter.
func (v *vm) call(ctx context.Context, command string, parameters map[string]any) broker.Answer {
	GinkgoHelper()
	answer, err := v.adapter().Call(ctx, command, parameters)
	Expect(err).NotTo(HaveOccurred())
	return answer
}

// appBody returns the body of a request for an instance, or for a binding of an app to it, without parameters of the
// user.
func appBody(i *odb.Instance) map[string]any {
	return body(i, map[string]any{
		"app_guid": "app", "parameters": map[string]any{}, "bind_resource": map[string]any{"app_guid": "app"},
	})
}

// expectLicences asserts that the licences are installed together with the adapter, for all users.
func (v *vm) expectLicences() {
	GinkgoHelper()
	path := filepath.Join(v.vcap, "data/packages/odb-service-adapter/0123abc/THIRD_PARTY_LICENSES")
	Expect(readFile(path)).To(Equal("the licence of a module\n"))
	info, err := os.Stat(path)
	Expect(err).NotTo(HaveOccurred())
	Expect(info.Mode()).To(BeEquivalentTo(0o644))
}

// deployed returns the properties of the deployed job service-adapter.
func deployed() properties {
	return properties{
		"paks": []any{installedPak}, "secure_manifests": true,
		"state": properties{
			"type": "local", "config": properties{"dir": stateDir},
			"encryption": properties{"key": key('n')},
		},
		"services": properties{"entries": properties{"bind_defaults": properties{"path": stateDir}}},
	}
}

// instance returns an instance of the pak's service that has not been deployed.
func instance() *odb.Instance {
	return &odb.Instance{
		ID: "i1", ServiceID: "0c6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01", PlanID: "0c6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e11",
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_i1",
			Releases: serviceadapter.ServiceReleases{{
				Name: "entries", Version: "1.0.0",
				Jobs: []string{"server"},
			}},
			Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.785"}},
		},
		Plan: map[string]any{
			"properties": map[string]any{}, "lifecycle_errands": map[string]any{},
			"instance_groups": []any{map[string]any{
				"name": "server", "vm_type": "small", "instances": 1, "networks": []string{"default"},
				"azs": []string{"z1"},
			}},
		},
		VMs: map[string][]string{"server": {"10.0.8.5"}},
	}
}

var _ = Describe("A release of the source", func() {
	It("is compiled with vendored modules and the operator's Go, without network access", kit.Slow(),
		func(ctx context.Context) {
			dir := filepath.Join(kit.Directory(GinkgoT()), "dir")
			Expect(maker.Stage(ctx, maker.Content{
				Repository: kit.Path(), Version: label().Version, Licences: licences(),
				Paks: []string{smallPak("entries.brokerpak")}, Arch: runtime.GOARCH,
			}, dir)).To(Succeed())
			writeFile("---\nname: golang-1-linux\n", dir, "packages", "golang-1-linux", "spec")
			writeFile("", dir, "packages", "golang-1-linux", "packaging")
			tarball := filepath.Join(filepath.Dir(dir), "release.tgz")
			Expect(maker.Write(dir, label(), tarball)).To(Succeed())
			site := newVM(ctx, tarball)
			// The build cache is that of this machine, which saves a minute.
			goroot, cache := strings.TrimSpace(run(ctx, ".", "go", "env", "GOROOT")),
				strings.TrimSpace(run(ctx, ".", "go",
					"env", "GOCACHE"))
			site.shares = []string{goroot, cache}
			writeFile("export PATH="+goroot+"/bin:$PATH GOCACHE="+cache+"\n", site.vcap, "packages", "golang-1-linux",
				"bosh", "compile.env")
			output, err := site.compile(ctx, "odb-service-adapter")
			Expect(err).NotTo(HaveOccurred(), output)
			output, err = site.run(ctx, installedAdapter, "--version")
			Expect(err).NotTo(HaveOccurred(), output)
			Expect(output).To(Equal("service-adapter " + label().Version + "\n"))
			site.expectLicences()
		})
})

var _ = Describe("The deployed release", Ordered, func() {
	var site *vm

	BeforeAll(func(ctx context.Context) {
		pak := filepath.Join(kit.Directory(GinkgoT()), "entries.brokerpak")
		bin := "bin/" + runtime.GOOS + "/" + runtime.GOARCH
		makePak(filepath.Join("testdata", "pak"), pak, map[string]string{
			bin + "/" + kit.Newest + "/tofu":             kit.OpenTofu(GinkgoT(), kit.Newest),
			bin + "/terraform-provider-directory_v1.0.0": kit.Provider(GinkgoT(), "directory"),
		})
		tarball, _ := makeRelease(ctx, maker.Content{Binary: adapterBinary, Paks: []string{pak}})
		site = newVM(ctx, tarball)
	})

	It("compiles its packages without network access and environment variables", func(ctx context.Context) {
		for _, name := range []string{"odb-service-adapter", "service-adapter-paks"} {
			output, err := site.compile(ctx, name)
			Expect(err).NotTo(HaveOccurred(), output)
		}
		Expect(filepath.Join(site.vcap, "data/packages/odb-service-adapter/0123abc/bin/service-adapter")).To(
			BeARegularFile())
		site.expectLicences()
	})

	It("prepares its templates before the broker starts", func(ctx context.Context) {
		site.deploy(ctx, "service-adapter", deployed())
		old := filepath.Join(site.vcap, "data/service-adapter/prepared/prepared/old")
		writeFile("credentials", old, "backend")
		output, err := site.preStart(ctx)
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(Equal("prepared entries bind in " + preparedDir + "\n"))
		Expect(old).NotTo(BeADirectory())
		Expect(os.ReadDir(filepath.Join(site.vcap, "store/service-adapter/workspaces"))).To(BeEmpty())
		prepared := filepath.Join(site.vcap, "data/service-adapter/prepared")
		Expect(filepath.WalkDir(prepared, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.Type()&fs.ModeSymlink != 0 {
				return err
			}
			info, err := entry.Info()
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Sys().(*syscall.Stat_t).Uid).To(BeEquivalentTo(vcapID), path)
			return nil
		})).To(Succeed())
		for _, dir := range []string{"prepared", "errands"} {
			info, err := os.Stat(filepath.Join(site.vcap, "data/service-adapter", dir))
			Expect(err).NotTo(HaveOccurred())
			Expect(info.Mode().Perm()).To(BeEquivalentTo(0o700), dir)
			Expect(info.Sys().(*syscall.Stat_t).Uid).To(BeEquivalentTo(vcapID), dir)
		}
	})

	It("serves an instance and a binding in the broker's container", func(ctx context.Context) {
		i := instance()
		created := site.call(ctx, "generate-manifest", i.Generate(appBody(i)))
		Expect(created.Exit).To(BeZero(), created.Stderr)
		Expect(i.Deploy(created.Stdout)).To(Succeed())
		dashboard := site.call(ctx, "dashboard-url",
			map[string]any{"instance_id": i.ID, "plan": i.Plan, "manifest": i.Manifest})
		Expect(dashboard.Exit).To(BeZero(), dashboard.Stderr)
		schemas := site.call(ctx, "generate-plan-schemas", map[string]any{"plan": i.Plan})
		Expect(schemas.Exit).To(BeZero(), schemas.Stderr)

		bound := site.call(ctx, "create-binding", i.Bind("b1", appBody(i)))
		Expect(bound.Exit).To(BeZero(), bound.Stderr)
		Expect(readFile(site.vcap, "store/service-adapter/workspaces/b-b1/terraform.tfstate")).To(
			ContainSubstring("encrypted_data"))
		var binding struct {
			Credentials map[string]any `json:"credentials"`
		}
		Expect(json.Unmarshal([]byte(bound.Stdout), &binding)).To(Succeed())
		Expect(binding.Credentials["password"]).To(HaveLen(24))
		Expect(binding.Credentials["secret"]).NotTo(BeEmpty())
		Expect(filepath.Join(site.vcap, "store/service-adapter/b1")).To(BeARegularFile())
		Expect(site.call(ctx, "create-binding", i.Bind("b1", appBody(i))).Exit).To(
			Equal(serviceadapter.BindingAlreadyExistsErrorExitCode))
		unbound := site.call(ctx, "delete-binding", i.Bind("b1", appBody(i)))
		Expect(unbound.Exit).To(BeZero(), unbound.Stderr)
		Expect(filepath.Join(site.vcap, "store/service-adapter/b1")).NotTo(BeAnExistingFile())
		Expect(site.call(ctx, "delete-binding", i.Bind("b1", appBody(i))).Exit).To(
			Equal(serviceadapter.BindingNotFoundErrorExitCode))
	})

	It("reports on the broker's VM the changes of an upgrade", func(ctx context.Context) {
		i := instance()
		created := site.call(ctx, "generate-manifest", i.Generate(appBody(i)))
		Expect(i.Deploy(created.Stdout)).To(Succeed())
		director := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			answers := map[string]any{
				"/info":                              properties{"user_authentication": properties{"type": "basic"}},
				"/deployments":                       []any{properties{"name": i.DeploymentName()}},
				"/deployments/" + i.DeploymentName(): properties{"manifest": i.Manifest},
			}
			if r.URL.Path != "/info" && user+":"+password != "admin:planted" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			_ = json.NewEncoder(w).Encode(answers[r.URL.Path])
		}))
		defer director.Close()
		plan := maps.Clone(i.Plan)
		plan["plan_id"], plan["name"] = i.PlanID, "small"
		config := filepath.Join(site.vcap, "jobs/broker/config/broker.yml")
		write := func(stemcell string) {
			text, err := json.Marshal(properties{
				"bosh": properties{
					"url":            director.URL,
					"authentication": properties{"basic": properties{"username": "admin", "password": "planted"}},
					"root_ca_cert": string(pem.EncodeToMemory(&pem.Block{
						Type:  "CERTIFICATE",
						Bytes: director.Certificate().Raw,
					})),
				},
				"service_deployment": properties{
					"releases":  i.Deployment.Releases,
					"stemcells": []any{properties{"os": i.Deployment.Stemcells[0].OS, "version": stemcell}},
				},
				"service_catalog": properties{"id": i.ServiceID, "plans": []any{plan}},
			})
			Expect(err).NotTo(HaveOccurred())
			writeFile(string(text), config)
			Expect(errors.Join(os.Chown(config, 0, vcapID), os.Chmod(config, 0o640))).To(Succeed())
		}
		site.deploy(ctx, "preview-upgrade", properties{})
		site.online = true
		defer func() { site.online = false }()

		write(i.Deployment.Stemcells[0].Version)
		output, err := site.run(ctx, "/var/vcap/jobs/preview-upgrade/bin/run")
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(
			Equal("      1  none\n1 instance, 0 with pending changes, 0 with errors; 0 of other services left out\n"))

		write("999.1")
		output, err = site.run(ctx, "/var/vcap/jobs/preview-upgrade/bin/run")
		Expect(err).To(MatchError("exit status 1"), output)
		Expect(output).To(HavePrefix("      1  recreate\n\n      1  recreate      /stemcells/0/version: "))
	})

	It("uses the prepared templates in the container, and initialises none", func(ctx context.Context) {
		i := instance()
		created := site.call(ctx, "generate-manifest", i.Generate(appBody(i)))
		Expect(i.Deploy(created.Stdout)).To(Succeed())
		input, err := odb.Input("create-binding", i.Bind("b2", appBody(i)))
		Expect(err).NotTo(HaveOccurred())
		command := exec.CommandContext(ctx, "./container", "broker", site.vcap, "/bin/sh", "-c",
			installedAdapter+" create-binding >/dev/null && ls -A /tmp/service-adapter-*/prepared")
		command.Stdin = strings.NewReader(input)
		output, err := command.Output()
		Expect(err).NotTo(HaveOccurred())
		Expect(string(output)).To(BeEmpty(), "templates that the adapter initialised itself")
	})

	It("is deployed even if the state backend is down", func(ctx context.Context) {
		values := deployed()
		values["state"] = properties{
			"type":   "pg",
			"config": properties{"conn_str": "postgres://u:planted@127.0.0.1:1/db?sslmode=disable"},
		}
		site.deploy(ctx, "service-adapter", values)
		output, err := site.preStart(ctx)
		Expect(err).NotTo(HaveOccurred(), output)
		Expect(output).To(
			MatchRegexp(
				`(?s)^warning: the state backend pg does not work now, [^\n]*\nprepared entries bind in [^\n]*\n$`))
		Expect(output).NotTo(ContainSubstring("planted"))
	})

	DescribeTable("reports on one line",
		func(ctx context.Context, change func(properties), wanted string) {
			values := deployed()
			change(values)
			site.deploy(ctx, "service-adapter", values)
			output, err := site.preStart(ctx)
			Expect(err).To(HaveOccurred())
			Expect(output).To(MatchRegexp(`^service-adapter: [^\n]*` + wanted + `[^\n]*\n$`))
			Expect(output).NotTo(ContainSubstring("planted"))
		},
		Entry("a wrong type", func(p properties) { p["global_labels"] = []any{"a"} },
			`/var/vcap/jobs/service-adapter/config/service-adapter.yml:\d+: global_labels must be`),
		Entry("a missing secure_manifests", func(p properties) {
			delete(p, "secure_manifests")
		}, `service "entries" has secrets: secure_manifests must have the value`),
		Entry("a missing pak", func(p properties) {
			p["paks"] = []any{"/var/vcap/packages/service-adapter-paks/mysql"}
		}, "mysql"),
		Entry("an unknown service", func(p properties) {
			p["service"] = "entriess"
		}, `names the service "entriess"; did you mean "entries"\?`),
		Entry("a state backend without workspaces", func(p properties) {
			p["state"] = properties{"type": "http"}
		}, `state.type "http" cannot be used`),
		Entry("an unknown state backend", func(p properties) {
			p["state"] = properties{"type": "pgg"}
		}, "Unsupported backend type"),
		Entry("a setting that the state backend does not have", func(p properties) {
			p["state"] = properties{"type": "pg", "config": properties{"conn_string": "planted"}}
		}, "conn_string"),
		Entry("a setting that the state backend lacks", func(p properties) {
			p["state"] = properties{"type": "gcs", "config": properties{}}
		}, `"bucket": required field is not set`),
	)

	It("reports on one line a pak that is not valid", func(ctx context.Context) {
		pak := filepath.Join(site.vcap, "data", "wrong")
		Expect(os.CopyFS(pak, os.DirFS(filepath.Join("testdata", "pak")))).To(Succeed())
		writeFile(strings.Replace(readFile(pak, "bosh.yml"), "((text))", "((textt))", 1), pak, "bosh.yml")
		values := deployed()
		values["paks"] = []any{"/var/vcap/data/wrong"}
		site.deploy(ctx, "service-adapter", values)
		output, err := site.preStart(ctx)
		Expect(err).To(HaveOccurred())
		Expect(output).To(MatchRegexp(`^service-adapter: [^\n]*/var/vcap/data/wrong[^\n]*textt[^\n]*\n$`))
	})

	It("reports on one line a cache on a noexec file system", func(ctx context.Context) {
		zipped := filepath.Join(site.vcap, "data/compile/service-adapter-paks/brokerpaks/entries.brokerpak")
		Expect(os.Rename(zipped,
			filepath.Join(site.vcap, "data/packages/service-adapter-paks/0123abc/entries.brokerpak"))).To(Succeed())
		values := deployed()
		values["paks"] = []any{installedPak + ".brokerpak"}
		site.deploy(ctx, "service-adapter", values)
		i := instance()
		created := site.call(ctx, "generate-manifest", i.Generate(appBody(i)))
		Expect(created.Exit).To(BeZero(), created.Stderr)
		Expect(i.Deploy(created.Stdout)).To(Succeed())
		bound := site.call(ctx, "create-binding", i.Bind("b3", appBody(i)))
		Expect(bound.Exit).To(Equal(1))
		Expect(bound.Stdout).To(BeEmpty())
		Expect(bound.Stderr).To(
			MatchRegexp(
				`^\[odb-sdk\] handling create-binding\n[^\n]* msg=audit [^\n]*\n` +
					`[^\n]* cannot be executed: [^\n]* noexec[^\n]*\n[^\n]* msg=audit [^\n]*\n$`))
	})
})
