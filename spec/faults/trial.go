package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/gomega" //nolint:staticcheck // gomega is designed for dot imports

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/odb"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/process"
)

// A trial is one fault with the commands before and after it. It has one service instance with at most one binding.
type trial struct {
	laboratory *laboratory
	number     int
	store      *store
	random     *rand.Rand
	dir        string
	entries    string // the directory of the resources
	binding    string // the id of the binding
	instance   *odb.Instance
	// broker runs the commands of the protocol and of operators, and vm the errands. Faults never affect observer.
	broker, vm, observer *machine

	transcript strings.Builder
	said       strings.Builder // the output of all commands except the lists of observer
	failed     strings.Builder // the output of failed commands
	struck     bool
	bound      bool // whether the creation of a binding was requested
	// unbound is true if the instance gets no binding, so that its destruction runs OpenTofu for one workspace only.
	unbound    bool
	parameters object // of the request that the fault concerns

	lost, forgotten, stuck string // the findings, "" for none
}

// A stagingError is a failed expectation. It means that the trial could not be staged.
type stagingError string

// Error returns the text of the expectation.
func (e stagingError) Error() string { return string(e) }

// newTrial returns the trial with a number. It creates no files.
func (l *laboratory) newTrial(number int, s *store, random *rand.Rand) *trial {
	return &trial{
		laboratory: l, number: number, store: s, random: random,
		dir:     filepath.Join(l.dir, fmt.Sprintf("%s-%d", s.kind, number)),
		binding: fmt.Sprintf("bind-%d", number),
	}
}

// attempt calls a function and returns a failed expectation in it as an error.
func (t *trial) attempt(work func()) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			failure, expected := reason.(stagingError)
			if !expected {
				panic(reason)
			}
			err = failure
		}
	}()
	t.entries = filepath.Join(t.dir, "entries")
	Expect(os.MkdirAll(t.entries, 0o700)).To(Succeed())
	t.broker, t.vm, t.observer = t.newMachine("broker"), t.newMachine("vm"), t.newMachine("observer")
	work()
	return nil
}

// machines returns all machines of the trial.
func (t *trial) machines() []*machine { return []*machine{t.broker, t.vm, t.observer} }

// run prepares the action, injects the fault, looks for findings, deletes everything, and looks for findings again.
func (t *trial) run(ctx context.Context, f fault, a action) {
	if f.choose != nil {
		f.choose(t)
	}
	a.prepare(ctx, t)
	t.note("fault: " + f.name + ", command: " + a.name)
	f.inject(ctx, t, a)
	t.settle()
	t.judgeLost(f.unfinishedAccounts)
	t.recover(a)
	t.judgeLost(false)
}

// remove kills all processes of the trial and removes its files and states.
func (t *trial) remove(ctx context.Context) {
	_ = t.attempt(func() { process.End(t.dir) })
	for _, workspace := range t.workspaces() {
		_ = t.store.remove(context.WithoutCancel(ctx), workspace) // the backend is removed at the end of the run
	}
	_ = os.RemoveAll(t.dir)
}

// workspaces returns the names of the workspaces of the binding and of the instance.
func (t *trial) workspaces() []string {
	names := []string{lifecycle.Workspace(lifecycle.Binding, t.binding)}
	if t.instance != nil {
		names = append(names, lifecycle.Workspace(lifecycle.Instance, t.instance.ID))
	}
	return names
}

// note adds a line to the transcript.
func (t *trial) note(text string) { fmt.Fprintf(&t.transcript, "--- %s\n", text) }

// wait waits for a command, records its output and returns its answer.
func (t *trial) wait(running *process.Running) broker.Answer {
	began := time.Now()
	got := running.Wait()
	t.keep(running, got)
	fmt.Fprintf(&t.transcript, "%s\n", time.Since(began).Round(time.Millisecond))
	return got
}

// keep records the output of a command.
func (t *trial) keep(running *process.Running, got broker.Answer) {
	command := strings.Join(running.Args[1:], " ")
	fmt.Fprintf(&t.transcript, "\n$ service-adapter %s\nexit %d\n%s%s", command, got.Exit, got.Stdout, got.Stderr)
	t.said.WriteString(got.Stdout + got.Stderr)
	if got.Exit != 0 {
		t.failed.WriteString(got.Stdout + got.Stderr)
	}
}

// must waits for a command, which must succeed.
func (t *trial) must(running *process.Running) broker.Answer {
	got := t.wait(running)
	Expect(got.Exit).To(Equal(0), strings.Join(running.Args[1:], " ")+": "+got.Stderr)
	return got
}

// create chooses an instance with an id that belongs only to this trial.
func (t *trial) create(by provisioning) {
	t.instance = newInstance(fmt.Sprintf("inst-%d-%d", t.number, t.random.IntN(1000)), by)
	if by == byErrand {
		t.broker.set(object{"errand_properties": object{
			"paks": []string{t.laboratory.pak}, "state": t.store.config(), "config": object{"entries.path": t.entries},
		}})
	}
}

// generate starts generate-manifest for a creation or an update.
func (t *trial) generate(parameters object) *process.Running {
	i := t.instance
	return t.broker.call(generateManifest, i.Generate(object{
		"context": object{"platform": "cloudfoundry"}, "service_id": i.ServiceID, "plan_id": i.PlanID,
		"parameters": parameters,
	}))
}

// deploy runs generate-manifest, deploys its product, and renders the jobs of the errands.
func (t *trial) deploy(parameters object) {
	t.deployAnswer(t.must(t.generate(parameters)))
}

// deployAnswer deploys the product of generate-manifest, and renders the intent if the manifest has the errand
// apply-instance.
func (t *trial) deployAnswer(got broker.Answer) {
	Expect(t.instance.Deploy(got.Stdout)).To(Succeed())
	properties, exists, err := t.instance.JobProperties(applyInstance)
	Expect(err).NotTo(HaveOccurred())
	if !exists {
		return
	}
	text, err := json.Marshal(object{"intent": properties["intent"], "secrets": properties["secrets"]})
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(t.vm.intent(), text, 0o600)).To(Succeed())
}

// apply starts the errand apply-instance. destroy starts the errand destroy-instance.
func (t *trial) apply() *process.Running {
	return t.vm.begin("", "instance", "apply", "--intent", t.vm.intent())
}

// destroy starts the errand destroy-instance.
func (t *trial) destroy() *process.Running {
	return t.vm.begin("", "instance", "destroy", "--force", "--", t.instance.ID)
}

// bind and unbind start create-binding and delete-binding.
func (t *trial) bind(parameters object) *process.Running {
	t.bound = true
	return t.broker.call(createBinding, t.instance.Bind(t.binding, object{
		"app_guid": "app", "bind_resource": object{"app_guid": "app"}, "context": object{"platform": "cloudfoundry"},
		"parameters": parameters, "plan_id": t.instance.PlanID, "service_id": t.instance.ServiceID,
	}))
}

// unbind starts delete-binding.
func (t *trial) unbind() *process.Running {
	return t.broker.call(deleteBinding, t.instance.Bind(t.binding, object{
		"plan_id": t.instance.PlanID, "service_id": t.instance.ServiceID,
	}))
}

// settle waits until all processes of the trial have ended.
func (t *trial) settle() {
	Eventually(process.Below).WithArguments(t.dir).Should(BeEmpty())
}
