package backends_test

import (
	"context"
	"encoding/json"
	"time"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

// A victim names the processes that are killed at a point.
type victim string

// The victims.
const (
	theTofu     victim = "OpenTofu"
	theProvider victim = "the provider"
	theMachine  victim = "the machine" // the adapter, OpenTofu, the provider and all other processes of the machine
)

// heldAt runs a command, and calls a function while the command is paused at a point. It returns the answer of the
// command.
func (m *machine) heldAt(where, name string, parameters object, meanwhile func(waiting int)) answer {
	GinkgoHelper()
	at := m.point(where)
	at.Hold()
	begun := m.begin(name, parameters)
	meanwhile(at.Reached())
	at.Release()
	return begun.Wait()
}

// killed runs a command up to a point, kills the victim there, and returns the answer of the command.
func (m *machine) killed(name string, parameters object, where string, who victim) answer {
	GinkgoHelper()
	got := m.heldAt(where, name, parameters, func(waiting int) { m.strike(who, waiting) })
	Expect(got.Stdout).To(BeEmpty())
	return got
}

// strike kills the victim while a process is paused at a point.
func (m *machine) strike(who victim, waiting int) {
	GinkgoHelper()
	switch who {
	case theTofu:
		kill(m.tofu())
	case theProvider:
		kill(waiting)
	case theMachine:
		process.End(m.dir)
	}
}

// ageLocks dates every remaining lock in s3 to yesterday, so that other machines do not wait for it. In pg, the lock of
// a killed process is already released.
func (w *world) ageLocks(id string) {
	GinkgoHelper()
	if w.kind == s3 && w.locked(id) {
		w.forgeLock(id, time.Now().Add(-24*time.Hour))
	}
}

// expectAccounted asserts that the operator's list on any machine contains the binding if resources exist.
func (m *machine) expectAccounted(ctx context.Context, id string) {
	GinkgoHelper()
	if len(m.world.resources()) > 0 {
		Expect(m.listed(ctx)).To(ContainElement(id), "resources that are in no state")
	}
}

// listed returns the ids of all stored bindings.
func (m *machine) listed(ctx context.Context) []string {
	GinkgoHelper()
	got := m.run(ctx, "", "bindings", "list", "--json")
	Expect(got.Exit).To(Equal(0), got.Stderr)
	var listed struct{ Bindings []struct{ ID string } }
	Expect(json.Unmarshal([]byte(got.Stdout), &listed)).To(Succeed())
	var ids []string
	for _, binding := range listed.Bindings {
		ids = append(ids, binding.ID)
	}
	return ids
}

var _ = Describe("a creation that is killed", func() {
	DescribeTable("is undone by delete-binding",
		func(ctx context.Context, where string, who victim, code int, kinds ...string) {
			for _, kind := range kinds {
				By(kind)
				w := newWorld(ctx, kind)
				first, second := w.newMachine(ctx), w.newMachine(ctx)
				first.killed(createBinding, first.bindParameters("bind-1"), where, who)
				next := first
				if who == theMachine {
					next = second
					w.ageLocks("bind-1")
				}
				next.expectAccounted(ctx, "bind-1")
				got := next.unbind(ctx, "bind-1")
				Expect(got.Exit).To(Equal(code), got.Stderr)
				Expect(got.Stdout).To(BeEmpty())
				if next != first {
					first.cleanUp(ctx)
				}
				w.expectNothingLeft()
			}
		},
		// After a kill of the machine, another machine deletes the binding; otherwise the same machine does so
		// immediately.
		Entry("the machine, before OpenTofu reserves", kit.Slow(), beforeReserve, theMachine, 41, s3),
		Entry("the machine, after OpenTofu reserved", kit.Slow(), afterReserve, theMachine, 0, s3),
		Entry("the machine, after the reservation", kit.Slow(), beforeApply, theMachine, 0, pg, s3),
		Entry("the machine, before a resource is created", beforeCreate, theMachine, 0, pg, s3),
		Entry("the machine, after a resource was created", afterCreate, theMachine, 0, pg, s3),
		Entry("the machine, after the state was saved", kit.Slow(), afterApply, theMachine, 0, pg, s3),
		Entry("OpenTofu, before it applies", kit.Slow(), beforeApply, theTofu, 0, pg, s3),
		Entry("OpenTofu, after a resource was created", kit.Slow(), afterCreate, theTofu, 0, pg, s3, gcs, azure),
		Entry("the provider, before a resource is created", kit.Slow(), beforeCreate, theProvider, 0, pg, s3),
		Entry("the provider, after a resource was created", kit.Slow(), afterCreate, theProvider, 0, pg, s3),
	)

	DescribeTable("while its OpenTofu continues makes another machine wait",
		func(ctx context.Context, kind string) {
			w := newWorld(ctx, kind)
			first, second := w.newMachine(ctx), w.newMachine(ctx)
			at := first.point(beforeCreate)
			at.Hold()
			creation := first.begin(createBinding, first.bindParameters("bind-1"))
			at.Reached()
			kill(creation.Process.Pid)
			deletion := second.begin(deleteBinding, second.unbindParameters("bind-1"))
			Eventually(deletion.Stderr).Should(gbytes.Say("waiting for a lock of the state"))
			at.Release()
			Expect(deletion.Wait().Exit).To(Equal(0))
			Eventually(first.processes).Should(BeEmpty())
			first.cleanUp(ctx)
			w.expectNothingLeft()
		}, Entry("on pg", pg), Entry("on s3", kit.Slow(), s3))
})

// cleanUp runs a command on a machine that was killed, so that the adapter removes its files of killed commands.
func (m *machine) cleanUp(ctx context.Context) {
	GinkgoHelper()
	Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(41))
}

var _ = Describe("a deletion that is killed", func() {
	DescribeTable("is finished by the next deletion", func(ctx context.Context, where string, who victim) {
		for _, kind := range []string{pg, s3} {
			By(kind)
			w := newWorld(ctx, kind)
			first, second := w.newMachine(ctx), w.newMachine(ctx)
			w.works("bind-1", first.credentials(first.bind(ctx, "bind-1")))
			first.killed(deleteBinding, first.unbindParameters("bind-1"), where, who)
			next := first
			if who == theMachine {
				next = second
				w.ageLocks("bind-1")
			}
			next.expectAccounted(ctx, "bind-1")
			got := next.unbind(ctx, "bind-1")
			Expect(got.Exit).To(Equal(0), got.Stderr)
			if next != first {
				first.cleanUp(ctx)
			}
			w.expectNothingLeft()
		}
	},
		Entry("the machine, before a resource is removed", kit.Slow(), beforeDelete, theMachine),
		Entry("the machine, after a resource was removed", afterDelete, theMachine),
		Entry("the machine, after everything was removed", kit.Slow(), afterDestroy, theMachine),
		Entry("the provider, after a resource was removed", kit.Slow(), afterDelete, theProvider),
		Entry("OpenTofu, before a resource is removed", kit.Slow(), beforeDelete, theTofu),
	)
})
