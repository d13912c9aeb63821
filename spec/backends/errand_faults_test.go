package backends_test

import (
	"context"
	"syscall"
	"time"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

var _ = Describe("an errand that does not end successfully", func() {
	var w *world
	var m *machine
	var vm *errandVM

	begin := func(ctx context.Context, kind string) {
		w = newWorld(ctx, kind)
		m = w.newErrandBroker()
		m.deployWith(ctx, object{})
		vm = m.newErrandVM()
	}

	// expectCompleted asserts that another run of the errand creates all resources.
	expectCompleted := func(ctx context.Context, on *errandVM) {
		GinkgoHelper()
		got := on.apply(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(w.outside()).To(HaveLen(2))
		Expect(m.bind(ctx, "bind-1").Exit).To(Equal(0))
	}

	DescribeTable("because it is killed, is completed by another run, or its resources are deleted",
		func(ctx context.Context, kind, where string, who victim) {
			for _, repeat := range []bool{true, false} {
				begin(ctx, kind)
				vm.strikeAt(where, who, vm.beginApply)
				next := vm
				if who == theMachine { // the next run is on another machine
					next = m.newErrandVM()
					if kind == s3 {
						w.forgeLockOf("i-inst-1", time.Now().Add(-24*time.Hour))
					}
				}
				if repeat {
					expectCompleted(ctx, next)
				}
				got := next.destroy(ctx)
				Expect(got.Exit).To(Equal(0), got.Stderr)
				Expect(w.resources()).To(BeEmpty())
				Expect(w.stored()).To(BeEmpty())
				w.remove(ctx)
			}
		},
		Entry("the machine, before the first resource, pg", kit.Slow(), pg, beforeCreate, theMachine),
		Entry("the machine, after the first resource, pg", pg, afterCreate, theMachine),
		Entry("the machine, after the state was saved, pg", kit.Slow(), pg, afterApply, theMachine),
		Entry("OpenTofu, after a resource was created, pg", kit.Slow(), pg, afterCreate, theTofu),
		Entry("the provider, after a resource was created, pg", kit.Slow(), pg, afterCreate, theProvider),
		Entry("the machine, after the first resource, s3", kit.Slow(), s3, afterCreate, theMachine),
	)

	DescribeTable("because BOSH cancels it, saves the state before the agent kills it",
		func(ctx context.Context, ends bool) {
			begin(ctx, pg)
			at := vm.point(afterCreate)
			at.Hold()
			run := vm.beginApply()
			at.Reached()
			Expect(run.Process.Signal(syscall.SIGTERM)).To(Succeed())
			if ends {
				at.Release()
			}
			Expect(run.Wait().Exit).To(Equal(1))
			Expect(m.run(ctx, "", "instance", "show", "inst-1").Stdout).To(ContainSubstring("creating"))
			if !ends {
				at.Release()
			}
			expectCompleted(ctx, vm)
			vm.delete(ctx)
		},
		Entry("while the provider completes its operation", true),
		Entry("while the provider does not respond", kit.Slow(), false))

	It("because the backend fails, saves the state when the backend is available again",
		kit.Slow(), func(ctx context.Context) {
			begin(ctx, pg)
			at := vm.point(afterCreate)
			at.Hold()
			run := vm.beginApply()
			at.Reached()
			w.stop()
			at.Release()
			Eventually(run.Stderr).Should(gbytes.Say("the state backend does not accept the state"))
			w.start(ctx)
			run.Wait()
			Expect(vm.run(ctx, "", "instance", "show", "inst-1").Stdout).To(ContainSubstring("directory_entry.data"),
				"it is not lost with the VM")
			other := m.newErrandVM()
			expectCompleted(ctx, other)
			vm.delete(ctx)
		})

	DescribeTable("because another errand of the instance is running, waits for that errand",
		func(ctx context.Context, kind string) {
			begin(ctx, kind)
			first := vm.point(afterCreate)
			first.Hold()
			one := vm.beginApply()
			first.Reached()
			second := m.newErrandVM()
			two := second.beginApply()
			if kind == s3 { // the lock is older than any request can be, but not than an errand
				w.forgeLockOf("i-inst-1", time.Now().Add(-time.Hour))
			}
			refused := m.bind(ctx, "bind-1")
			Expect(refused.Exit).To(Equal(1))
			Expect(refused.Stdout).To(ContainSubstring("not ready"))
			Eventually(two.Stderr).Should(gbytes.Say("waiting for a lock"))
			first.Release()
			Expect(one.Wait().Exit).To(Equal(0))
			Expect(two.Wait().Exit).To(Equal(0))
			Expect(w.outside()).To(HaveLen(2))
			vm.delete(ctx)
		}, Entry("on pg", pg), Entry("on s3", kit.Slow(), s3))

	It("because it is still applying an update, leaves bindings the previous outputs until it has ended",
		func(ctx context.Context) {
			begin(ctx, pg)
			expectCompleted(ctx, vm)
			m.deployWith(ctx, object{"content": "second"})
			vm.render(m)
			at := vm.point(afterApply)
			at.Hold()
			run := vm.beginApply()
			at.Reached()
			at.Release()
			during := m.bind(ctx, "bind-2")
			Expect(during.Exit).To(Equal(0), during.Stderr)
			Expect(run.Wait().Exit).To(Equal(0))
			Expect(m.bind(ctx, "bind-3").Stdout).To(ContainSubstring(`"content":"second"`))
			vm.delete(ctx)
		})

	DescribeTable("because it is killed while it destroys, is completed by another run",
		func(ctx context.Context, where string, who victim) {
			begin(ctx, pg)
			expectCompleted(ctx, vm)
			vm.strikeAt(where, who, vm.beginDestroy)
			next := vm
			if who == theMachine {
				next = m.newErrandVM()
			}
			got := next.destroy(ctx)
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(w.resources()).To(BeEmpty())
			Expect(w.stored()).To(BeEmpty())
		},
		Entry("the machine, before a resource is destroyed", kit.Slow(), beforeDelete, theMachine),
		Entry("the machine, after a resource was destroyed", afterDelete, theMachine),
		Entry("the machine, at the end", kit.Slow(), afterDestroy, theMachine),
		Entry("OpenTofu", kit.Slow(), afterDelete, theTofu),
		Entry("the provider", kit.Slow(), afterDelete, theProvider),
	)

	It("because the backend fails while it destroys, is completed by a run on another VM", func(ctx context.Context) {
		begin(ctx, pg)
		expectCompleted(ctx, vm)
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		at := vm.point(afterDelete)
		at.Hold()
		run := vm.beginDestroy()
		at.Reached()
		w.stop()
		at.Release()
		Expect(run.Wait().Exit).NotTo(BeZero())
		w.start(ctx)
		got := m.newErrandVM().destroy(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(w.resources()).To(BeEmpty())
		Expect(w.stored()).To(BeEmpty())
	})

	It("because it is killed while it destroys, tells the operator to delete the service instance again",
		func(ctx context.Context) {
			begin(ctx, pg)
			expectCompleted(ctx, vm)
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
			vm.strikeAt(afterDelete, theMachine, vm.beginDestroy)
			const hint = "delete the service instance again"
			refused := m.bind(ctx, "bind-2")
			Expect(refused.Exit).To(Equal(1))
			Expect(refused.Stdout).To(ContainSubstring(hint))
			Expect(m.run(ctx, "", "instance", "show", "inst-1").Stdout).To(ContainSubstring(hint))
			next := m.newErrandVM()
			applied := next.apply(ctx)
			Expect(applied.Exit).To(Equal(1))
			Expect(applied.Stderr).To(And(ContainSubstring(hint), Not(ContainSubstring("service-adapter instance"))))
			Expect(next.destroy(ctx).Exit).To(Equal(0))
			Expect(w.resources()).To(BeEmpty())
			Expect(w.stored()).To(BeEmpty())
		})

	It("because the deployment failed before it ran, leaves all resources unchanged", func(ctx context.Context) {
		begin(ctx, pg)
		expectCompleted(ctx, vm)
		before := w.outside()
		Expect(m.generate(ctx, object{"content": "never deployed"}).Exit).To(Equal(0))
		Expect(vm.apply(ctx).Exit).To(Equal(0), "with the manifest of the last successful deployment")
		Expect(w.outside()).To(Equal(before))
		m.deployWith(ctx, object{"content": "deployed"})
		vm.render(m)
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		Expect(w.outside()).To(HaveKeyWithValue("inst-1-data", "deployed"))
		vm.delete(ctx)
	})

	It("because a resource cannot be destroyed, names the resource, and is completed by another run",
		func(ctx context.Context) {
			begin(ctx, pg)
			expectCompleted(ctx, vm)
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
			at := vm.point(beforeDelete)
			at.Hold()
			run := vm.beginDestroy()
			kill(at.Reached())
			at.Release()
			got := run.Wait()
			Expect(got.Exit).To(Equal(1))
			Expect(got.Stderr).To(ContainSubstring("directory_entry.access"))
			vm.delete(ctx)
		})
})
