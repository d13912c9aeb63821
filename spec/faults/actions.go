package main

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/gomega" //nolint:staticcheck // gomega is designed for dot imports

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/spec/kit/process"
)

// An action is a command that a fault affects, with its prerequisites.
type action struct {
	name string
	// kind is the kind of the workspace that the command changes.
	kind lifecycle.Kind
	// last is the point after which the workspace is removed or replaced. points are those at which a process is
	// killed.
	last   string
	points []string
	// marks is true if OpenTofu runs once more before at the same point, to store the new record.
	marks bool
	// evaluates is true if the parameters of the request reach a template.
	evaluates bool
	// destroys is true if the command destroys the instance, together with its binding.
	destroys bool
	// errand is true if an errand runs the command. It needs a backend that other machines can reach.
	errand  bool
	prepare func(ctx context.Context, t *trial)
	begin   func(t *trial) *process.Running
}

// runsOn reports whether the action is possible on a backend. An errand needs a backend that its VM can reach.
func (a action) runsOn(s *store) bool { return !a.errand || s.kind != local }

// The points at which the wrapper of OpenTofu or the provider can be paused; see spec/backends/testdata/tofu.sh.
const (
	beforeApply   = "before-apply-apply"
	afterApply    = "after-apply-apply"
	beforeDestroy = "before-destroy-destroy"
	afterDestroy  = "after-destroy-destroy"
	beforeCreate  = "before-create"
	afterCreate   = "after-create"
	beforeDelete  = "before-destroy"
	afterDelete   = "after-destroy"
)

// actions returns all actions.
func actions() []action { return append(bindingActions(), instanceActions()...) }

// creation and deletion return the points of runs that create or destroy resources.
func creation() []string { return []string{beforeApply, beforeCreate, afterCreate, afterApply} }

// deletion returns the points of runs that destroy resources.
func deletion() []string { return []string{beforeDestroy, beforeDelete, afterDelete, afterDestroy} }

// bindingActions returns the commands for bindings.
func bindingActions() []action {
	actions := []action{
		{
			name: "create-binding", last: afterApply, points: creation(), evaluates: true, prepare: plain,
			begin: func(t *trial) *process.Running { return t.bind(t.parameters) },
		},
		{name: "delete-binding", last: afterDestroy, points: deletion(), prepare: bound, begin: (*trial).unbind},
		{
			name: "delete-binding, interrupted bind", last: afterApply, points: append(creation(), deletion()...),
			prepare: interruptedBind, begin: (*trial).unbind,
		},
		{
			name: "bindings delete, interrupted bind", last: afterApply, points: append(creation(), deletion()...),
			prepare: interruptedBind,
			begin:   func(t *trial) *process.Running { return t.broker.begin("", "bindings", "delete", t.binding) },
		},
	}
	for n := range actions {
		actions[n].kind = lifecycle.Binding
	}
	return actions
}

// instanceActions returns the commands for instances.
func instanceActions() []action {
	update := []string{beforeApply, afterApply}
	generate := func(t *trial) *process.Running { return t.generate(t.parameters) }
	actions := []action{
		{
			name: "apply --intent, creation", last: afterApply, points: creation(), evaluates: true, errand: true,
			prepare: intended, begin: (*trial).apply,
		},
		{
			name: "apply --intent, update", last: afterApply, points: update, marks: true, evaluates: true,
			errand:  true,
			prepare: changed, begin: (*trial).apply,
		},
		{
			name: "apply, after a change by hand", last: afterApply, points: creation(), prepare: damagedByHand,
			begin: func(t *trial) *process.Running { return t.broker.begin("", "instance", "apply", t.instance.ID) },
		},
		{
			name: "destroy", last: afterDestroy, points: deletion(), destroys: true,
			prepare: provisioned, begin: (*trial).destroy,
		},
		{
			name: "destroy, interrupted creation", last: afterApply, points: append(creation(), deletion()...),
			destroys: true,
			errand:   true, prepare: interruptedApply, begin: (*trial).destroy,
		},
		{
			name: "generate-manifest, creation", last: afterApply, points: creation(), evaluates: true,
			prepare: requested, begin: generate,
		},
		{
			name: "generate-manifest, update", last: afterApply, points: update, marks: true, evaluates: true,
			prepare: provisionedByRequest, begin: generate,
		},
	}
	for n := range actions {
		actions[n].kind = lifecycle.Instance
	}
	return actions
}

// plain deploys an instance without a provision template.
func plain(_ context.Context, t *trial) {
	t.create(withoutTemplate)
	t.deploy(object{})
}

// bound deploys an instance and creates a binding.
func bound(ctx context.Context, t *trial) {
	plain(ctx, t)
	t.must(t.bind(object{}))
}

// interruptedBind deploys an instance, and kills the creation of a binding after its first resource.
func interruptedBind(ctx context.Context, t *trial) {
	plain(ctx, t)
	t.interrupt(t.broker, func() *process.Running { return t.bind(object{}) })
}

// intended deploys an instance whose provision template an errand applies. The errand has not run.
func intended(_ context.Context, t *trial) {
	t.create(byErrand)
	t.deploy(t.parameters)
}

// interruptedApply deploys an instance, and kills the errand apply-instance after the first resource.
func interruptedApply(_ context.Context, t *trial) {
	t.create(byErrand)
	t.deploy(object{})
	t.interrupt(t.vm, t.apply)
}

// changed deploys an update of an instance that the errand has applied once.
func changed(_ context.Context, t *trial) {
	t.create(byErrand)
	t.deploy(object{})
	t.must(t.apply())
	t.deploy(t.update())
}

// requested prepares the creation of an instance by generate-manifest.
func requested(_ context.Context, t *trial) { t.create(byRequest) }

// provisionedByRequest creates an instance by generate-manifest, and prepares its update.
func provisionedByRequest(ctx context.Context, t *trial) {
	requested(ctx, t)
	t.deploy(object{})
	t.parameters = t.update()
}

// provisioned creates an instance with a provision template, by generate-manifest or by an errand, and usually a
// binding.
func provisioned(_ context.Context, t *trial) {
	if t.store.kind != local && t.random.IntN(2) == 0 {
		t.create(byErrand)
		t.deploy(object{})
		t.must(t.apply())
	} else {
		t.create(byRequest)
		t.deploy(object{})
	}
	if !t.unbound && t.random.IntN(2) == 0 {
		t.must(t.bind(object{}))
	}
}

// damagedByHand creates an instance and removes one of its resources without OpenTofu.
func damagedByHand(ctx context.Context, t *trial) {
	requested(ctx, t)
	t.deploy(object{})
	Expect(os.Remove(filepath.Join(t.entries, t.instance.ID+"-data-access"))).To(Succeed())
}

// update returns the parameters of an update.
func (t *trial) update() object {
	parameters := object{"content": "second"}
	for name, item := range t.parameters {
		parameters[name] = item
	}
	return parameters
}

// interrupt kills all processes of a machine when a command has created its first resource.
func (t *trial) interrupt(m *machine, begin func() *process.Running) {
	at := t.point(m, afterCreate)
	at.Hold()
	running := begin()
	at.Reached()
	process.End(m.dir)
	at.Release()
	t.wait(running)
	t.releaseLocks()
}
