package backends_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/spec/kit"
)

// newInlineBroker returns a machine for an instance with this id, whose provision template is applied by
// generate-manifest.
func (w *world) newInlineBroker(id string) *machine {
	GinkgoHelper()
	m := w.newErrandBroker()
	m.set(object{"config": object{"entries.path": w.entries}})
	m.ID, m.Deployment.DeploymentName = id, "service-instance_"+id
	m.Plan["lifecycle_errands"], m.Plan["instance_groups"] = object{}, []any{}
	return m
}

// emptyStore removes every state from the backend, as a failed restore does. It returns a function that restores the
// states of the named workspaces.
func (w *world) emptyStore(ctx context.Context) (restore func(workspaces ...string)) {
	GinkgoHelper()
	if w.kind == pg {
		saved := w.copyStates(ctx)
		_, err := w.server.Query(ctx, w.location, "DELETE FROM terraform_remote_state.states")
		Expect(err).NotTo(HaveOccurred())
		return func(workspaces ...string) {
			GinkgoHelper()
			for _, name := range workspaces {
				_, err := w.server.Query(ctx, w.location,
					"INSERT INTO terraform_remote_state.states SELECT * FROM "+saved+" WHERE name = '"+name+"'")
				Expect(err).NotTo(HaveOccurred())
			}
		}
	}
	states := filepath.Join(w.location, "workspaces")
	if w.kind == s3 {
		states = w.object("env:")
	}
	kept := filepath.Join(w.dir, "kept")
	Expect(os.Rename(states, kept)).To(Succeed())
	Expect(os.Mkdir(states, 0o700)).To(Succeed())
	return func(workspaces ...string) {
		GinkgoHelper()
		// The object store removes a directory together with its last object.
		Expect(os.MkdirAll(states, 0o700)).To(Succeed())
		for _, name := range workspaces {
			Expect(os.Rename(filepath.Join(kept, name), filepath.Join(states, name))).To(Succeed())
		}
	}
}

var _ = Describe("a state backend without any state", func() {
	const (
		empty      = "the state backend contains no states"
		noInstance = "the state backend has no state of binding"
	)
	for _, kind := range []string{local, pg, s3} {
		It("is reported by lists, comparisons and destructions, and by the unbind of an instance that has a "+
			"provision template: "+kind,
			kit.SlowIf(kind == s3), func(ctx context.Context) {
				w := newWorld(ctx, kind)
				m := w.newInlineBroker("inst.1") // the workspace of this id has a hashed name
				m.deployWith(ctx, object{})
				Expect(m.operate(ctx, 0, "bindings", "list").Stderr).NotTo(ContainSubstring(empty),
					"the instance has a state")
				for _, id := range []string{"bind-1", "bind-2"} {
					bound := m.bind(ctx, id)
					Expect(bound.Exit).To(Equal(0), bound.Stderr)
				}
				Expect(m.unbind(ctx, "unknown").Exit).To(Equal(41))
				created := w.resources()

				restore := w.emptyStore(ctx)
				for range 2 {
					got := m.unbind(ctx, "bind-1")
					expectBroken(got, noInstance)
					Expect(got.Stderr).To(And(ContainSubstring(`instance \"inst.1\"`),
						ContainSubstring("restore the states from a backup"),
						ContainSubstring("purge-service-instance")))
				}
				for _, command := range []string{"bindings", "instance"} {
					Expect(m.operate(ctx, 0, command, "list", "--json").Stderr).To(ContainSubstring(empty))
					Expect(m.operate(ctx, 0, command, "drift", "--all").Stderr).To(ContainSubstring(empty))
				}
				destroyed := m.operate(ctx, 0, "instance", "destroy", "inst.1", "--force")
				Expect(destroyed.Stdout).To(Equal("instance inst.1: nothing to do, it does not exist\n"))
				Expect(destroyed.Stderr).To(ContainSubstring("instance inst.1: the state backend has no state of it"))
				Expect(w.resources()).To(Equal(created))

				By("after the state of a binding was restored")
				restore(lifecycle.Workspace(lifecycle.Binding, "bind-1"))
				Expect(m.operate(ctx, 0, "instance", "list").Stderr).NotTo(ContainSubstring(empty),
					"a binding has a state")
				Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
				expectBroken(m.unbind(ctx, "bind-1"), noInstance)

				By("after the state of the instance was restored")
				restore(lifecycle.Workspace(lifecycle.Instance, "inst.1"))
				Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(41))
				restore(lifecycle.Workspace(lifecycle.Binding, "bind-2"))
				Expect(m.unbind(ctx, "bind-2").Exit).To(Equal(0))
				destroyed = m.operate(ctx, 0, "instance", "destroy", "inst.1")
				Expect(destroyed.Stderr).NotTo(ContainSubstring("no state of it"))
				Expect(w.resources()).To(BeEmpty())
			})
	}

	It("makes an unbind report a missing binding, if only an errand may have provisioned the instance",
		func(ctx context.Context) {
			w := newWorld(ctx, pg)
			m := w.newErrandBroker()
			m.deployWith(ctx, object{})
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(41))
			w.expectNothingLeft()
		})
})
