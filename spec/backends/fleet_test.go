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

// The adapter leaves all access to the state backend to OpenTofu if its environment contains variables for PostgreSQL
// that OpenTofu does not receive. Adapters of both kinds can therefore use one database, for instance during the
// upgrade of several brokers.
var _ = Describe("two machines, one of which leaves all access to states to OpenTofu", func() {
	// ended asserts that a command on a contested id ended with one of these exit codes.
	ended := func(got answer, codes ...int) {
		GinkgoHelper()
		Expect(got.Exit).To(BeElementOf(codes), got.Stderr)
		if got.Exit != 0 {
			Expect(got.Stdout).To(BeEmpty())
		}
	}

	DescribeTable("never both own a binding, and lose no binding", kit.Slow(),
		func(ctx context.Context, encrypted bool) {
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
						ended(got[0], 0, 1, 41) // the creation may remove the state that the deletion would remove
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
							Expect(first.listed(ctx)).To(ContainElement(id), "resources that are in no state")
						}
						ended(second.unbind(ctx, id), 0, 41)
					})
				}
				process.Together(len(contests), contests...)
				Expect(w.resources()).To(BeEmpty(), "resources")
				Expect(w.stored()).To(BeEmpty(), "states")
			}
			w.expectNothingLeft()
		}, Entry("with states in clear text", false), Entry("with encrypted states", true))
})
