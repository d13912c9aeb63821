package backends_test

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("a binding", func() {
	for _, kind := range []string{local, pg, s3, gcs, azure} {
		for _, encrypted := range []bool{false, true} {
			It(fmt.Sprintf("is created and deleted without showing a secret of the state backend: %s, encrypted %t",
				kind, encrypted), kit.SlowIf(kind != pg), func(ctx context.Context) {
				w := newWorld(ctx, kind)
				if encrypted {
					w.encrypt()
				}
				m := w.bareMachine() // this machine prepares OpenTofu itself, which needs the backend's credentials
				m.deploy(ctx)
				spy := m.spy()
				Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(41))
				w.expectNothingLeft()

				at := m.point(afterCreate)
				at.Hold()
				creation := m.begin(createBinding, m.bindParameters("bind-1"))
				provider := at.Reached()
				for _, pid := range []int{provider, m.tofu(), creation.Process.Pid} {
					for _, name := range []string{"cmdline", "environ"} {
						w.expectNoSecrets(read(fmt.Sprintf("/proc/%d/%s", pid, name)))
					}
				}
				at.Release()
				secret := m.credentials(creation.Wait())
				w.works("bind-1", secret)
				Expect(w.stored()).To(HaveLen(1))
				if encrypted {
					Expect(w.text("bind-1")).NotTo(ContainSubstring(secret.(string)))
				} else {
					Expect(w.text("bind-1")).To(ContainSubstring(secret.(string)))
				}
				Expect(open(m.cache)).To(BeEmpty(), "files that other users may read")

				again := w.newMachine(ctx)
				Expect(again.bind(ctx, "bind-1").Exit).To(Equal(49))
				w.works("bind-1", secret)
				Expect(again.unbind(ctx, "bind-1").Exit).To(Equal(0))
				w.expectNothingLeft()
				recorded := spy()
				Expect(recorded).To(ContainSubstring("arguments: init"))
				w.expectNoSecrets(recorded)
			})
		}
	}

	It("is neither read nor overwritten with another key, and is deleted if the old key is configured as well",
		func(ctx context.Context) {
			w := newWorld(ctx, pg)
			w.encrypt()
			m := w.newMachine(ctx)
			secret := m.credentials(m.bind(ctx, "bind-1"))
			before := w.text("bind-1")

			old := w.key
			w.encrypt()
			other := w.newMachine(ctx)
			expectBroken(other.bind(ctx, "bind-1"), "add it to state.encryption.old_keys")
			expectBroken(other.unbind(ctx, "bind-1"), "add it to state.encryption.old_keys")
			Expect(w.text("bind-1")).To(Equal(before))
			w.works("bind-1", secret)
			state := w.state()
			state["encryption"].(object)["old_keys"] = []string{old}
			other.set(object{"state": state})
			Expect(other.bind(ctx, "bind-1").Exit).To(Equal(49))
			Expect(other.unbind(ctx, "bind-1").Exit).To(Equal(0))
			w.expectNothingLeft()
		})
})

// expectNoSecrets asserts that a text contains none of the backend's secrets.
func (w *world) expectNoSecrets(text string) {
	GinkgoHelper()
	for _, secret := range w.secrets {
		Expect(strings.Contains(text, secret)).To(BeFalse(), "a secret of the backend is shown")
	}
}

// open returns the paths of the files and directories below dir that users other than the owner may access.
func open(dir string) []string {
	GinkgoHelper()
	var found []string
	Expect(filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			found = append(found, path)
		}
		return err
	})).To(Succeed())
	return found
}

var _ = Describe("two machines that create the same binding", func() {
	DescribeTable("create it once", func(ctx context.Context, kind string) {
		w := newWorld(ctx, kind)
		machines := []*machine{w.newMachine(ctx), w.newMachine(ctx)}
		for round := range 2 {
			id := fmt.Sprintf("bind-%d", round)
			var got [2]answer
			process.Together(2, func() {
				got[0] = machines[0].bind(ctx, id)
			}, func() { got[1] = machines[1].bind(ctx, id) })
			winner, loser := got[0], got[1]
			if winner.Exit != 0 {
				winner, loser = loser, winner
			}
			secret := machines[0].credentials(winner)
			Expect(loser.Stdout).To(BeEmpty())
			// This S3 server replaces an object and its checksum in two steps.
			if !strings.Contains(loser.Stderr, "checksum did not match") {
				Expect(loser.Exit).To(Equal(49), loser.Stderr)
			}
			w.works(id, secret)
			Expect(w.resources()).To(HaveLen(2))
			Expect(machines[1].unbind(ctx, id).Exit).To(Equal(0))
		}
		w.expectNothingLeft()
	}, Entry("on pg", pg), Entry("on s3", kit.Slow(), s3))

	DescribeTable("without waiting report the lock holder",
		func(ctx context.Context, kind, holder string) {
			w := newWorld(ctx, kind)
			first, second := w.newMachine(ctx), w.newMachine(ctx)
			got := first.heldAt(afterCreate, createBinding, first.bindParameters("bind-1"), func(int) {
				second.set(object{"budget": "6s"})
				expectBroken(second.bind(ctx, "bind-1"), "is locked by "+holder)
				expectBroken(second.unbind(ctx, "bind-1"), "is locked by "+holder)
			})
			w.works("bind-1", first.credentials(got))
			second.set(object{"budget": "45s"})
			Expect(second.unbind(ctx, "bind-1").Exit).To(Equal(0))
			w.expectNothingLeft()
		}, Entry("on pg", kit.Slow(), pg, "another run"), Entry("on s3", kit.Slow(), s3, "root@"))
})

var _ = Describe("a clock that jumps", func() {
	It("prevents the release of a lock from the future, and allows that of an old lock", kit.Slow(),
		func(ctx context.Context) {
			w := newWorld(ctx, s3)
			first, second := w.newMachine(ctx), w.newMachine(ctx)
			first.killed(createBinding, first.bindParameters("bind-1"), afterCreate, theMachine)
			second.set(object{"budget": "6s"})
			w.forgeLock("bind-1", time.Now().Add(48*time.Hour))
			expectBroken(second.unbind(ctx, "bind-1"), "is locked by")
			second.set(object{"budget": "45s"})
			w.forgeLock("bind-1", time.Now().Add(-48*time.Hour))
			Expect(second.unbind(ctx, "bind-1").Exit).To(Equal(0))
			Expect(w.resources()).To(BeEmpty())
			Expect(w.stored()).To(BeEmpty())
			// The first machine notices the change when it runs its next command.
			Expect(first.unbind(ctx, "bind-1").Exit).To(Equal(41))
			w.expectNothingLeft()
		})
})
