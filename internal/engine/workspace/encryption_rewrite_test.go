package workspace_test

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

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/workspace"
	"service-adapter/spec/kit"
)

// rewriteVariable makes the test binary an adapter process that re-encrypts b-1 with key b instead of key a. Its value
// is the directory of the site, in which the program tofu runs OpenTofu.
const rewriteVariable = "TOFU_TEST_REWRITE"

// rewriteProcess is the main function of that process. It returns the exit status.
func rewriteProcess(dir string) int {
	engine, err := workspace.New(workspace.Options{
		CacheDir: filepath.Join(dir, "cache"), Backend: backend.Local(filepath.Join(dir, "state")),
		Encryption: &statestore.Encryption{Key: key("b"), OldKeys: [][]byte{key("a")}},
	})
	if err == nil {
		var space *workspace.Workspace
		if space, err = engine.Open(context.Background(), "b-1"); err == nil {
			_, err = space.Reencrypt(context.Background(), replacedPush(dir), nil)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// replacedPush returns an installation whose OpenTofu is the program tofu in the directory of the site.
func replacedPush(dir string) opentofu.Installation {
	return opentofu.Installation{Binary: filepath.Join(dir, "tofu"), Version: tofuVersion}
}

// replacePush writes the program tofu of the site: OpenTofu, in which "state push" is replaced by a script. The script
// finds OpenTofu as $tofu and the stored state as $stored. It returns the directory of the site.
func (s site) replacePush(push string) string {
	GinkgoHelper()
	dir := filepath.Dir(s.cache)
	text := fmt.Sprintf("#!/bin/sh\ntofu=%q stored=%q dir=%q\n"+
		"if [ \"$1 $2\" != 'state push' ]; then exec \"$tofu\" \"$@\"; fi\n%s\n",
		installation().Binary, s.statePath(), dir, push)
	Expect(os.WriteFile(filepath.Join(dir, "tofu"), []byte(text), 0o700)).To(Succeed())
	return dir
}

// envelope contains the unencrypted fields of an encrypted state.
type envelope struct {
	Serial    int    `json:"serial"`
	Lineage   string `json:"lineage"`
	Encrypted []byte `json:"encrypted_data"`
}

// envelope returns the envelope of the stored state of b-1.
func (s site) envelope() envelope {
	GinkgoHelper()
	var e envelope
	Expect(json.Unmarshal(readFile(s.statePath()), &e)).To(Succeed())
	return e
}

// addUnknownField adds a field to the stored state that only a newer OpenTofu could interpret, so that OpenTofu has to
// read and write the state.
func (s site) addUnknownField() {
	GinkgoHelper()
	text := strings.Replace(string(readFile(s.statePath())), "{", `{"later": true,`, 1)
	Expect(os.WriteFile(s.statePath(), []byte(text), 0o600)).To(Succeed())
}

// reencrypt calls Reencrypt for b-1.
func reencrypt(ctx context.Context, engine *workspace.Engine, i opentofu.Installation) (bool, error) {
	GinkgoHelper()
	space := open(ctx, engine, "b-1")
	changed, err := space.Reencrypt(ctx, i, nil)
	Expect(space.Close()).To(Succeed())
	return changed, err
}

var _ = Describe("re-encrypting a state", func() {
	var s site

	BeforeEach(func() { s = newSite() })

	It("makes the old key unnecessary, and happens only once", func(ctx context.Context) {
		s.createB1(ctx, s.encryptedEngine(encryption(key("a"))))
		before := s.envelope()
		rotated := s.encryptedEngine(encryption(key("b"), key("a")))
		changed, err := reencrypt(ctx, rotated, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(changed).To(BeTrue())
		after := s.envelope()
		Expect(after.Serial).To(Equal(before.Serial + 1))
		Expect(after.Lineage).To(Equal(before.Lineage))
		Expect(readFile(s.statePath()+".backup")).To(Equal(readFile(s.statePath())), "the copy")
		expectPrivate(s.state)
		Expect(s.runs()).To(BeEmpty())

		stored := readFile(s.statePath())
		changed, err = reencrypt(ctx, rotated, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(changed).To(BeFalse())
		Expect(readFile(s.statePath())).To(Equal(stored))

		newOnly := s.encryptedEngine(encryption(key("b")))
		state, err := readB1(ctx, newOnly)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("s3cret record"))
		Expect(state.Complete).To(BeTrue())
		Expect(filepath.Join(s.entries, "account")).To(BeARegularFile())
		space := open(ctx, newOnly, "b-1")
		_, err = space.State(ctx, installation())
		Expect(err).NotTo(HaveOccurred())
		Expect(space.Apply(ctx, prepare(ctx, newOnly, oneEntry),
			map[string]any{"path": s.entries, "content": "s3cret content"})).To(Succeed())
		Expect(space.Close()).To(Succeed())
		_, err = readB1(ctx, s.encryptedEngine(encryption(key("c"))))
		Expect(err).To(HaveOccurred())
	})

	It("encrypts an unencrypted state if that is accepted", func(ctx context.Context) {
		s.createB1(ctx, s.engine())
		Expect(os.WriteFile(s.statePath()+".backup", readFile(s.statePath()), 0o600)).To(Succeed())
		accepting := encryption(key("a"))
		accepting.AcceptUnencrypted = true
		engine := s.encryptedEngine(accepting)
		state, err := readB1(ctx, engine)
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		for _, expected := range []bool{true, false} {
			changed, err := reencrypt(ctx, engine, installation())
			Expect(err).NotTo(HaveOccurred())
			Expect(changed).To(Equal(expected))
		}
		expectAbsent(s.state, "s3cret", "directory_entry")
		state, err = readB1(ctx, s.encryptedEngine(encryption(key("a"))))
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		// The command can be repeated after the key has been replaced.
		accepting.OldKeys, accepting.Key = [][]byte{key("a")}, key("b")
		Expect(reencrypt(ctx, s.encryptedEngine(accepting), installation())).To(BeTrue())
	})

	It("does not create a workspace", func(ctx context.Context) {
		Expect(reencrypt(ctx, s.encryptedEngine(encryption(key("a"))), installation())).To(BeFalse())
		Expect(s.workspaces()).To(BeEmpty())
	})

	It("requires a key", func(ctx context.Context) {
		s.createB1(ctx, s.engine())
		_, err := reencrypt(ctx, s.engine(), installation())
		Expect(err).To(MatchError(`encrypting workspace "b-1": state.encryption is not set`))
	})

	It("does not overwrite a state that another run stored meanwhile", func(ctx context.Context) {
		s.createB1(ctx, s.encryptedEngine(encryption(key("a"))))
		s.addUnknownField()
		before := s.envelope()
		dir := s.replacePush(`
"$tofu" state pull | sed 's/s3cret record/other record/g; s/"serial": *\([0-9]*\)/"serial": 1\1/' >"$dir/other" &&
"$tofu" state push "$dir/other" && exec "$tofu" "$@"`)
		rotated := s.encryptedEngine(encryption(key("b"), key("a")))
		_, err := reencrypt(ctx, rotated, replacedPush(dir))
		Expect(err).To(MatchError(ContainSubstring("cannot import state with serial")))
		state, err := readB1(ctx, rotated)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("other record"))
		Expect(s.envelope().Serial).To(BeNumerically(">", before.Serial))
		Expect(s.runs()).To(BeEmpty())
	})

	It("reports that OpenTofu did not write the state", func(ctx context.Context) {
		s.createB1(ctx, s.encryptedEngine(encryption(key("a"))))
		s.addUnknownField()
		stored := readFile(s.statePath())
		_, err := reencrypt(ctx, s.encryptedEngine(encryption(key("b"), key("a"))),
			replacedPush(s.replacePush("exit 0")))
		Expect(err).To(MatchError(ContainSubstring("was not stored with the current key")))
		Expect(readFile(s.statePath())).To(Equal(stored))
	})

	DescribeTable("loses nothing if it is killed",
		func(ctx context.Context, push string) {
			s.createB1(ctx, s.encryptedEngine(encryption(key("a"))))
			s.addUnknownField()
			lineage := s.envelope().Lineage
			dir := s.replacePush(push +
				"\necho $$ >\"$dir/pid.new\"; mv \"$dir/pid.new\" \"$dir/pid\"; exec sleep 1000")
			self, err := os.Executable()
			Expect(err).NotTo(HaveOccurred())
			adapter := exec.Command(self)
			adapter.Env = append(os.Environ(), rewriteVariable+"="+dir)
			adapter.Stderr = GinkgoWriter
			Expect(adapter.Start()).To(Succeed())
			Eventually(filepath.Join(dir, "pid")).Should(BeARegularFile())
			run, err := strconv.Atoi(strings.TrimSpace(string(readFile(filepath.Join(dir, "pid")))))
			Expect(err).NotTo(HaveOccurred())
			kill(adapter.Process.Pid)
			Expect(adapter.Wait()).NotTo(Succeed())
			kill(run)

			rotated := s.encryptedEngine(encryption(key("b"), key("a")))
			state, err := readB1(ctx, rotated)
			Expect(err).NotTo(HaveOccurred())
			Expect(state).NotTo(BeNil())
			Expect(string(state.Record)).To(Equal("s3cret record"))
			Expect(state.Complete).To(BeTrue())
			_, err = reencrypt(ctx, rotated, installation())
			Expect(err).NotTo(HaveOccurred())
			state, err = readB1(ctx, s.encryptedEngine(encryption(key("b"))))
			Expect(err).NotTo(HaveOccurred())
			Expect(state.Complete).To(BeTrue())
			Expect(s.envelope().Lineage).To(Equal(lineage))
			expectAbsent(s.state, "s3cret")
			expectPrivate(s.state)
			Expect(s.runs()).To(BeEmpty())
		},
		Entry("before OpenTofu writes", kit.Slow(), ""),
		Entry("when OpenTofu has truncated the file", `: >"$stored"`),
		Entry("when OpenTofu has written a part", kit.Slow(),
			`head -c 100 "$stored" >"$stored.new"; cat "$stored.new" >"$stored"; rm "$stored.new"`),
		Entry("after OpenTofu has written", kit.Slow(), `"$tofu" "$@" || exit 1`),
	)
})
