package backends_test

import (
	"context"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Two other specs run on gcs and azurerm: the round trip of a binding, and a killed OpenTofu.
var _ = Describe("a backend that only OpenTofu can read", func() {
	DescribeTable("keeps bindings, and the lock of a crashed machine until an operator releases it",
		func(ctx context.Context, kind string) {
			w := newWorld(ctx, kind)
			w.encrypt()
			first, second := w.newMachine(ctx), w.newMachine(ctx)
			secret := first.credentials(first.bind(ctx, "bind-1"))
			Expect(second.listed(ctx)).To(ConsistOf("bind-1"))
			Expect(second.operate(ctx, 0, "bindings", "show", "bind-1",
				"--credentials").Stdout).To(ContainSubstring(secret.(string)))
			second.operate(ctx, 0, "bindings", "drift", "bind-1")
			Expect(second.operate(ctx, 0, "bindings", "unlock", "bind-1").Stdout).To(ContainSubstring("is not locked"))

			first.killed(deleteBinding, first.unbindParameters("bind-1"), afterDelete, theMachine)
			second.set(object{"budget": "6s"})
			expectBroken(second.unbind(ctx, "bind-1"), "is locked by root@")
			second.set(object{"budget": "45s"})
			second.operate(ctx, 0, "bindings", "unlock", "bind-1")
			Expect(second.unbind(ctx, "bind-1").Exit).To(Equal(0))
			first.cleanUp(ctx)
			w.expectNothingLeft()
		}, Entry("gcs", kit.Slow(), gcs), Entry("azurerm", kit.Slow(), azure))
})
