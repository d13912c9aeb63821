package backends_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// move returns a machine whose states are in another backend, with the resources of this world.
func (w *world) move(ctx context.Context, kind string) *machine {
	GinkgoHelper()
	other := newWorld(ctx, kind)
	other.entries, other.key, other.secrets = w.entries, w.key, append(other.secrets, w.secrets...)
	return other.newMachine(ctx)
}

var _ = Describe("a backup", func() {
	for _, encrypted := range []bool{false, true} {
		It(fmt.Sprintf("moves bindings from files to PostgreSQL and to S3, where unbinds delete their resources: "+
			"encrypted %t", encrypted), kit.Slow(), func(ctx context.Context) {
			w := newWorld(ctx, local)
			if encrypted {
				w.encrypt()
			}
			m := w.newMachine(ctx)
			secrets := map[string]any{}
			for _, id := range []string{"bind-1", "bind 2"} {
				secrets[id] = m.credentials(m.bind(ctx, id))
			}
			m.killed(createBinding, m.bindParameters("bind-3"), afterCreate, theMachine)

			for _, kind := range []string{pg, s3} {
				file := filepath.Join(w.dir, kind+".backup")
				m.says(ctx, "3 written, 0 unreadable", "bindings", "export", file)
				Expect(open(w.dir)).NotTo(ContainElement(file), "files that other users may read")
				for _, secret := range secrets {
					Expect(strings.Contains(read(file), secret.(string))).To(Equal(!encrypted), "secrets in the file")
				}
				m = w.move(ctx, kind)
				m.says(ctx, "3 would be imported", "bindings", "import", file, "--dry-run")
				Expect(m.world.stored()).To(BeEmpty())
				m.says(ctx, "3 imported", "bindings", "import", file)
				m.says(ctx, "3 current", "bindings", "import", file)
			}
			for id, secret := range secrets {
				Expect(m.bind(ctx, id).Exit).To(Equal(49))
				Expect(m.run(ctx, "", "bindings", "show", id,
					"--credentials").Stdout).To(ContainSubstring(secret.(string)))
			}
			for _, id := range []string{"bind-1", "bind 2", "bind-3"} {
				Expect(m.unbind(ctx, id).Exit).To(Equal(0))
			}
			Expect(w.resources()).To(BeEmpty())
			m.world.expectNothingLeft()
		})
	}

	It("never changes a stored state, and is imported completely by a second import after a killed import", kit.Slow(),
		func(ctx context.Context) {
			w := newWorld(ctx, pg)
			w.encrypt()
			m := w.newMachine(ctx)
			for _, id := range []string{"bind-1", "bind-2"} {
				m.credentials(m.bind(ctx, id))
			}
			file := filepath.Join(w.dir, "backup")
			m.says(ctx, "2 written", "bindings", "export", file)
			whole := read(file)

			By("an import over another state")
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
			m.credentials(m.bind(ctx, "bind-1"))
			before := w.text("bind-1")
			got := m.run(ctx, "", "bindings", "import", file)
			Expect(got.Exit).To(Equal(1))
			Expect(got.Stderr).To(
				And(ContainSubstring("binding bind-1: the state backend contains another state of it, which was not "+
					"changed"),
					ContainSubstring("1 current, 1 failed")))
			Expect(w.text("bind-1")).To(Equal(before))

			By("an import into another backend")
			other := w.move(ctx, s3)
			for _, size := range []int{0, 10, len(whole) / 2, len(whole) - 1} {
				Expect(os.WriteFile(file, []byte(whole[:size]), 0o600)).To(Succeed())
				refused := other.run(ctx, "", "bindings", "import", file)
				Expect(refused.Exit).To(Equal(3), refused.Stderr)
				Expect(refused.Stderr).To(ContainSubstring("the file is truncated"))
			}
			Expect(os.WriteFile(file, []byte(strings.Replace(whole, `"id":"bind-2"`, `"id":"bind-9"`, 1)),
				0o600)).To(Succeed())
			Expect(other.run(ctx, "", "bindings", "import",
				file).Stderr).To(ContainSubstring("was changed since it was written"))
			key := other.world.key
			other.world.encrypt()
			other.set(object{"state": other.world.state()})
			Expect(os.WriteFile(file, []byte(whole), 0o600)).To(Succeed())
			Expect(other.run(ctx, "", "bindings", "import",
				file).Stderr).To(ContainSubstring("line 2: binding bind-1: its state cannot be read with"))
			Expect(other.world.stored()).To(BeEmpty())

			By("an import that is killed")
			other.world.key = key
			other.set(object{"state": other.world.state()})
			other.killImport(file)
			again := other.run(ctx, "", "bindings", "import", file)
			Expect(again.Exit).To(Equal(0), again.Stderr)
			other.says(ctx, "2 current", "bindings", "import", file)
			Expect(other.unbind(ctx, "bind-2").Exit).To(Equal(0))
			// The state in pg is newer than the backup.
			Expect(other.run(ctx, "", "bindings", "delete", "bind-1", "--forget").Exit).To(Equal(0))
			Expect(other.world.stored()).To(BeEmpty())
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
			Expect(m.run(ctx, "", "bindings", "delete", "bind-2", "--forget").Exit).To(Equal(0))
			Expect(w.resources()).To(BeEmpty())
			w.expectNothingLeft()
		})
})

// says runs a command, which must succeed and print the text on one of its streams.
func (m *machine) says(ctx context.Context, text string, arguments ...string) {
	GinkgoHelper()
	got := m.run(ctx, "", arguments...)
	Expect(got.Exit).To(Equal(0), got.Stderr)
	Expect(got.Stdout + got.Stderr).To(ContainSubstring(text))
}

// killImport kills an import as soon as it has stored a state.
func (m *machine) killImport(file string) {
	GinkgoHelper()
	running := process.Start(m.adapter(), nil, "", "bindings", "import", file)
	Eventually(m.world.stored).ShouldNot(BeEmpty())
	kill(running.Process.Pid)
	running.Wait()
}
