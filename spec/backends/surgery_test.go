package backends_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

// operate runs an operator's command, which must exit with this status, and returns its answer.
func (m *machine) operate(ctx context.Context, exit int, arguments ...string) answer {
	GinkgoHelper()
	got := m.run(ctx, "", arguments...)
	Expect(got.Exit).To(Equal(exit), got.Stderr)
	return got
}

// kept returns the path of the copy that a command names in its message. The copy must be readable only by its owner.
func kept(got answer) string {
	GinkgoHelper()
	found := regexp.MustCompile(
		`restore it with: service-adapter bindings state push \S+ --force (\S+)`).FindStringSubmatch(got.Stderr)
	Expect(found).NotTo(BeNil(), got.Stderr)
	info, err := os.Stat(found[1])
	Expect(err).NotTo(HaveOccurred())
	Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))
	return found[1]
}

// matching returns the paths that match a pattern.
func matching(pattern ...string) []string {
	GinkgoHelper()
	paths, err := filepath.Glob(filepath.Join(pattern...))
	Expect(err).NotTo(HaveOccurred())
	return paths
}

// edited returns the text of a state file in which pairs of old and new texts are replaced.
func edited(path string, oldnew ...string) string {
	GinkgoHelper()
	var compact bytes.Buffer
	Expect(json.Compact(&compact, []byte(read(path)))).To(Succeed())
	text := compact.String()
	for i := 0; i < len(oldnew); i += 2 {
		Expect(text).To(ContainSubstring(oldnew[i]))
	}
	path += ".edited"
	Expect(os.WriteFile(path, []byte(strings.NewReplacer(oldnew...).Replace(text)), 0o600)).To(Succeed())
	return path
}

