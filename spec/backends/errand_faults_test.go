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

var _ = Describe("an errand that does not end as it should", func() {
	var w *world
	var m *machine
	var vm *errandVM

	begin := func(ctx context.Context, kind string) {
		w = newWorld(ctx, kind)
		m = w.newErrandBroker()
		m.deployWith(ctx, object{})
		vm = m.newErrandVM()
	}

	// expectMade asserts that a repetition of the errand makes everything.
	expectMade := func(ctx context.Context, on *errandVM) {
		GinkgoHelper()
		got := on.apply(ctx)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(w.outside()).To(HaveLen(2))
		Expect(m.bind(ctx, "bind-1").Exit).To(Equal(0))
	}

	DescribeTable("because it is killed, goes on with a repeat, or is deleted",
		func(ctx context.Context, kind, where string, who victim) {
			for _, repeat := range []bool{true, false} {
				begin(ctx, kind)
				vm.strikeAt(where, who, vm.beginApply)
				next := vm
				if who == theMachine { // which is another one the next time
					next = m.newErrandVM()
					if kind == s3 {
						w.forgeLockOf("i-inst-1", time.Now().Add(-24*time.Hour))
					}
				}
				if repeat {
					expectMade(ctx, next)
				}
				got := next.destroy(ctx)
				Expect(got.Exit).To(Equal(0), got.Stderr)
				Expect(w.resources()).To(BeEmpty())
				Expect(w.stored()).To(BeEmpty())
				w.remove(ctx)
			}
		},
		Entry("the machine, before the first resource, pg", kit.Slow(), pg, beforeMake, theMachine),
		Entry("the machine, after the first resource, pg", pg, afterMake, theMachine),
		Entry("the machine, after the state was saved, pg", kit.Slow(), pg, afterApply, theMachine),
		Entry("OpenTofu, after a resource was made, pg", kit.Slow(), pg, afterMake, theTofu),
		Entry("the provider, after a resource was made, pg", kit.Slow(), pg, afterMake, theProvider),
		Entry("the machine, after the first resource, s3", kit.Slow(), s3, afterMake, theMachine),
	)

	DescribeTable("because BOSH cancels it, has saved what is there before the agent kills it",
		func(ctx context.Context, ends bool) {
			begin(ctx, pg)
			at := vm.point(afterMake)
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
			expectMade(ctx, vm)
			vm.delete(ctx)
		}, Entry("when the provider ends what it does", true), Entry("when it does not", kit.Slow(), false))

	It("because the backend is gone, saves the state when it is back", kit.Slow(), func(ctx context.Context) {
		begin(ctx, pg)
		at := vm.point(afterMake)
		at.Hold()
		run := vm.beginApply()
		at.Reached()
		w.stop()
		at.Release()
		Eventually(run.Stderr).Should(gbytes.Say("the backend does not take the state"))
		w.start(ctx)
		run.Wait()
		Expect(vm.run(ctx, "", "instance", "show", "inst-1").Stdout).To(ContainSubstring("directory_entry.data"),
			"it is not lost with the VM")
		other := m.newErrandVM()
		expectMade(ctx, other)
		vm.delete(ctx)
	})

	DescribeTable("because another one of the instance runs, waits for it", func(ctx context.Context, kind string) {
		begin(ctx, kind)
		first := vm.point(afterMake)
		first.Hold()
		one := vm.beginApply()
		first.Reached()
		second := m.newErrandVM()
		two := second.beginApply()
		if kind == s3 { // a lock that is older than any request, and not too old for an errand
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

	It("because an update changes what is there, leaves bindings what they had until it has ended",
		func(ctx context.Context) {
			begin(ctx, pg)
			expectMade(ctx, vm)
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

	DescribeTable("because it is killed while it destroys, goes on with a repeat",
		func(ctx context.Context, where string, who victim) {
			begin(ctx, pg)
			expectMade(ctx, vm)
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
		Entry("the machine, before it destroys", kit.Slow(), beforeClear, theMachine),
		Entry("the machine, after it destroyed something", afterClear, theMachine),
		Entry("the machine, at the end", kit.Slow(), afterDestroy, theMachine),
		Entry("OpenTofu", kit.Slow(), afterClear, theTofu),
		Entry("the provider", kit.Slow(), afterClear, theProvider),
	)

	It("because the backend is gone while it destroys, goes on with a repeat on another VM", func(ctx context.Context) {
		begin(ctx, pg)
		expectMade(ctx, vm)
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		at := vm.point(afterClear)
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

	It("because it is killed while it destroys, says to delete the service instance again", func(ctx context.Context) {
		begin(ctx, pg)
		expectMade(ctx, vm)
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		vm.strikeAt(afterClear, theMachine, vm.beginDestroy)
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

	It("because the deployment failed before it, leaves everything as it was", func(ctx context.Context) {
		begin(ctx, pg)
		expectMade(ctx, vm)
		before := w.outside()
		Expect(m.generate(ctx, object{"content": "never deployed"}).Exit).To(Equal(0))
		Expect(vm.apply(ctx).Exit).To(Equal(0), "with the manifest of the last deployment")
		Expect(w.outside()).To(Equal(before))
		m.deployWith(ctx, object{"content": "deployed"})
		vm.render(m)
		Expect(vm.apply(ctx).Exit).To(Equal(0))
		Expect(w.outside()).To(HaveKeyWithValue("inst-1-data", "deployed"))
		vm.delete(ctx)
	})

	It("because what was made cannot be destroyed, names it, and goes on when it is repeated",
		func(ctx context.Context) {
			begin(ctx, pg)
			expectMade(ctx, vm)
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
			at := vm.point(beforeClear)
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
