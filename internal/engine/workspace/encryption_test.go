package workspace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/engine/workspace"
)

// key returns a key of 32 bytes, which differs for each letter.
func key(letter string) []byte { return []byte(strings.Repeat(letter, 32)) }

// encryption returns an encryption with a current key and old keys.
func encryption(current []byte, old ...[]byte) *statestore.Encryption {
	return &statestore.Encryption{Key: current, OldKeys: old}
}

// encryptedEngine returns an engine of the site with an encryption, which may be nil.
func (s site) encryptedEngine(e *statestore.Encryption) *workspace.Engine {
	GinkgoHelper()
	options := s.options()
	options.Encryption = e
	engine, err := workspace.New(options)
	Expect(err).NotTo(HaveOccurred())
	return engine
}

// statePath returns the path of the stored state of b-1.
func (s site) statePath() string {
	return filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate")
}

// createB1 reserves and applies b-1.
func (s site) createB1(ctx context.Context, engine *workspace.Engine) {
	GinkgoHelper()
	prepared := prepare(ctx, engine, oneEntry)
	space := open(ctx, engine, "b-1")
	Expect(space.Reserve(ctx, installation(), []byte("s3cret record"))).To(Succeed())
	Expect(space.Apply(ctx, prepared, map[string]any{"path": s.entries, "content": "s3cret content"})).To(Succeed())
	Expect(space.Close()).To(Succeed())
}

// readB1 reads the state of b-1.
func readB1(ctx context.Context, engine *workspace.Engine) (*statestore.State, error) {
	GinkgoHelper()
	space := open(ctx, engine, "b-1")
	state, err := space.State(ctx, installation())
	Expect(space.Close()).To(Succeed())
	return state, err
}

// readFile returns the content of a file, which must exist.
func readFile(path string) []byte {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return text
}

// expectAbsent asserts that no file below a directory contains any of the texts.
func expectAbsent(dir string, texts ...string) {
	GinkgoHelper()
	for path, text := range snapshotFiles(dir) {
		for _, secret := range texts {
			Expect(bytes.Contains(text, []byte(secret))).To(BeFalse(), "%s holds %s", path, secret)
		}
	}
}

// snapshotFiles returns the content of each file below a directory, by path.
func snapshotFiles(dir string) map[string][]byte {
	GinkgoHelper()
	files := map[string][]byte{}
	Expect(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = text
		return err
	})).To(Succeed())
	return files
}

