package backends_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"
)

// A lostCall is a command whose state is lost while it runs OpenTofu.
type lostCall struct {
	// workspace is the name of the state, and resources are the addresses that exist when the state is lost.
	workspace string
	resources []string
	// on is the machine that runs the command, begin starts it, and point is the point at which the fault occurs.
	on    *machine
	begin func() *process.Running
	point string
	// updates is true if OpenTofu first stores the new record with an apply of its own.
	updates bool
	// unconfirmed is true if another run may have destroyed the resources, so that only the first answer names them.
	unconfirmed bool
	// again runs a second command, which must not forget the resources either.
	again func(ctx context.Context) answer
}

// The functions return the addresses of the resources of the two paks.
func accountAndGrant() []string { return []string{"directory_entry.account", "directory_entry.grant"} }

// dataAndAccess returns the addresses of the resources of an instance.
func dataAndAccess() []string { return []string{"directory_entry.data", "directory_entry.access"} }

// start returns a function that starts an operator's command in the background.
func (m *machine) start(arguments ...string) func() *process.Running {
	return func() *process.Running { return process.Start(m.adapter(), nil, "", arguments...) }
}

// ask returns a function that starts a command of the broker in the background.
func (m *machine) ask(command string, parameters object) func() *process.Running {
	return func() *process.Running { return m.begin(command, parameters) }
}

// bindingCall returns a command for the binding bind-1 that loses its state after an apply.
func (m *machine) bindingCall(begin func() *process.Running) *lostCall {
	return &lostCall{
		workspace: "b-bind-1", resources: accountAndGrant(), on: m, begin: begin, point: afterApply,
		again: func(ctx context.Context) answer { return m.unbind(ctx, "bind-1") },
	}
}

// interrupted creates a binding whose creation is killed.
func (m *machine) interrupted() {
	GinkgoHelper()
	m.killed(createBinding, m.bindParameters("bind-1"), afterCreate, theMachine)
}

// instanceCall returns a command for the instance that loses its state after an apply.
func (vm *errandVM) instanceCall(begin func() *process.Running) *lostCall {
	return &lostCall{
		workspace: "i-inst-1", resources: dataAndAccess(), on: vm.machine, begin: begin, point: afterApply,
		again: vm.destroy,
	}
}

// errands returns a broker whose plan has lifecycle errands and the VM on which they run.
func (w *world) errands(ctx context.Context) (*machine, *errandVM) {
	GinkgoHelper()
	m := w.newErrandBroker()
	m.deployWith(ctx, object{})
	return m, m.newErrandVM()
}

// inline returns a broker whose generate-manifest applies the provision template, and the parameters of a request for a
// manifest.
func (w *world) inline(parameters object) (*machine, object) {
	GinkgoHelper()
	m := w.newErrandBroker()
	m.Plan["lifecycle_errands"], m.Plan["instance_groups"] = object{}, []any{}
	m.set(object{"config": object{"entries.path": w.entries, "note": "any"}})
	return m, m.Generate(object{
		"context": object{"platform": "cloudfoundry"}, "service_id": m.ServiceID, "plan_id": m.PlanID,
		"parameters": parameters,
	})
}

// run starts the command, calls the fault while the command is paused at its point, and returns the answer.
func (c *lostCall) run(fault func()) answer {
	GinkgoHelper()
	at := c.on.point(c.point)
	at.Hold()
	running := c.begin()
	at.Reached()
	if c.updates { // this apply stored only the record, so continue to the next apply
		before := c.on.point(beforeApply)
		before.Hold()
		at.Release()
		before.Reached()
		at.Hold()
		before.Release()
		at.Reached()
	}
	fault()
	at.Release()
	return running.Wait()
}

// storedText returns the state of a workspace in the database, and "" if there is none.
func (w *world) storedText(ctx context.Context, workspace string) string {
	GinkgoHelper()
	rows, err := w.server.Query(ctx, w.location,
		"SELECT data FROM terraform_remote_state.states WHERE name = '"+workspace+"'")
	Expect(err).NotTo(HaveOccurred())
	return strings.Join(rows, "\n")
}

