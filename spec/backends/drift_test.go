package backends_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// rewrite changes keys in the file of an entry, as a user does who does not use OpenTofu.
func (w *world) rewrite(name string, change object) {
	GinkgoHelper()
	path := filepath.Join(w.entries, name)
	var entry object
	Expect(json.Unmarshal([]byte(read(path)), &entry)).To(Succeed())
	for key, value := range change {
		entry[key] = value
	}
	text, err := json.Marshal(entry)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
}

var _ = Describe("The command drift", func() {
	for _, kind := range []string{local, pg, s3} {
		It("reports each resource that has drifted and no other, and writes no state, on "+kind, kit.SlowIf(kind != pg),
			func(ctx context.Context) {
				w := newWorld(ctx, kind)
				if kind != local {
					w.encrypt()
				}
				m := w.newMachine(ctx)
				stored := map[string]string{}
				for _, id := range []string{
					"same-1", "content", "secret", "grant-gone", "all-gone", "content-and-gone",
					"same-2",
				} {
					m.credentials(m.bind(ctx, id))
					stored[id] = w.text(id)
				}
				Expect(m.run(ctx, "", "bindings", "drift", "--all").Exit).To(Equal(0))
				w.rewrite("content-account", object{"content": "s3cret words"})
				w.rewrite("secret-account", object{"secret": "s3cret words"})
				w.rewrite("content-and-gone-grant", object{"content": "s3cret words"})
				for _, name := range []string{
					"grant-gone-grant", "all-gone-account", "all-gone-grant",
					"content-and-gone-account",
				} {
					Expect(os.Remove(filepath.Join(w.entries, name))).To(Succeed())
				}
				Expect(os.WriteFile(filepath.Join(w.entries, "nobody's"), nil, 0o600)).To(Succeed())
				outside := w.resources()

				got := m.run(ctx, "", "bindings", "drift", "--all", "--json")
				Expect(got.Exit).To(Equal(1), got.Stderr)
				Expect(got.Compared(true)).To(Equal(map[string]string{
					"same-1": "current", "same-2": "current",
					"content":    "drifted directory_entry.account changed[content]",
					"secret":     "drifted directory_entry.account changed[secret] output.secret changed[]",
					"grant-gone": "drifted directory_entry.grant gone[]",
					"all-gone": "drifted directory_entry.account gone[] directory_entry.grant gone[] " +
						"output.secret changed[]",
					"content-and-gone": "drifted directory_entry.account gone[] directory_entry.grant " +
						"changed[content] output.secret changed[]",
				}))
				Expect(got.Stderr).To(ContainSubstring("comparing: 7, 4 at the same time; each runs OpenTofu"))
				Expect(got.Stdout + got.Stderr).NotTo(ContainSubstring("s3cret"))
				for id, text := range stored {
					Expect(w.text(id)).To(Equal(text), id)
				}
				Expect(w.resources()).To(Equal(outside))
				m.expectTidy()

				Expect(m.run(ctx, "", "bindings", "drift", "same-1", "same-2").Exit).To(Equal(0))
				got = m.run(ctx, "", "bindings", "drift", "content", "nowhere")
				Expect(got.Exit).To(Equal(3), got.Stderr)
				Expect(got.Stdout).To(Equal("binding content: drifted: directory_entry.account changed (content)\n"))
				Expect(got.Stderr).To(ContainSubstring("binding nowhere: the state backend does not contain it\n"))
			})
	}

	It("does not examine a binding that is incomplete or that another command is changing", kit.Slow(),
		func(ctx context.Context) {
			w := newWorld(ctx, local)
			m := w.newMachine(ctx)
			got := m.heldAt(afterApply, createBinding, m.bindParameters("bind-1"), func(int) {
				m.env = append(m.env, "SERVICE_ADAPTER_BUDGET=6s")
				busy := m.run(ctx, "", "bindings", "drift", "bind-1")
				Expect(busy.Exit).To(Equal(3), busy.Stderr)
				Expect(busy.Stderr).To(ContainSubstring("waiting for other runs"))
				m.env = m.env[:len(m.env)-1]
			})
			m.credentials(got)
			text := m.run(ctx, "", "bindings", "drift", "bind-1")
			Expect(text.Exit).To(Equal(0), text.Stderr)
		})
})
