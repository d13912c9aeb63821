package backends_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/hold"
)

// The commands of the protocol.
const (
	generateManifest = "generate-manifest"
	createBinding    = "create-binding"
	deleteBinding    = "delete-binding"
)

type answer = broker.Answer

// machine is one on which an adapter runs, with a broker that has one service instance.
type machine struct {
	*odb.Instance
	world            *world
	dir              string
	cache, temporary string
	config           object
	env              []string // further variables of the adapter's environment, NAME=value
}

// newMachine makes a machine whose instance is deployed.
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

// bareMachine makes a machine on which nothing ran yet, and nothing is deployed.
func (w *world) bareMachine() *machine {
	GinkgoHelper()
	dir := filepath.Join(w.dir, fmt.Sprintf("m%d", len(w.machines)))
	m := &machine{
		world: w, dir: dir, cache: filepath.Join(dir, "cache"), temporary: filepath.Join(dir, "tmp"), Instance: instance("inst-1"),
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

// warmUp makes what OpenTofu prepares for a store, once.
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

func (m *machine) control() string { return filepath.Join(m.dir, "control") }
func (m *machine) runs() string    { return filepath.Join(m.cache, "runs") }

// set changes keys of the configuration.
func (m *machine) set(keys object) {
	GinkgoHelper()
	maps.Copy(m.config, keys)
	text, err := json.Marshal(m.config) // JSON is YAML
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(m.configFile(), text, 0o600)).To(Succeed())
}

func (m *machine) configFile() string { return filepath.Join(m.dir, "service-adapter.yml") }

func (m *machine) environment() []string {
	return append([]string{"SERVICE_ADAPTER_CONFIG=" + m.configFile(), "TMPDIR=" + m.temporary}, m.env...)
}

// deploy creates the instance and keeps what the adapter returned, as the broker does.
func (m *machine) deploy(ctx context.Context) {
	GinkgoHelper()
	got := m.call(ctx, generateManifest, m.Generate(object{
		"context": object{"platform": "cloudfoundry"}, "service_id": m.ServiceID, "plan_id": m.PlanID, "parameters": object{},
	}))
	Expect(got.Exit).To(Equal(0), got.Stderr)
	Expect(m.Deploy(got.Stdout)).To(Succeed())
}

// call runs a command of the protocol, run any command.
func (m *machine) call(ctx context.Context, command string, parameters object) answer {
	GinkgoHelper()
	input, err := odb.Input(command, parameters)
	Expect(err).NotTo(HaveOccurred())
	return m.run(ctx, input, command)
}

func (m *machine) run(ctx context.Context, stdin string, arguments ...string) answer {
	GinkgoHelper()
	got, err := broker.Adapter{Path: suite.adapter, Env: m.environment(), Dir: m.dir}.Run(ctx, stdin, arguments...)
	Expect(err).NotTo(HaveOccurred())
	report(arguments[0], got)
	return got
}

// report shows an answer when the spec fails.
func report(command string, got answer) {
	GinkgoWriter.Printf("%s: exit %d\nstdout: %.2000s\nstderr: %.2000s\n", command, got.Exit, got.Stdout, got.Stderr)
}

// bindParameters are those of create-binding; further parameters of the request may be given.
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

func (m *machine) unbindParameters(id string) object {
	return m.Bind(id, object{"plan_id": m.PlanID, "service_id": m.ServiceID})
}

func (m *machine) bind(ctx context.Context, id string) answer {
	GinkgoHelper()
	return m.call(ctx, createBinding, m.bindParameters(id))
}

func (m *machine) unbind(ctx context.Context, id string) answer {
	GinkgoHelper()
	return m.call(ctx, deleteBinding, m.unbindParameters(id))
}

// credentials returns the secret of a binding.
func (m *machine) credentials(got answer) any {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(0), got.Stderr)
	var binding struct{ Credentials object }
	Expect(json.Unmarshal([]byte(got.Stdout), &binding)).To(Succeed())
	Expect(binding.Credentials["secret"]).NotTo(BeEmpty())
	return binding.Credentials["secret"]
}

// expectBroken asserts that the user learns nothing and the operator one thing.
func expectBroken(got answer, message string) {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(1), got.Stderr)
	Expect(got.Stdout).To(BeEmpty())
	Expect(got.Stderr).To(ContainSubstring(message))
	Expect(got.Stderr).NotTo(ContainSubstring("goroutine"))
	errors := 0
	for line := range strings.Lines(got.Stderr) {
		if !strings.HasPrefix(line, "[odb-sdk]") && !strings.Contains(line, "level=INFO") && !strings.Contains(line, "level=WARN") {
			errors++
		}
	}
	Expect(errors).To(Equal(1), got.Stderr)
}

// expectTidy asserts that the adapter left no files on the machine but what it prepared.
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

// command is one in the background.
type command struct {
	*exec.Cmd
	stdout, stderr *gbytes.Buffer // to be read at any time
	ended          chan struct{}
}

// begin starts a command. In the kernel's eyes it is as independent of the spec as an adapter is of its broker.
func (m *machine) begin(name string, parameters object) *command {
	GinkgoHelper()
	input, err := odb.Input(name, parameters)
	Expect(err).NotTo(HaveOccurred())
	r := &command{Cmd: exec.Command(suite.adapter, name), stdout: gbytes.NewBuffer(), stderr: gbytes.NewBuffer(), ended: make(chan struct{})}
	r.Stdin, r.Stdout, r.Stderr = strings.NewReader(input), r.stdout, r.stderr
	r.Env, r.Dir = m.environment(), m.dir
	r.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	Expect(r.Start()).To(Succeed())
	go func() {
		defer close(r.ended)
		_ = r.Wait() // the exit code tells
	}()
	return r
}

// wait waits for the end and returns the answer; after a signal its exit code is -1.
func (r *command) wait() answer {
	GinkgoHelper()
	Eventually(r.ended).Should(BeClosed())
	got := answer{Exit: r.ProcessState.ExitCode(), Stdout: string(r.stdout.Contents()), Stderr: string(r.stderr.Contents())}
	report(r.Args[1], got)
	return got
}

// processes are the ids of those whose working directory lies on the machine.
func (m *machine) processes() []int {
	var found []int
	for _, name := range list("/proc") {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		cwd, err := os.Readlink(filepath.Join("/proc", name, "cwd"))
		if err == nil && (cwd == m.dir || strings.HasPrefix(cwd, m.dir+"/")) && !hold.Gone(pid) {
			found = append(found, pid)
		}
	}
	return found
}

// end ends whatever runs on the machine, as the loss of its power does: all of it is stopped before the first one dies, so that none
// does anything about the death of another.
func (m *machine) end() {
	GinkgoHelper()
	Eventually(func() []int { // what is killed may have just started something
		for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
			for _, pid := range m.processes() {
				_ = syscall.Kill(pid, signal) // it may have ended
			}
		}
		return m.processes()
	}).Should(BeEmpty())
}

// together does several things at the same time, some of them at once, and waits for all of them.
func together(atOnce int, things ...func()) {
	GinkgoHelper()
	var group sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for _, thing := range things {
		room <- struct{}{}
		group.Go(func() {
			defer func() { <-room }()
			defer GinkgoRecover()
			thing()
		})
	}
	group.Wait()
}