// damage replaces the stored state of a binding with a text.
func (w *world) damage(ctx context.Context, id, text string) {
	GinkgoHelper()
	if w.kind == pg {
		_, err := w.server.Query(ctx, w.location,
			"UPDATE terraform_remote_state.states SET data = '"+text+"' WHERE name = 'b-"+id+"'")
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(os.WriteFile(filepath.Join(w.location, "workspaces", "b-"+id, "terraform.tfstate"), []byte(text),
		0o600)).To(Succeed())
}

// The specs follow docs/operations/repair-a-state.md. Each one ends by deleting the binding, with nothing left.
var _ = Describe("A damaged state", func() {
	for _, kind := range []string{local, pg} {
		Context("on "+kind, kit.SlowIf(kind != pg), func() {
			var w *world
			var m *machine
			var secret any
			var copied string // the state before it was damaged

			BeforeEach(func(ctx context.Context) {
				w = newWorld(ctx, kind)
				w.encrypt()
				m = w.newMachine(ctx)
				secret = m.credentials(m.bind(ctx, "bind-1"))
				copied = filepath.Join(w.dir, "copied")
				m.operate(ctx, 0, "bindings", "state", "pull", "bind-1", "--output", copied)
			})

			// expectCured asserts that the binding works, and that an unbind leaves no resource and no state.
			expectCured := func(ctx context.Context) {
				GinkgoHelper()
				w.works("bind-1", secret)
				m.operate(ctx, 0, "bindings", "drift", "bind-1")
				Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
				Expect(w.resources()).To(BeEmpty())
				Expect(m.listed(ctx)).To(BeEmpty())
			}

			It("that cannot be decrypted is set aside, and replaced with a copy",
				func(ctx context.Context) {
					good := w.text("bind-1")
					broken := regexp.MustCompile(`"encrypted_data": ?"`).ReplaceAllString(good, "${0}AAAA")
					w.damage(ctx, "bind-1", broken)
					Expect(m.operate(ctx, 1, "bindings", "list").Stdout).To(ContainSubstring("unreadable"))
					m.operate(ctx, 1, "bindings", "delete", "bind-1", "--forget")
					m.operate(ctx, 3, "bindings", "state", "push", "bind-1", copied)
					name := regexp.MustCompile(`aside-b-bind-1-\d+`).FindString(m.operate(ctx, 0, "bindings", "state",
						"set-aside", "bind-1").Stderr)
					Expect(w.stored()).To(ContainElement(HaveSuffix(name)))
					Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(41))
					Expect(m.operate(ctx, 0, "bindings", "list").Stdout).To(BeEmpty())
					w.works("bind-1", secret)

					m.operate(ctx, 0, "bindings", "state", "push", "bind-1", copied)
					expectCured(ctx)
				})

			It("that is empty is unreadable for every command, and replaced with a copy", func(ctx context.Context) {
				w.damage(ctx, "bind-1", "")
				if kind == local {
					Expect(os.Remove(filepath.Join(w.location, "workspaces", "b-bind-1",
						"terraform.tfstate.backup"))).To(
						Succeed())
				}
				const reason = "the state is missing, empty or cut off"
				for range 2 {
					Expect(m.operate(ctx, 1, "bindings", "show", "bind-1").Stderr).To(ContainSubstring(reason))
					listed := m.operate(ctx, 1, "bindings", "list")
					Expect(listed.Stdout).To(ContainSubstring("unreadable"))
					Expect(listed.Stderr).To(ContainSubstring(reason))
					expectBroken(m.unbind(ctx, "bind-1"), reason)
					expectBroken(m.bind(ctx, "bind-1"), reason)
					deleted := m.operate(ctx, 1, "bindings", "delete", "bind-1")
					Expect(deleted.Stdout).NotTo(ContainSubstring("it does not exist"))
					Expect(deleted.Stderr).To(ContainSubstring(reason))
					m.operate(ctx, 1, "bindings", "delete", "bind-1", "--forget")
				}
				Expect(m.operate(ctx, 0, "bindings", "state", "set-aside",
					"bind-1").Stderr).To(MatchRegexp(`aside-b-bind-1-\d+`))
				m.operate(ctx, 0, "bindings", "state", "push", "bind-1", copied)
				expectCured(ctx)
			})

			It("is not lost because of a wrong key", func(ctx context.Context) {
				old := w.key
				w.encrypt()
				state := w.state()
				m.set(object{"state": state})
				Expect(m.operate(ctx, 3, "bindings", "drift",
					"--all").Stderr).To(ContainSubstring("add it to state.encryption.old_keys"))
				Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(1))
				state["encryption"].(object)["old_keys"] = []string{old}
				m.set(object{"state": state})
				m.operate(ctx, 0, "bindings", "reencrypt")
				expectCured(ctx)
			})

			It("that was edited wrongly is replaced with a copy", func(ctx context.Context) {
				m.operate(ctx, 3, "bindings", "state", "push", "bind-2", copied)
				Expect(m.operate(ctx, 3, "bindings", "state", "push", "bind-1",
					edited(copied, `bind-1-account`, `bind-9-account`)).Stderr).To(
					ContainSubstring("serial"), "it is the stored one with another content")
				m.operate(ctx, 3, "bindings", "state", "push", "bind-1", edited(copied, `"lineage":"`, `"lineage":"0`))
				m.operate(ctx, 3, "bindings", "state", "push", "bind-1",
					edited(copied, `"tofu":"1.12.6"`, `"tofu":"99.0.0"`))
				wrong := edited(copied, `bind-1-account`, `bind-9-account`, `"serial":`, `"serial":1`)
				before := kept(m.operate(ctx, 0, "bindings", "state", "push", "bind-1", wrong))
				Expect(read(before)).NotTo(ContainSubstring("bind-1"), "the copy is encrypted")
				m.operate(ctx, 1, "bindings", "drift", "bind-1")
				m.operate(ctx, 3, "bindings", "state", "push", "bind-1", before)
				m.operate(ctx, 0, "bindings", "state", "push", "bind-1", "--force", before)
				expectCured(ctx)
			})

			It("without its record is replaced with a copy", func(ctx context.Context) {
				got := m.operate(ctx, 3, "bindings", "state", "exec", "bind-1", "--", "state", "rm",
					"terraform_data._binding")
				Expect(got.Stderr).To(ContainSubstring("no longer contains its record"))
				m.operate(ctx, 1, "bindings", "delete", "bind-1")
				m.operate(ctx, 0, "bindings", "state", "push", "bind-1", "--force", kept(got))
				expectCured(ctx)
			})

			if kind != local { // OpenTofu does the rest on other backends
				return
			}

			It("that lacks a resource gets it by an import, and a resource to keep is removed from it",
				func(ctx context.Context) {
					kept(m.operate(ctx, 0, "bindings", "state", "exec", "bind-1", "--", "state", "rm",
						"directory_entry.grant"))
					account := filepath.Join(w.entries, "bind-1-grant")
					got := m.operate(ctx, 0, "bindings", "state", "exec", "bind-1", "--", "import",
						"directory_entry.grant",
						account)
					Expect(got.Stdout).To(ContainSubstring("Import successful!"))
					expectCured(ctx)
				})

			It("with a tainted resource is untainted", func(ctx context.Context) {
				m.operate(ctx, 0, "bindings", "state", "exec", "bind-1", "--", "taint", "directory_entry.account")
				Expect(m.operate(ctx, 0, "bindings", "state", "exec", "bind-1", "--", "plan",
					"-no-color").Stdout).To(ContainSubstring("is tainted"))
				kept(m.operate(ctx, 0, "bindings", "state", "exec", "bind-1", "--", "untaint",
					"directory_entry.account"))
				got := m.operate(ctx, 0, "bindings", "state", "exec", "bind-1", "--", "plan", "-no-color")
				Expect(got.Stdout).To(ContainSubstring("No changes."))
				Expect(got.Stderr).To(BeEmpty(), "no copy is needed of an unchanged state")
				expectCured(ctx)
			})

			It("can be edited by an OpenTofu command that waits for an answer for longer than the budget", kit.Slow(),
				func(ctx context.Context) {
					Expect(os.Remove(filepath.Join(w.entries, "bind-1-grant"))).To(Succeed())
					const budget = 10 * time.Second
					m.set(object{"budget": budget.String()})
					apply := exec.CommandContext(ctx, suite.adapter, "bindings", "state", "exec", "bind-1", "--",
						"apply",
						"-no-color")
					output := gbytes.NewBuffer()
					apply.Env, apply.Dir, apply.Stdout, apply.Stderr = m.environment(), m.dir, output, GinkgoWriter
					keyboard, err := apply.StdinPipe()
					Expect(err).NotTo(HaveOccurred())
					Expect(apply.Start()).To(Succeed())
					Eventually(output).Should(gbytes.Say("Enter a value:"))
					time.Sleep(budget)
					_, err = io.WriteString(keyboard, "yes\n")
					Expect(err).NotTo(HaveOccurred())
					Expect(apply.Wait()).To(Succeed(), string(output.Contents()))
					Expect(output).To(gbytes.Say("Apply complete!"))
					expectCured(ctx)
				})

			It("with a resource that no longer exists gets it again by an apply", func(ctx context.Context) {
				Expect(os.Remove(filepath.Join(w.entries, "bind-1-grant"))).To(Succeed())
				m.operate(ctx, 1, "bindings", "drift", "bind-1")
				m.operate(ctx, 0, "bindings", "state", "exec", "bind-1", "--", "apply", "-auto-approve")
				expectCured(ctx)
			})

			It("whose provider no pak has is reported with the name of the provider, until a pak has it",
				func(ctx context.Context) {
					pak := filepath.Join(w.dir, "pak")
					Expect(os.CopyFS(pak, os.DirFS(suite.pak))).To(Succeed())
					manifest := read(filepath.Join(pak, "manifest.yml"))
					without := strings.ReplaceAll(manifest, "directory", "other")
					Expect(os.WriteFile(filepath.Join(pak, "manifest.yml"), []byte(without), 0o600)).To(Succeed())
					for _, path := range matching(pak, "bin", "*", "*", "terraform-provider-*") {
						Expect(os.Rename(path, strings.ReplaceAll(path, "directory", "other"))).To(Succeed())
					}
					m.set(object{"paks": []string{pak}})
					Expect(m.operate(ctx, 3, "bindings", "drift",
						"bind-1").Stderr).To(ContainSubstring("no installed pak bundles the provider"))
					m.set(object{"paks": []string{pak, suite.pak}})
					expectCured(ctx)
				})
		})
	}

	It("on local that is truncated, with its copy, is set aside and replaced", func(ctx context.Context) {
		w := newWorld(ctx, local)
		m := w.newMachine(ctx)
		secret := m.credentials(m.bind(ctx, "bind-1"))
		copied := filepath.Join(w.dir, "copied")
		m.operate(ctx, 0, "bindings", "state", "pull", "bind-1", "--output", copied)
		dir := filepath.Join(w.location, "workspaces", "b-bind-1")
		w.damage(ctx, "bind-1", read(copied)[:100])
		m.operate(ctx, 0, "bindings", "drift", "bind-1") // restores the adapter's own copy
		for _, name := range []string{"terraform.tfstate", "terraform.tfstate.backup"} {
			Expect(os.WriteFile(filepath.Join(dir, name), []byte("{"), 0o600)).To(Succeed())
		}
		m.operate(ctx, 3, "bindings", "drift", "bind-1")
		m.operate(ctx, 0, "bindings", "state", "set-aside", "bind-1")
		Expect(dir).NotTo(BeADirectory())
		Expect(matching(w.location, "workspaces", "aside-b-bind-1-*", "terraform.tfstate.backup")).To(HaveLen(1))
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(41))
		m.operate(ctx, 0, "bindings", "state", "push", "bind-1", copied)
		w.works("bind-1", secret)
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		Expect(w.resources()).To(BeEmpty())
	})

	It("is the only state that can be set aside: neither a healthy nor an absent state can", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m := w.newMachine(ctx)
		secret := m.credentials(m.bind(ctx, "bind-1"))
		m.operate(ctx, 3, "bindings", "state", "set-aside", "bind-1")
		m.operate(ctx, 3, "bindings", "state", "set-aside", "nobody")
		w.stop()
		m.operate(ctx, 3, "bindings", "state", "set-aside", "bind-1")
		w.start(ctx)
		w.works("bind-1", secret)
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		w.expectNothingLeft()
	})

	It("is not reported for a binding that is being created", func(ctx context.Context) {
		w := newWorld(ctx, pg)
		m, other := w.newMachine(ctx), w.newMachine(ctx)
		m.credentials(m.heldAt(afterCreate, createBinding, m.bindParameters("bind-1"), func(int) {
			Expect(other.operate(ctx, 0, "bindings", "drift", "bind-1").Stdout).To(Equal("binding bind-1: creating\n"))
		}))
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
		w.expectNothingLeft()
	})

	It("on s3 is pulled, pushed and edited, its stale lock is released, and only the owner of the bucket can set it "+
		"aside",
		kit.Slow(), func(ctx context.Context) {
			w := newWorld(ctx, s3)
			m := w.newMachine(ctx)
			m.credentials(m.bind(ctx, "bind-1"))
			lock, err := json.Marshal(object{
				"ID":        "00000000-0000-4000-8000-000000000000",
				"Operation": "OperationTypeApply", "Who": "root@gone", "Created": "2026-01-02T03:04:05Z",
			})
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(w.object("env:", "b-bind-1", "state.tflock"), lock, 0o600)).To(Succeed())
			m.operate(ctx, 0, "bindings", "unlock", "bind-1")
			Expect(w.locked("bind-1")).To(BeFalse())
			copied := filepath.Join(w.dir, "copied")
			m.operate(ctx, 0, "bindings", "state", "pull", "bind-1", "--output", copied)
			Expect(m.operate(ctx, 0, "bindings", "state", "exec", "bind-1", "--", "state",
				"list").Stdout).To(ContainSubstring("directory_entry.account\n"))
			m.operate(ctx, 0, "bindings", "state", "push", "bind-1", "--force", copied)
			Expect(os.WriteFile(w.object("env:", "b-bind-1", "state"), []byte(`{"version": 5}`), 0o600)).To(Succeed())
			Expect(m.operate(ctx, 3, "bindings", "state", "set-aside",
				"bind-1").Stderr).To(ContainSubstring("use the tools of the backend s3"))
			Expect(os.Remove(w.object("env:", "b-bind-1", "state"))).To(Succeed())
			m.operate(ctx, 0, "bindings", "state", "push", "bind-1", copied)
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
			Expect(w.resources()).To(BeEmpty())
		})
})