// replaceState replaces the state of a workspace with that of another run which took the workspace over. The new state
// has another nonce. It contains the resources if with is true.
func (w *world) replaceState(ctx context.Context, workspace string, with bool) {
	GinkgoHelper()
	var state object
	Expect(json.Unmarshal([]byte(w.storedText(ctx, workspace)), &state)).To(Succeed())
	var kept []any
	for _, item := range state["resources"].([]any) {
		resource := item.(object)
		if resource["name"] == "_binding" {
			attributes := resource["instances"].([]any)[0].(object)["attributes"].(object)
			attributes["triggers_replace"].(object)["value"] = "ANOTHER"
		} else if !with {
			continue
		}
		kept = append(kept, item)
	}
	state["resources"] = kept
	text, err := json.Marshal(state)
	Expect(err).NotTo(HaveOccurred())
	_, err = w.server.Query(ctx, w.location,
		"UPDATE terraform_remote_state.states SET data = $state$"+string(text)+"$state$ WHERE name = '"+workspace+"'")
	Expect(err).NotTo(HaveOccurred())
}

// forget returns the command with which an operator forgets the resources.
func (c *lostCall) forget() []string {
	if id, ok := strings.CutPrefix(c.workspace, "i-"); ok {
		return []string{"instance", "destroy", id, "--forget"}
	}
	return []string{"bindings", "delete", strings.TrimPrefix(c.workspace, "b-"), "--forget"}
}

// expectNamed asserts that a command failed, and that its message for the operator names the resources.
func (c *lostCall) expectNamed(got answer) {
	GinkgoHelper()
	Expect(got.Exit).To(Equal(1), got.Stderr)
	Expect(got.Stdout).To(BeEmpty())
	for _, address := range c.resources {
		Expect(got.Stderr).To(ContainSubstring(address))
	}
}

// lostCalls returns the commands that apply or destroy a template, each with a function that creates its prerequisites.
func lostCalls() []TableEntry {
	var entries []TableEntry
	add := func(name string, slow bool, call func(ctx context.Context, w *world) *lostCall) {
		entries = append(entries, Entry(name, kit.SlowIf(slow), call))
	}
	add("create-binding", false, func(ctx context.Context, w *world) *lostCall {
		m := w.newMachine(ctx)
		return m.bindingCall(m.ask(createBinding, m.bindParameters("bind-1")))
	})
	add("create-binding that finishes an interrupted one", true, func(ctx context.Context, w *world) *lostCall {
		m := w.newMachine(ctx)
		m.interrupted()
		return m.bindingCall(m.ask(createBinding, m.bindParameters("bind-1")))
	})
	add("delete-binding that finishes an interrupted creation", false, func(ctx context.Context, w *world) *lostCall {
		m := w.newMachine(ctx)
		m.interrupted()
		return m.bindingCall(m.ask(deleteBinding, m.unbindParameters("bind-1")))
	})
	add("delete-binding before it destroys", false, func(ctx context.Context, w *world) *lostCall {
		m := w.newMachine(ctx)
		m.credentials(m.bind(ctx, "bind-1"))
		call := m.bindingCall(m.ask(deleteBinding, m.unbindParameters("bind-1")))
		call.point, call.unconfirmed = beforeDestroy, true
		return call
	})
	add("bindings delete that finishes an interrupted creation", false, func(ctx context.Context, w *world) *lostCall {
		m := w.newMachine(ctx)
		m.interrupted()
		return m.bindingCall(m.start("bindings", "delete", "bind-1"))
	})
	add("create-binding that rolls back", false, func(ctx context.Context, w *world) *lostCall {
		m := w.newMachine(ctx)
		call := m.bindingCall(m.ask(createBinding, m.bindParameters("bind-1", object{"failure": 1})))
		call.point, call.resources = beforeDestroy, []string{"directory_entry.account"}
		return call
	})
	add("instance apply --intent that creates", false, func(ctx context.Context, w *world) *lostCall {
		_, vm := w.errands(ctx)
		return vm.instanceCall(vm.beginApply)
	})
	add("instance apply --intent that changes", false, func(ctx context.Context, w *world) *lostCall {
		m, vm := w.errands(ctx)
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		m.deployWith(ctx, object{"content": "second"})
		vm.render(m)
		call := vm.instanceCall(vm.beginApply)
		call.updates = true
		return call
	})
	add("instance apply of an operator", false, func(ctx context.Context, w *world) *lostCall {
		_, vm := w.errands(ctx)
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		return vm.instanceCall(vm.start("instance", "apply", "inst-1"))
	})
	add("instance destroy that finishes an interrupted creation", false, func(ctx context.Context, w *world) *lostCall {
		_, vm := w.errands(ctx)
		vm.strikeAt(afterCreate, theMachine, vm.beginApply)
		return vm.instanceCall(vm.beginDestroy)
	})
	add("instance destroy before it destroys", false, func(ctx context.Context, w *world) *lostCall {
		_, vm := w.errands(ctx)
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		call := vm.instanceCall(vm.beginDestroy)
		call.point, call.unconfirmed = beforeDestroy, true
		return call
	})
	add("generate-manifest that creates", false, func(_ context.Context, w *world) *lostCall {
		m, request := w.inline(object{})
		call := (&errandVM{m}).instanceCall(m.ask(generateManifest, request))
		call.again = func(ctx context.Context) answer { return m.call(ctx, generateManifest, request) }
		return call
	})
	add("generate-manifest that changes", true, func(ctx context.Context, w *world) *lostCall {
		m, request := w.inline(object{})
		Expect(m.Deploy(m.call(ctx, generateManifest, request).Stdout)).To(Succeed())
		call := (&errandVM{m}).instanceCall(m.ask(generateManifest, m.Generate(object{
			"context": object{"platform": "cloudfoundry"}, "service_id": m.ServiceID, "plan_id": m.PlanID,
			"parameters": object{"content": "second"},
		})))
		call.updates = true
		call.again = func(ctx context.Context) answer { return m.run(ctx, "", "instance", "apply", "inst-1") }
		return call
	})
	return entries
}

