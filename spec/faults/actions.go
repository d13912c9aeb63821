package main

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/gomega" //nolint:staticcheck // gomega is made for it

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/spec/kit/process"
)

// action is a command that a fault strikes, with what must exist before.
type action struct {
	name string
	// kind says whose workspace the command works on.
	kind lifecycle.Kind
	// last is the point after which the workspace disappears or is replaced, and points are those at which a process is
	// killed.
	last   string
	points []string
	// marks says that OpenTofu runs once more before, at the same point, to store the new record.
	marks bool
	// evaluates says that the request's parameters reach a template.
	evaluates bool
	// destroys says that the command destroys the instance, and so its binding.
	destroys bool
	// errand says that an errand runs the command, which needs a backend that other machines reach.
	errand  bool
	prepare func(ctx context.Context, t *trial)
	begin   func(t *trial) *process.Running
}

func (a action) runsOn(s *store) bool { return !a.errand || s.kind != local }

// Points at which the wrapped OpenTofu or the provider can be held; see spec/backends/testdata/tofu.sh.
const (
	beforeApply   = "before-apply-apply"
	afterApply    = "after-apply-apply"
	beforeDestroy = "before-destroy-destroy"
	afterDestroy  = "after-destroy-destroy"
	beforeMake    = "before-create"
	afterMake     = "after-create"
	beforeClear   = "before-destroy"
	afterClear    = "after-destroy"
)

// actions returns all actions.
func actions() []action { return append(bindingActions(), instanceActions()...) }

// creation and deletion are the points of runs that create or destroy resources.
func creation() []string { return []string{beforeApply, beforeMake, afterMake, afterApply} }
func deletion() []string { return []string{beforeDestroy, beforeClear, afterClear, afterDestroy} }

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

// bound creates a binding.
func bound(ctx context.Context, t *trial) {
	plain(ctx, t)
	t.must(t.bind(object{}))
}

// interruptedBind kills the creation of a binding after its first resource.
func interruptedBind(ctx context.Context, t *trial) {
	plain(ctx, t)
	t.interrupt(t.broker, func() *process.Running { return t.bind(object{}) })
}

// intended deploys an instance whose provision template an errand applies.
func intended(_ context.Context, t *trial) {
	t.create(byErrand)
	t.deploy(t.parameters)
}

// interruptedApply kills the errand apply-instance after the first resource.
func interruptedApply(_ context.Context, t *trial) {
	t.create(byErrand)
	t.deploy(object{})
	t.interrupt(t.vm, t.apply)
}

// changed deploys an update of an instance that the errand applied once.
func changed(_ context.Context, t *trial) {
	t.create(byErrand)
	t.deploy(object{})
	t.must(t.apply())
	t.deploy(t.update())
}

// requested is about to create an instance by generate-manifest.
func requested(_ context.Context, t *trial) { t.create(byRequest) }

// provisionedByRequest creates an instance by generate-manifest, and is about to update it.
func provisionedByRequest(ctx context.Context, t *trial) {
	requested(ctx, t)
	t.deploy(object{})
	t.parameters = t.update()
}

// provisioned creates an instance with a provision template in either way, and often a binding.
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

// damagedByHand removes a resource of an instance behind OpenTofu's back.
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

// interrupt kills everything on a machine while a command has created one resource.
func (t *trial) interrupt(m *machine, begin func() *process.Running) {
	at := t.point(m, afterMake)
	at.Hold()
	running := begin()
	at.Reached()
	process.End(m.dir)
	at.Release()
	t.wait(running)
	t.releaseLocks()
}
