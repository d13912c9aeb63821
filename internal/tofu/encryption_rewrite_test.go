package tofu_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
	"service-adapter/spec/kit"
)

// rewriteVariable makes the test binary an adapter process that encrypts b-1 with the key b instead of a; its value is the site's
// directory, in which the program tofu runs OpenTofu.
const rewriteVariable = "TOFU_TEST_REWRITE"

// rewriteProcess is that process. It returns the exit status.
func rewriteProcess(dir string) int {
	engine, err := tofu.New(tofu.Options{
		CacheDir: filepath.Join(dir, "cache"), Backend: tofu.Local(filepath.Join(dir, "state")),
		Encryption: &statestore.Encryption{Key: key("b"), OldKeys: [][]byte{key("a")}},
	})
	if err == nil {
		var workspace *tofu.Workspace
		if workspace, err = engine.Open(context.Background(), "b-1"); err == nil {
			_, err = workspace.Reencrypt(context.Background(), wrapped(dir))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// wrapped is an installation whose OpenTofu is the site's program tofu.
func wrapped(dir string) opentofu.Installation {
	return opentofu.Installation{Binary: filepath.Join(dir, "tofu"), Version: tofuVersion}
}

// wrap writes the site's program tofu: OpenTofu, with "state push" replaced by a script that finds OpenTofu as $tofu and the stored
// state as $stored. It returns the site's directory.
func (s site) wrap(push string) string {
	GinkgoHelper()
	dir := filepath.Dir(s.cache)
	text := fmt.Sprintf("#!/bin/sh\ntofu=%q stored=%q dir=%q\nif [ \"$1 $2\" != 'state push' ]; then exec \"$tofu\" \"$@\"; fi\n%s\n",
		installation().Binary, s.stored(), dir, push)
	Expect(os.WriteFile(filepath.Join(dir, "tofu"), []byte(text), 0o700)).To(Succeed())
	return dir
}

// envelope is what an encrypted state shows.
type envelope struct {
	Serial    int    `json:"serial"`
	Lineage   string `json:"lineage"`
	Encrypted []byte `json:"encrypted_data"`
}

func (s site) envelope() envelope {
	GinkgoHelper()
	var e envelope
	Expect(json.Unmarshal(read(s.stored()), &e)).To(Succeed())
	return e
}

// unfamiliar gives the stored state a field that only a newer OpenTofu could mean something with, so that OpenTofu has to read and write
// the state.
func (s site) unfamiliar() {
	GinkgoHelper()
	text := strings.Replace(string(read(s.stored())), "{", `{"later": true,`, 1)
	Expect(os.WriteFile(s.stored(), []byte(text), 0o600)).To(Succeed())
}

// reencrypt calls Reencrypt for b-1.
func reencrypt(ctx context.Context, engine *tofu.Engine, i opentofu.Installation) (bool, error) {
	GinkgoHelper()
	workspace := open(ctx, engine, "b-1")
	changed, err := workspace.Reencrypt(ctx, i)
	Expect(workspace.Close()).To(Succeed())
	return changed, err
}

var _ = Describe("encrypting a state anew", func() {
	var s site

	BeforeEach(func() { s = newSite() })

	It("makes the old key needless, once", func(ctx context.Context) {
		s.create(ctx, s.encrypted(encryption(key("a"))))
		before := s.envelope()
		rotated := s.encrypted(encryption(key("b"), key("a")))
		changed, err := reencrypt(ctx, rotated, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(changed).To(BeTrue())
		after := s.envelope()
		Expect(after.Serial).To(Equal(before.Serial + 1))
		Expect(after.Lineage).To(Equal(before.Lineage))
		Expect(read(s.stored()+".backup")).To(Equal(read(s.stored())), "the copy")
		expectPrivate(s.state)
		Expect(s.runs()).To(BeEmpty())

		stored := read(s.stored())
		changed, err = reencrypt(ctx, rotated, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(changed).To(BeFalse())
		Expect(read(s.stored())).To(Equal(stored))

		newOnly := s.encrypted(encryption(key("b")))
		state, err := look(ctx, newOnly)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("s3cret record"))
		Expect(state.Complete).To(BeTrue())
		Expect(filepath.Join(s.entries, "account")).To(BeARegularFile())
		workspace := open(ctx, newOnly, "b-1")
		_, err = workspace.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(workspace.Apply(ctx, prepare(ctx, newOnly, oneEntry), map[string]any{"path": s.entries, "content": "s3cret content"})).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
		_, err = look(ctx, s.encrypted(encryption(key("c"))))
		Expect(err).To(HaveOccurred())
	})

	It("encrypts what was not encrypted, where that is accepted", func(ctx context.Context) {
		s.create(ctx, s.engine())
		Expect(os.WriteFile(s.stored()+".backup", read(s.stored()), 0o600)).To(Succeed())
		accepting := encryption(key("a"))
		accepting.AcceptUnencrypted = true
		engine := s.encrypted(accepting)
		state, err := look(ctx, engine)
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		for _, expected := range []bool{true, false} {
			changed, err := reencrypt(ctx, engine, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(changed).To(Equal(expected))
		}
		expectAbsent(s.state, "s3cret", "directory_entry")
		state, err = look(ctx, s.encrypted(encryption(key("a"))))
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		// The command can be repeated after a key was replaced meanwhile.
		accepting.OldKeys, accepting.Key = [][]byte{key("a")}, key("b")
		Expect(reencrypt(ctx, s.encrypted(accepting), installation())).To(BeTrue())
	})

	It("does not make a workspace", func(ctx context.Context) {
		Expect(reencrypt(ctx, s.encrypted(encryption(key("a"))), installation())).To(BeFalse())
		Expect(s.workspaces()).To(BeEmpty())
	})

	It("needs a key", func(ctx context.Context) {
		s.create(ctx, s.engine())
		_, err := reencrypt(ctx, s.engine(), installation())
		Expect(err).To(MatchError(`encrypting workspace "b-1": state.encryption is not set`))
	})

	It("does not overwrite what another run stored meanwhile", func(ctx context.Context) {
		s.create(ctx, s.encrypted(encryption(key("a"))))
		s.unfamiliar()
		before := s.envelope()
		dir := s.wrap(`
"$tofu" state pull | sed 's/s3cret record/other record/g; s/"serial": *\([0-9]*\)/"serial": 1\1/' >"$dir/other" &&
"$tofu" state push "$dir/other" && exec "$tofu" "$@"`)
		rotated := s.encrypted(encryption(key("b"), key("a")))
		_, err := reencrypt(ctx, rotated, wrapped(dir))
		Expect(err).To(MatchError(ContainSubstring("cannot import state with serial")))
		state, err := look(ctx, rotated)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("other record"))
		Expect(s.envelope().Serial).To(BeNumerically(">", before.Serial))
		Expect(s.runs()).To(BeEmpty())
	})

	It("reports a state that OpenTofu did not write", func(ctx context.Context) {
		s.create(ctx, s.encrypted(encryption(key("a"))))
		s.unfamiliar()
		stored := read(s.stored())
		_, err := reencrypt(ctx, s.encrypted(encryption(key("b"), key("a"))), wrapped(s.wrap("exit 0")))
		Expect(err).To(MatchError(ContainSubstring("was not stored with the current key")))
		Expect(read(s.stored())).To(Equal(stored))
	})

	DescribeTable("is killed at any point while OpenTofu does it, and loses nothing",
		func(ctx context.Context, push string) {
			s.create(ctx, s.encrypted(encryption(key("a"))))
			s.unfamiliar()
			lineage := s.envelope().Lineage
			dir := s.wrap(push + "\necho $$ >\"$dir/pid.new\"; mv \"$dir/pid.new\" \"$dir/pid\"; exec sleep 1000")
			self, err := os.Executable()
			Expect(err).NotTo(HaveOccurred())
			adapter := exec.Command(self)
			adapter.Env = append(os.Environ(), rewriteVariable+"="+dir)
			adapter.Stderr = GinkgoWriter
			Expect(adapter.Start()).To(Succeed())
			Eventually(filepath.Join(dir, "pid")).Should(BeARegularFile())
			run, err := strconv.Atoi(strings.TrimSpace(string(read(filepath.Join(dir, "pid")))))
			Expect(err).NotTo(HaveOccurred())
			kill(adapter.Process.Pid)
			Expect(adapter.Wait()).NotTo(Succeed())
			kill(run)

			rotated := s.encrypted(encryption(key("b"), key("a")))
			state, err := look(ctx, rotated)
			Expect(err).NotTo(HaveOccurred())
			Expect(state).NotTo(BeNil())
			Expect(string(state.Record)).To(Equal("s3cret record"))
			Expect(state.Complete).To(BeTrue())
			_, err = reencrypt(ctx, rotated, installation())
			Expect(err).NotTo(HaveOccurred())
			state, err = look(ctx, s.encrypted(encryption(key("b"))))
			Expect(err).NotTo(HaveOccurred())
			Expect(state.Complete).To(BeTrue())
			Expect(s.envelope().Lineage).To(Equal(lineage))
			expectAbsent(s.state, "s3cret")
			expectPrivate(s.state)
			Expect(s.runs()).To(BeEmpty())
		},
		Entry("before OpenTofu writes", kit.Slow(), ""),
		Entry("when OpenTofu has emptied the file", `: >"$stored"`),
		Entry("when OpenTofu has written a part", kit.Slow(), `head -c 100 "$stored" >"$stored.new"; cat "$stored.new" >"$stored"; rm "$stored.new"`),
		Entry("after OpenTofu wrote", kit.Slow(), `"$tofu" "$@" || exit 1`),
	)
})