var _ = Describe("a command whose state is removed while OpenTofu runs", func() {
	DescribeTable("names the resources that are in no state, as does every later command",
		func(ctx context.Context, prepare func(ctx context.Context, w *world) *lostCall) {
			w := newWorld(ctx, pg)
			call := prepare(ctx, w)
			audit := filepath.Join(w.dir, "audit")
			call.on.set(object{"audit_log": audit})
			got := call.run(func() {
				_, err := w.server.Query(ctx, w.location,
					"DELETE FROM terraform_remote_state.states WHERE name = '"+call.workspace+"'")
				Expect(err).NotTo(HaveOccurred())
			})
			Expect(w.resources()).To(HaveLen(len(call.resources)))
			call.expectNamed(got)
			for _, address := range call.resources {
				Expect(read(audit)).To(ContainSubstring(address))
			}
			if call.unconfirmed {
				Expect(got.Stderr).To(ContainSubstring("keep this message"))
				Expect(call.again(ctx).Exit).To(BeElementOf(0, 41), "the id can be used again")
			} else {
				for range 2 {
					call.expectNamed(call.again(ctx))
				}
				Expect(w.resources()).To(HaveLen(len(call.resources)), "no resource was changed")
				forgotten := call.on.run(ctx, "", call.forget()...)
				Expect(forgotten.Exit).To(Equal(0), forgotten.Stderr)
				Expect(forgotten.Stdout + forgotten.Stderr).To(ContainSubstring(call.resources[0]))
			}
			for _, name := range w.resources() {
				Expect(os.Remove(filepath.Join(w.entries, name))).To(Succeed())
			}
			w.expectNothingLeft()
		}, lostCalls())
})

var _ = Describe("a command whose state another run replaces while OpenTofu runs", func() {
	// replaced runs create-binding or delete-binding, and replaces the state at a point. It returns the answer.
	replaced := func(ctx context.Context, w *world, call *lostCall, with bool) answer {
		GinkgoHelper()
		return call.run(func() { w.replaceState(ctx, call.workspace, with) })
	}

	It("names the resources that the other run does not have, and keeps that run's record", kit.Slow(),
		func(ctx context.Context) {
			w := newWorld(ctx, pg)
			m := w.newMachine(ctx)
			call := m.bindingCall(m.ask(createBinding, m.bindParameters("bind-1")))
			got := replaced(ctx, w, call, false)
			call.expectNamed(got)
			Expect(got.Stderr).To(ContainSubstring("keep this message"))
			Expect(w.storedText(ctx, call.workspace)).To(
				And(ContainSubstring("ANOTHER"), Not(ContainSubstring(`lost`))))
		})

	It("reports that the binding exists if the other run has all resources", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newMachine(ctx)
		call := m.bindingCall(m.ask(createBinding, m.bindParameters("bind-1")))
		Expect(replaced(ctx, w, call, true).Exit).To(Equal(49))
		Expect(w.storedText(ctx, call.workspace)).To(ContainSubstring("ANOTHER"))
	})
})

var _ = Describe("an instance that generate-manifest provisioned, and whose deletion has begun", func() {
	It("cannot be bound", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m, request := w.inline(object{})
		Expect(m.Deploy(m.call(ctx, generateManifest, request).Stdout)).To(Succeed())
		(&errandVM{m}).strikeAt(afterDelete, theMachine, m.start("instance", "destroy", "inst-1"))
		refused := m.bind(ctx, "bind-1")
		Expect(refused.Exit).To(Equal(1), refused.Stderr)
		Expect(refused.Stdout).To(ContainSubstring("delete the service instance again"))
		(&errandVM{m}).delete(ctx)
	})
})
