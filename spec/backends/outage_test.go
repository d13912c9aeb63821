package backends_test

import (
	"context"
	"os"
	"path/filepath"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("a state backend that is down", func() {
	for _, kind := range []string{pg, s3} {
		// The states cannot be listed while the server is down.
		down := "the state backend " + kind + " cannot be used"

		It("makes creations and deletions fail, and loses no binding: "+kind, kit.SlowIf(kind != pg),
			func(ctx context.Context) {
				w := newWorld(ctx, kind)
				m := w.newMachine(ctx)
				secret := m.credentials(m.bind(ctx, "bind-1"))
				w.stop()
				expectBroken(m.bind(ctx, "bind-2"), down)
				expectBroken(m.unbind(ctx, "bind-1"), down)
				m.expectTidy()
				w.works("bind-1", secret)
				Expect(w.resources()).To(HaveLen(2))
				w.start(ctx)
				Expect(m.unbind(ctx, "bind-2").Exit).To(Equal(41))
				Expect(m.bind(ctx, "bind-1").Exit).To(Equal(49))
				Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
				w.expectNothingLeft()
			})

		It("while a resource is created leaves the state on the machine, for the next run to save: "+kind,
			kit.SlowIf(kind != pg), func(ctx context.Context) {
				w := newWorld(ctx, kind)
				w.encrypt()
				m := w.newMachine(ctx)
				got := m.heldAt(afterCreate, createBinding, m.bindParameters("bind-1"), func(int) { w.stop() })
				Expect(got.Exit).To(Equal(1), got.Stderr)
				Expect(got.Stdout).To(BeEmpty())
				Expect(got.Stderr).To(ContainSubstring(down))
				Expect(w.resources()).To(HaveLen(2))
				Expect(filepath.Join(m.runs(), "b-bind-1", "apply", "errored.tfstate")).To(BeARegularFile())
				expectBroken(m.unbind(ctx, "bind-1"), down)
				Expect(filepath.Join(m.runs(), "b-bind-1", "apply", "errored.tfstate")).To(BeARegularFile())
				w.start(ctx)
				got = m.unbind(ctx, "bind-1")
				Expect(got.Exit).To(Equal(0), got.Stderr)
				w.expectNothingLeft()
			})

		It("while a resource is created, on a machine that is lost too, leaves a record for another machine: "+kind,
			kit.SlowIf(kind != pg), func(ctx context.Context) {
				w := newWorld(ctx, kind)
				first, second := w.newMachine(ctx), w.newMachine(ctx)
				got := first.heldAt(afterCreate, createBinding, first.bindParameters("bind-1"), func(int) { w.stop() })
				Expect(got.Exit).To(Equal(1))
				w.start(ctx)
				w.ageLocks("bind-1")
				second.expectAccounted(ctx, "bind-1")
				Expect(second.unbind(ctx, "bind-1").Exit).To(Equal(0))
				Expect(w.resources()).To(BeEmpty())
				Expect(w.stored()).To(BeEmpty())
				// If the first machine comes back, it must not store its old state again, but set it aside for an
				// operator.
				Expect(first.unbind(ctx, "bind-1").Exit).To(BeElementOf(0, 41))
				aside, err := filepath.Glob(filepath.Join(filepath.Dir(first.runs()), "superseded-b-bind-1-*.tfstate"))
				Expect(err).NotTo(HaveOccurred())
				Expect(aside).To(HaveLen(1))
				Expect(os.Remove(aside[0])).To(Succeed())
				w.expectNothingLeft()
			})

		It("after all resources were created prevents credentials, and the next run deletes the binding: "+kind,
			kit.SlowIf(kind != pg),
			func(ctx context.Context) {
				w := newWorld(ctx, kind)
				m := w.newMachine(ctx)
				got := m.heldAt(afterApply, createBinding, m.bindParameters("bind-1"), func(int) { w.stop() })
				Expect(got.Exit).To(Equal(1), got.Stderr)
				Expect(got.Stdout).To(BeEmpty())
				Expect(got.Stderr).To(ContainSubstring(down))
				w.start(ctx)
				Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
				w.expectNothingLeft()
			})

		It("while a resource is removed lets the next run finish the deletion: "+kind, kit.SlowIf(kind != pg),
			func(ctx context.Context) {
				w := newWorld(ctx, kind)
				m := w.newMachine(ctx)
				m.credentials(m.bind(ctx, "bind-1"))
				got := m.heldAt(afterDelete, deleteBinding, m.unbindParameters("bind-1"), func(int) { w.stop() })
				expectBroken(got, down)
				w.start(ctx)
				Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
				w.expectNothingLeft()
			})
	}
})
