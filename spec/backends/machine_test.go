package backends_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/broker"
)

// The commands of the broker's protocol.
const (
	generateManifest = "generate-manifest"
	createBinding    = "create-binding"
	deleteBinding    = "delete-binding"
)

// An answer is the outcome of one run of the adapter.
type answer = broker.Answer

// A machine runs an adapter, with a broker for one service instance.
type machine struct {
	*odb.Instance
	world            *world
	dir              string
	cache, temporary string
	config           object
	env              []string // further environment variables of the adapter as NAME=value
}

// newMachine returns a new machine whose instance is deployed.
func (w *world) newMachine(ctx context.Context) *machine {
	GinkgoHelper()
	m := w.bareMachine()
	if suite.warm[w.kind] == "" {
		w.warmUp(ctx)
	}
	m.set(object{"prepared_dir": suite.warm[w.kind]})
	m.deploy(ctx)
	return m
}

// bareMachine returns a new machine on which no command has run and no instance is deployed.
func (w *world) bareMachine() *machine {
	GinkgoHelper()
	dir := filepath.Join(w.dir, fmt.Sprintf("m%d", len(w.machines)))
	m := &machine{
		env: w.env, world: w, dir: dir, cache: filepath.Join(dir, "cache"), temporary: filepath.Join(dir, "tmp"),
		Instance: instance("inst-1"),
		config: object{
			"paks": []string{suite.pak}, "secure_manifests": true, "state": w.state(),
			"services": object{"entries": object{"bind_defaults": object{"path": w.entries}}},
		},
	}
	w.machines = append(w.machines, m)
	for _, dir := range []string{m.temporary, m.control()} {
		Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	}
	m.set(object{"cache_dir": m.cache})
	return m
}

// warmUp prepares the templates for a backend, once for each kind.
func (w *world) warmUp(ctx context.Context) {
	GinkgoHelper()
	m := w.bareMachine()
	m.cache = filepath.Join(suite.dir, "warm-"+w.kind, "cache")
	m.set(object{"cache_dir": m.cache})
	m.deploy(ctx)
	m.credentials(m.bind(ctx, "warm"))
	Expect(m.unbind(ctx, "warm").Exit).To(Equal(0))
	m.expectTidy()
	w.machines = slices.DeleteFunc(w.machines, func(other *machine) bool { return other == m })
	suite.warm[w.kind] = m.cache
}

// control returns the directory of the pipes with which specs pause OpenTofu.
func (m *machine) control() string { return filepath.Join(m.dir, "control") }

// runs returns the directory of the scratch directories.
func (m *machine) runs() string { return filepath.Join(m.cache, "runs") }

// set replaces keys of the configuration and writes it.
func (m *machine) set(keys object) {
	GinkgoHelper()
	maps.Copy(m.config, keys)
	text, err := json.Marshal(m.config) // JSON is valid YAML
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(m.configFile(), text, 0o600)).To(Succeed())
}

// configFile returns the path of the adapter's configuration.
func (m *machine) configFile() string { return filepath.Join(m.dir, "service-adapter.yml") }

// environment returns the environment of the adapter.
func (m *machine) environment() []string {
	return append([]string{"SERVICE_ADAPTER_CONFIG=" + m.configFile(), "TMPDIR=" + m.temporary}, m.env...)
}

// deploy creates the instance and stores the manifest and secrets of the adapter, as the broker does.
func (m *machine) deploy(ctx context.Context) {
	GinkgoHelper()
	got := m.call(ctx, generateManifest, m.Generate(object{
		"context": object{"platform": "cloudfoundry"}, "service_id": m.ServiceID, "plan_id": m.PlanID,
		"parameters": object{},
	}))
	Expect(got.Exit).To(Equal(0), got.Stderr)
	Expect(m.Deploy(got.Stdout)).To(Succeed())
}

