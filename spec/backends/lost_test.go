package backends_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// loseLocks ends all sessions of the database that hold the lock of a state, as a failover does.
func (w *world) loseLocks(ctx context.Context) {
	GinkgoHelper()
	ended, err := w.server.Query(ctx, w.location,
		"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()")
	Expect(err).NotTo(HaveOccurred())
	Expect(ended).NotTo(BeEmpty())
}

// removeState removes the state of a binding, as another machine can do after it has acquired the lock.
func (w *world) removeState(ctx context.Context, id string) {
	GinkgoHelper()
	_, err := w.server.Query(ctx, w.location, "DELETE FROM terraform_remote_state.states WHERE name = 'b-"+id+"'")
	Expect(err).NotTo(HaveOccurred())
}

// refuseOnce makes the database reject the next new state.
func (w *world) refuseOnce(ctx context.Context) {
	GinkgoHelper()
	_, err := w.server.Query(ctx, w.location, `CREATE SEQUENCE refusals;
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN IF nextval('refusals') = 1 THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER refuse BEFORE INSERT ON terraform_remote_state.states FOR EACH ROW EXECUTE FUNCTION refuse()`)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(w.server.Query, w.location,
		"DROP TRIGGER refuse ON terraform_remote_state.states; DROP FUNCTION refuse(); DROP SEQUENCE refusals")
}

var _ = Describe("a creation whose lock is lost while it runs", func() {
	var w *world
	var m *machine

	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, pg)
		m = w.newMachine(ctx)
	})

	// expectReported asserts that a creation failed and named its resources, and that they remain recorded until an
	// operator forgets them.
	expectReported := func(ctx context.Context, got answer) {
		GinkgoHelper()
		const account, grant = "directory_entry.account", "directory_entry.grant"
		Expect(got.Exit).To(Equal(1), got.Stderr)
		Expect(got.Stdout).To(BeEmpty())
		Expect(got.Stderr).To(And(ContainSubstring(account), ContainSubstring(grant)))
		other := w.newMachine(ctx)
		for range 2 {
			expectBroken(other.unbind(ctx, "bind-1"), account)
			expectBroken(m.unbind(ctx, "bind-1"), grant)
		}
		expectBroken(m.bind(ctx, "bind-1"), account)
		Expect(m.listed(ctx)).To(ContainElement("bind-1"))
		Expect(w.resources()).To(HaveLen(2))

		for _, name := range w.resources() {
			Expect(os.Remove(filepath.Join(w.entries, name))).To(Succeed())
		}
		forgotten := m.run(ctx, "", "bindings", "delete", "bind-1", "--forget")
		Expect(forgotten.Exit).To(Equal(0), forgotten.Stderr)
		Expect(forgotten.Stdout + forgotten.Stderr).To(ContainSubstring(account))
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(41))
	}

	It("and whose state is removed after the run reports the created resources", func(ctx context.Context) {
		got := m.heldAt(afterApply, createBinding, m.bindParameters("bind-1"), func(int) {
			w.removeState(ctx, "bind-1")
		})
		expectReported(ctx, got)
		w.expectNothingLeft()
	})

	It("and whose state is removed during the run, and cannot be stored again, reports the created resources",
		func(ctx context.Context) {
			got := m.heldAt(afterCreate, createBinding, m.bindParameters("bind-1"), func(int) {
				w.loseLocks(ctx)
				w.removeState(ctx, "bind-1")
				w.refuseOnce(ctx)
			})
			expectReported(ctx, got)
			aside, err := filepath.Glob(filepath.Join(m.cache, "superseded-b-bind-1-*.tfstate"))
			Expect(err).NotTo(HaveOccurred())
			Expect(aside).To(HaveLen(1))
			Expect(os.Remove(aside[0])).To(Succeed())
			w.expectNothingLeft()
		})

	It("and whose state is removed during the run either stores its credentials or reports the created resources",
		func(ctx context.Context) {
			got := m.heldAt(afterCreate, createBinding, m.bindParameters("bind-1"), func(int) {
				w.loseLocks(ctx)
				w.removeState(ctx, "bind-1")
			})
			if got.Exit == 0 { // OpenTofu stored the state once more
				w.works("bind-1", m.credentials(got))
				Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
				w.expectNothingLeft()
				return
			}
			expectReported(ctx, got)
		})
})
