package backends_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// An adapter does not trust itself to read what OpenTofu reads where its environment says something about PostgreSQL,
// which OpenTofu does not get to see. So there may be adapters of both ways on one database, as there are during an
// upgrade of a fleet.
var _ = Describe("two machines of which one leaves all to OpenTofu", func() {
	// ended asserts what a command on a contested id may end with.
	ended := func(got answer, codes ...int) {
		GinkgoHelper()
		Expect(got.Exit).To(BeElementOf(codes), got.Stderr)
		if got.Exit != 0 {
			Expect(got.Stdout).To(BeEmpty())
		}
	}

	DescribeTable("never have two owners of a binding, and lose none", func(ctx context.Context, encrypted bool) {
		w := newWorld(ctx, pg)
		if encrypted {
			w.encrypt()
		}
		direct, slow := w.newMachine(ctx), w.newMachine(ctx)
		slow.env = []string{"PGAPPNAME=fleet"}
		absent := func(m *machine) func() answer { return func() answer { return m.unbind(ctx, "bind-0") } }
		Expect(direct.processesFor(absent(direct))).To(BeEmpty())
		Expect(slow.processesFor(absent(slow))).To(ContainElement("state pull"))
		machines := []*machine{direct, slow}

		for round := range 4 {
			first, second := machines[round%2], machines[(round+1)%2]
			ids := []string{fmt.Sprintf("bind-%d-a", round), fmt.Sprintf("bind-%d-b", round)}
			var contests []func()
			for _, id := range ids {
				contests = append(contests, func() {
					By("both create " + id)
					var got [2]answer
					process.Together(2, func() {
						got[0] = first.bind(ctx, id)
					}, func() { got[1] = second.bind(ctx, id) })
					owner, other := got[0], got[1]
					if owner.Exit != 0 {
						owner, other = other, owner
					}
					ended(other, 49)
					w.works(id, first.credentials(owner))

					By("one creates and one deletes " + id)
					process.Together(2, func() {
						got[0] = first.unbind(ctx, id)
					}, func() { got[1] = second.bind(ctx, id) })
					ended(got[0], 0, 1, 41) // the creation may clear up what the deletion is about to remove
					ended(got[1], 0, 1, 49)
					if got[1].Exit == 0 {
						w.works(id, second.credentials(got[1]))
					}

					By("one creates and both delete " + id)
					process.Together(3, func() {
						got[0] = first.unbind(ctx, id)
					}, func() { got[1] = first.bind(ctx, id) }, func() {
						ended(second.unbind(ctx, id), 0, 1, 41)
					})
					ended(got[0], 0, 1, 41)
					ended(got[1], 0, 1, 49)
					if _, err := os.Stat(filepath.Join(w.entries, id+"-account")); err == nil {
						Expect(first.listed(ctx)).To(ContainElement(id), "resources of which no state tells")
					}
					ended(second.unbind(ctx, id), 0, 41)
				})
			}
			process.Together(len(contests), contests...)
			Expect(w.resources()).To(BeEmpty(), "resources outside")
			Expect(w.stored()).To(BeEmpty(), "the store")
		}
		w.expectNothingLeft()
	}, Entry("with states in clear text", kit.Slow(), false), Entry("with encrypted states", true))
})