// call runs a command of the protocol with the parameters of a request. run runs any command.
func (m *machine) call(ctx context.Context, command string, parameters object) answer {
	GinkgoHelper()
	input, err := odb.Input(command, parameters)
	Expect(err).NotTo(HaveOccurred())
	return m.run(ctx, input, command)
}

// adapter returns the adapter under test with the environment of the machine.
func (m *machine) adapter() broker.Adapter {
	return broker.Adapter{Path: suite.adapter, Env: m.environment(), Dir: m.dir}
}

// run runs a command with a text on standard input, and returns the answer.
func (m *machine) run(ctx context.Context, stdin string, arguments ...string) answer {
	GinkgoHelper()
	got, err := m.adapter().Run(ctx, stdin, arguments...)
	Expect(err).NotTo(HaveOccurred())
	process.Show(arguments[0], got)
	return got
}

// bindParameters returns the parameters of create-binding, with further parameters of the user.
func (m *machine) bindParameters(id string, further ...object) object {
	parameters := object{"content": "content of " + id}
	for _, each := range further {
		maps.Copy(parameters, each)
	}
	return m.Bind(id, object{
		"app_guid": "app", "bind_resource": object{"app_guid": "app"}, "context": object{"platform": "cloudfoundry"},
		"parameters": parameters, "plan_id": m.PlanID, "service_id": m.ServiceID,
	})
}

// unbindParameters returns the parameters of delete-binding.
func (m *machine) unbindParameters(id string) object {
	return m.Bind(id, object{"plan_id": m.PlanID, "service_id": m.ServiceID})
}

// bind creates a binding, and returns the answer.
func (m *machine) bind(ctx context.Context, id string) answer {
	GinkgoHelper()
	return m.call(ctx, createBinding, m.bindParameters(id))
}

// unbind deletes a binding, and returns the answer.
func (m *machine) unbind(ctx context.Context, id string) answer {
	GinkgoHelper()
	return m.call(ctx, deleteBinding, m.unbindParameters(id))
}

// credentials returns the secret in the answer to create-binding, which must have succeeded.
func (m *machine) credentials(got answer) any {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(0), got.Stderr)
	var binding struct{ Credentials object }
	Expect(json.Unmarshal([]byte(got.Stdout), &binding)).To(Succeed())
	Expect(binding.Credentials["secret"]).NotTo(BeEmpty())
	return binding.Credentials["secret"]
}

// expectBroken asserts that a command failed with one message for the operator and none for the user.
func expectBroken(got answer, message string) {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(1), got.Stderr)
	Expect(got.Stdout).To(BeEmpty())
	Expect(got.Stderr).To(ContainSubstring(message))
	Expect(got.Stderr).NotTo(ContainSubstring("goroutine"))
	errors := 0
	for line := range strings.Lines(got.Stderr) {
		if !strings.HasPrefix(line, "[odb-sdk]") && !strings.Contains(line, "level=INFO") &&
			!strings.Contains(line, "level=WARN") {
			errors++
		}
	}
	Expect(errors).To(Equal(1), got.Stderr)
}

// expectTidy asserts that the adapter left only prepared directories on the machine.
func (m *machine) expectTidy() {
	GinkgoHelper()
	Expect(list(m.runs())).To(BeEmpty(), "scratch directories")
	Expect(list(m.temporary)).To(BeEmpty(), "temporary files")
	for _, name := range list(m.cache) {
		Expect(name).To(BeElementOf("prepared", "runs"), "the cache")
	}
	for _, name := range list(filepath.Join(m.cache, "prepared")) {
		Expect(name).NotTo(HavePrefix(".new"), "the cache")
	}
}

// begin starts a command in the background.
func (m *machine) begin(command string, parameters object) *process.Running {
	GinkgoHelper()
	input, err := odb.Input(command, parameters)
	Expect(err).NotTo(HaveOccurred())
	return process.Start(m.adapter(), nil, input, command)
}

// processes returns the running processes of the machine.
func (m *machine) processes() []process.Process { return process.Below(m.dir) }