var _ = Describe("an encrypted state", func() {
	var s site

	BeforeEach(func() { s = newSite() })

	It("is written, read and removed, and its content is not readable on disk", func(ctx context.Context) {
		engine := s.encryptedEngine(encryption(key("a")))
		s.createB1(ctx, engine)
		text := readFile(s.statePath())
		Expect(string(text)).To(ContainSubstring("encrypted_data"))
		expectAbsent(s.state, "s3cret", "directory_entry")
		expectPrivate(s.state)

		state, err := readB1(ctx, engine)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("s3cret record"))
		Expect(state.Complete).To(BeTrue())
		Expect(state.Outputs["secret"]).To(HaveLen(26))

		space := open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("second"))).To(MatchError(workspace.ErrExists))
		Expect(space.Destroy(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
		expectAbsent(s.state, "s3cret", "directory_entry")
		Expect(space.Remove(ctx, installation())).To(Succeed())
		Expect(space.Close()).To(Succeed())
		Expect(s.workspaces()).To(BeEmpty())
		Expect(s.runs()).To(BeEmpty())
	})

	It("can be used by an engine whose prepared directories were built without encryption", func(ctx context.Context) {
		prepare(ctx, s.engine(), oneEntry)
		_, err := readB1(ctx, s.engine())
		Expect(err).NotTo(HaveOccurred())
		before := snapshot(s.cache)
		options := s.options()
		options.CacheDir, options.PreparedDir, options.Encryption = s.cache+"-2", s.cache, encryption(key("a"))
		engine, err := workspace.New(options)
		Expect(err).NotTo(HaveOccurred())
		s.createB1(ctx, engine)
		Expect(snapshot(s.cache)).To(Equal(before))
		Expect(directories(options.CacheDir)).To(BeEmpty())
		expectAbsent(s.state, "s3cret")
	})

	It("has its keys in one file that only its owner can read", func(ctx context.Context) {
		engine := s.encryptedEngine(encryption(key("a"), key("b")))
		prepared := prepare(ctx, engine, oneEntry)
		space := open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.blockProvider("after-create")
		applied := make(chan error)
		go func() { applied <- space.Apply(ctx, prepared, s.vars()) }()
		provider := s.waitForProvider("after-create")
		forms := []string{string(key("a")), string(key("b"))}
		for _, k := range [][]byte{key("a"), key("b")} {
			encoded, err := json.Marshal(k)
			Expect(err).NotTo(HaveOccurred())
			forms = append(forms, strings.Trim(string(encoded), `"`))
		}
		for _, pid := range []int{provider, s.tofuPID("b-1")} {
			for _, name := range []string{"cmdline", "environ"} {
				for _, form := range forms {
					Expect(os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))).NotTo(ContainSubstring(form))
				}
			}
		}
		keys := filepath.Join(s.cache, "runs", "b-1", "keys.sh")
		for path, text := range snapshotFiles(s.cache) {
			for _, form := range forms[2:] {
				Expect(strings.Contains(string(text), form)).To(Equal(path == keys), path)
			}
		}
		info, err := os.Stat(keys)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(BeEquivalentTo(0o600))
		expectPrivate(s.cache)
		s.releaseProvider("after-create")
		Eventually(applied).Should(Receive(BeNil()))
		Expect(space.Close()).To(Succeed())
		Expect(keys).NotTo(BeAnExistingFile())
	})

	It("is rejected without its key, and not changed", func(ctx context.Context) {
		s.createB1(ctx, s.encryptedEngine(encryption(key("a"))))
		expectRefused(ctx, s, s.encryptedEngine(encryption(key("b"))),
			MatchRegexp(`: the state was encrypted with another key \(id "[0-9a-f]{16}"\); `+
				`add it to state\.encryption\.old_keys$`))
	})

	It("is rejected if encryption is off, and not changed", func(ctx context.Context) {
		s.createB1(ctx, s.encryptedEngine(encryption(key("a"))))
		expectRefused(ctx, s, s.engine(), HaveSuffix(": the state is encrypted; set state.encryption"))
	})

	It("is rejected if it is damaged, and not changed", func(ctx context.Context) {
		engine := s.encryptedEngine(encryption(key("a")))
		s.createB1(ctx, engine)
		damaged := regexp.MustCompile(`"encrypted_data": ?"`).ReplaceAll(readFile(s.statePath()), []byte("${0}AAAA"))
		Expect(os.WriteFile(s.statePath(), damaged, 0o600)).To(Succeed())
		expectRefused(ctx, s, engine, ContainSubstring("decryption failed"))
	})

	It("is required if encryption is on: an unencrypted state is rejected, and not changed", func(ctx context.Context) {
		s.createB1(ctx, s.engine())
		expectRefused(ctx, s, s.encryptedEngine(encryption(key("a"))),
			HaveSuffix(": the state is not encrypted although state.encryption is set; "+
				"encrypt the existing states first"))
	})

	It("is read with an old key and written with the current one", func(ctx context.Context) {
		s.createB1(ctx, s.encryptedEngine(encryption(key("a"))))
		rotated := s.encryptedEngine(encryption(key("b"), key("c"), key("a")))
		state, err := readB1(ctx, rotated)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("s3cret record"))
		space := open(ctx, rotated, "b-1")
		Expect(space.Destroy(ctx, prepare(ctx, rotated, oneEntry), s.vars())).To(Succeed())
		Expect(space.Close()).To(Succeed())
		state, err = readB1(ctx, s.encryptedEngine(encryption(key("b"))))
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Resources).To(BeEmpty())
	})

	It("is saved by the next run if it could not be saved, also after a key rotation", func(ctx context.Context) {
		engine := s.encryptedEngine(encryption(key("a")))
		space := open(ctx, engine, "b-1")
		Expect(space.Reserve(ctx, installation(), []byte("s3cret record"))).To(Succeed())
		reserved := readFile(s.statePath())
		Expect(space.Apply(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
		Expect(space.Close()).To(Succeed())
		// OpenTofu encrypts it like the stored state.
		unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
		Expect(os.MkdirAll(filepath.Dir(unsaved), 0o700)).To(Succeed())
		Expect(os.Rename(s.statePath(), unsaved)).To(Succeed())
		Expect(os.WriteFile(s.statePath(), reserved, 0o600)).To(Succeed())

		_, err := readB1(ctx, s.engine())
		Expect(err).To(MatchError(ContainSubstring("the state is encrypted; set state.encryption")))
		_, err = readB1(ctx, s.encryptedEngine(encryption(key("b"))))
		Expect(err).To(MatchError(ContainSubstring("add it to state.encryption.old_keys")))
		Expect(unsaved).To(BeARegularFile())
		expectAbsent(filepath.Join(s.cache, "runs"), "s3cret", "encryption_key")

		state, err := readB1(ctx, s.encryptedEngine(encryption(key("b"), key("a"))))
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		Expect(unsaved).NotTo(BeAnExistingFile())
		state, err = readB1(ctx, s.encryptedEngine(encryption(key("b"))))
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		Expect(s.runs()).To(BeEmpty())
	})

	DescribeTable("is rejected with an error that does not contain the keys, for",
		func(change func(*statestore.Encryption), message string) {
			options := s.options()
			options.Encryption = encryption(key("a"))
			change(options.Encryption)
			_, err := workspace.New(options)
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(err).NotTo(MatchError(ContainSubstring("aaaa")))
		},
		Entry("a short key", func(e *statestore.Encryption) { e.Key = key("a")[1:] }, "must have 32 bytes, found 31"),
		Entry("no key", func(e *statestore.Encryption) { e.Key = nil }, "must have 32 bytes, found 0"),
		Entry("an empty old key", func(e *statestore.Encryption) { e.OldKeys = [][]byte{key("b"), nil} },
			"must have 32 bytes, found 0"),
	)

	It("requires OpenTofu 1.10", func(ctx context.Context) {
		engine := s.encryptedEngine(encryption(key("a")))
		i := installation()
		i.Version = "1.9.4"
		_, err := engine.Prepare(ctx, i, templates.Template{Files: map[string]string{"main.tf": ""}})
		Expect(err).To(MatchError("state.encryption needs OpenTofu 1.10 or newer, and this is 1.9.4"))
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, i, []byte("record"))).To(MatchError(ContainSubstring("needs OpenTofu 1.10")))
		Expect(directories(s.cache)).To(BeEmpty(), "nothing ran")
	})

	It("reports errors of the key provider", func(ctx context.Context) {
		engine := s.encryptedEngine(encryption(key("a")))
		prepared := prepare(ctx, engine, oneEntry)
		space := open(ctx, engine, "b-1")
		DeferCleanup(space.Close)
		Expect(space.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		reserved := readFile(s.statePath())
		keys := filepath.Join(s.cache, "runs", "b-1", "keys.sh")
		Expect(os.WriteFile(keys, []byte("echo no keys here >&2; exit 3"), 0o600)).To(Succeed())
		Expect(space.Apply(ctx, prepared, s.vars())).To(MatchError(And(
			ContainSubstring("Unable to fetch encryption key data"), ContainSubstring("no keys here"))))
		Expect(readFile(s.statePath())).To(Equal(reserved))
	})
})

// expectRefused asserts that every operation of an engine on b-1 fails with an error, and that the stored state does
// not change.
func expectRefused(ctx context.Context, s site, engine *workspace.Engine, message OmegaMatcher) {
	GinkgoHelper()
	before := readFile(s.statePath())
	prepared := prepare(ctx, engine, oneEntry)
	space := open(ctx, engine, "b-1")
	_, err := space.State(ctx, installation())
	Expect(err).To(MatchError(message))
	Expect(space.Reserve(ctx, installation(), []byte("record"))).To(MatchError(Not(Equal(workspace.ErrExists))))
	Expect(space.Destroy(ctx, prepared, s.vars())).NotTo(Succeed())
	Expect(space.Remove(ctx, installation())).To(MatchError(message))
	_, err = space.Reencrypt(ctx, installation(), nil)
	Expect(err).To(HaveOccurred())
	Expect(space.Close()).To(Succeed())
	Expect(readFile(s.statePath())).To(Equal(before))
	Expect(filepath.Join(s.entries, "account")).To(BeARegularFile())
}
