package tofu_test

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

	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
)

// key is a key of 32 bytes; no two letters make the same.
func key(letter string) []byte { return []byte(strings.Repeat(letter, 32)) }

// encryption encrypts with the first key and knows the others.
func encryption(current []byte, old ...[]byte) *statestore.Encryption {
	return &statestore.Encryption{Key: current, OldKeys: old}
}

// encrypted is an engine of the site with an encryption, which may be nil.
func (s site) encrypted(e *statestore.Encryption) *tofu.Engine {
	GinkgoHelper()
	options := s.options()
	options.Encryption = e
	engine, err := tofu.New(options)
	Expect(err).NotTo(HaveOccurred())
	return engine
}

// stored is the path of the stored state of b-1.
func (s site) stored() string {
	return filepath.Join(s.state, "workspaces", "b-1", "terraform.tfstate")
}

// create reserves and applies b-1.
func (s site) create(ctx context.Context, engine *tofu.Engine) {
	GinkgoHelper()
	prepared := prepare(ctx, engine, oneEntry)
	workspace := open(ctx, engine, "b-1")
	Expect(workspace.Reserve(ctx, installation(), []byte("s3cret record"))).To(Succeed())
	Expect(workspace.Apply(ctx, prepared, map[string]any{"path": s.entries, "content": "s3cret content"})).To(Succeed())
	Expect(workspace.Close()).To(Succeed())
}

// look reads the state of b-1.
func look(ctx context.Context, engine *tofu.Engine) (*statestore.State, error) {
	GinkgoHelper()
	workspace := open(ctx, engine, "b-1")
	state, err := workspace.State(ctx, installation())
	Expect(workspace.Close()).To(Succeed())
	return state, err
}

func read(path string) []byte {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return text
}

// expectAbsent asserts that no file below a directory holds a text.
func expectAbsent(dir string, texts ...string) {
	GinkgoHelper()
	for path, text := range snapshotFiles(dir) {
		for _, secret := range texts {
			Expect(bytes.Contains(text, []byte(secret))).To(BeFalse(), "%s holds %s", path, secret)
		}
	}
}

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

	It("is written, read and removed, and shows nothing on disk", func(ctx context.Context) {
		engine := s.encrypted(encryption(key("a")))
		s.create(ctx, engine)
		text := read(s.stored())
		Expect(string(text)).To(ContainSubstring("encrypted_data"))
		expectAbsent(s.state, "s3cret", "directory_entry")
		expectPrivate(s.state)

		state, err := look(ctx, engine)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("s3cret record"))
		Expect(state.Complete).To(BeTrue())
		Expect(state.Outputs["secret"]).To(HaveLen(26))

		workspace := open(ctx, engine, "b-1")
		Expect(workspace.Reserve(ctx, installation(), []byte("second"))).To(MatchError(tofu.ErrExists))
		Expect(workspace.Destroy(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
		expectAbsent(s.state, "s3cret", "directory_entry")
		Expect(workspace.Remove(ctx, installation())).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
		Expect(s.workspaces()).To(BeEmpty())
		Expect(s.runs()).To(BeEmpty())
	})

	It("can be used by an engine whose prepared directories were made without encryption", func(ctx context.Context) {
		prepare(ctx, s.engine(), oneEntry)
		_, err := look(ctx, s.engine())
		Expect(err).NotTo(HaveOccurred())
		before := snapshot(s.cache)
		options := s.options()
		options.CacheDir, options.PreparedDir, options.Encryption = s.cache+"-2", s.cache, encryption(key("a"))
		engine, err := tofu.New(options)
		Expect(err).NotTo(HaveOccurred())
		s.create(ctx, engine)
		Expect(snapshot(s.cache)).To(Equal(before))
		Expect(directories(options.CacheDir)).To(BeEmpty())
		expectAbsent(s.state, "s3cret")
	})

	It("has its keys in one file for its owner only, and nowhere else", func(ctx context.Context) {
		engine := s.encrypted(encryption(key("a"), key("b")))
		prepared := prepare(ctx, engine, oneEntry)
		workspace := open(ctx, engine, "b-1")
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		s.hold("after-create")
		applied := make(chan error)
		go func() { applied <- workspace.Apply(ctx, prepared, s.vars()) }()
		provider := s.at("after-create")
		forms := []string{string(key("a")), string(key("b"))}
		for _, k := range [][]byte{key("a"), key("b")} {
			encoded, err := json.Marshal(k)
			Expect(err).NotTo(HaveOccurred())
			forms = append(forms, strings.Trim(string(encoded), `"`))
		}
		for _, pid := range []int{provider, s.tofu("b-1")} {
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
		s.release("after-create")
		Eventually(applied).Should(Receive(BeNil()))
		Expect(workspace.Close()).To(Succeed())
		Expect(keys).NotTo(BeAnExistingFile())
	})

	It("is refused without its key, and not changed", func(ctx context.Context) {
		s.create(ctx, s.encrypted(encryption(key("a"))))
		expectRefused(ctx, s, s.encrypted(encryption(key("b"))),
			MatchRegexp(`: the state was encrypted with another key \(id "[0-9a-f]{16}"\); add it to state\.encryption\.old_keys$`))
	})

	It("is refused when encryption is off, and not changed", func(ctx context.Context) {
		s.create(ctx, s.encrypted(encryption(key("a"))))
		expectRefused(ctx, s, s.engine(), HaveSuffix(": the state is encrypted; set state.encryption"))
	})

	It("is refused when it is damaged, and not changed", func(ctx context.Context) {
		engine := s.encrypted(encryption(key("a")))
		s.create(ctx, engine)
		damaged := regexp.MustCompile(`"encrypted_data": ?"`).ReplaceAll(read(s.stored()), []byte("${0}AAAA"))
		Expect(os.WriteFile(s.stored(), damaged, 0o600)).To(Succeed())
		expectRefused(ctx, s, engine, ContainSubstring("decryption failed"))
	})

	It("is expected where encryption is on: one that is not is refused, and not changed", func(ctx context.Context) {
		s.create(ctx, s.engine())
		expectRefused(ctx, s, s.encrypted(encryption(key("a"))),
			HaveSuffix(": the state is not encrypted although state.encryption is set; encrypt the existing states first"))
	})

	It("is read with an old key and written with the current one", func(ctx context.Context) {
		s.create(ctx, s.encrypted(encryption(key("a"))))
		rotated := s.encrypted(encryption(key("b"), key("c"), key("a")))
		state, err := look(ctx, rotated)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("s3cret record"))
		workspace := open(ctx, rotated, "b-1")
		Expect(workspace.Destroy(ctx, prepare(ctx, rotated, oneEntry), s.vars())).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
		state, err = look(ctx, s.encrypted(encryption(key("b"))))
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Resources).To(BeEmpty())
	})

	It("that could not be saved is saved by the next run, also after a rotation", func(ctx context.Context) {
		engine := s.encrypted(encryption(key("a")))
		workspace := open(ctx, engine, "b-1")
		Expect(workspace.Reserve(ctx, installation(), []byte("s3cret record"))).To(Succeed())
		reserved := read(s.stored())
		Expect(workspace.Apply(ctx, prepare(ctx, engine, oneEntry), s.vars())).To(Succeed())
		Expect(workspace.Close()).To(Succeed())
		// As OpenTofu leaves it: encrypted like the stored one.
		unsaved := filepath.Join(s.cache, "runs", "b-1", "apply", "errored.tfstate")
		Expect(os.MkdirAll(filepath.Dir(unsaved), 0o700)).To(Succeed())
		Expect(os.Rename(s.stored(), unsaved)).To(Succeed())
		Expect(os.WriteFile(s.stored(), reserved, 0o600)).To(Succeed())

		_, err := look(ctx, s.engine())
		Expect(err).To(MatchError(ContainSubstring("the state is encrypted; set state.encryption")))
		_, err = look(ctx, s.encrypted(encryption(key("b"))))
		Expect(err).To(MatchError(ContainSubstring("add it to state.encryption.old_keys")))
		Expect(unsaved).To(BeARegularFile())
		expectAbsent(filepath.Join(s.cache, "runs"), "s3cret", "encryption_key")

		state, err := look(ctx, s.encrypted(encryption(key("b"), key("a"))))
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		Expect(unsaved).NotTo(BeAnExistingFile())
		state, err = look(ctx, s.encrypted(encryption(key("b"))))
		Expect(err).NotTo(HaveOccurred())
		Expect(state.Complete).To(BeTrue())
		Expect(s.runs()).To(BeEmpty())
	})

	DescribeTable("needs a sound configuration, and errors do not show it",
		func(change func(*statestore.Encryption), message string) {
			options := s.options()
			options.Encryption = encryption(key("a"))
			change(options.Encryption)
			_, err := tofu.New(options)
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(err).NotTo(MatchError(ContainSubstring("aaaa")))
		},
		Entry("a short key", func(e *statestore.Encryption) { e.Key = key("a")[1:] }, "must have 32 bytes, found 31"),
		Entry("no key", func(e *statestore.Encryption) { e.Key = nil }, "must have 32 bytes, found 0"),
		Entry("a short old key", func(e *statestore.Encryption) { e.OldKeys = [][]byte{key("b"), nil} }, "must have 32 bytes, found 0"),
	)

	It("needs OpenTofu 1.10", func(ctx context.Context) {
		engine := s.encrypted(encryption(key("a")))
		i := installation()
		i.Version = "1.9.4"
		_, err := engine.Prepare(ctx, i, tofu.Template{Files: map[string]string{"main.tf": ""}})
		Expect(err).To(MatchError("state.encryption needs OpenTofu 1.10 or newer, and this is 1.9.4"))
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, i, []byte("record"))).To(MatchError(ContainSubstring("needs OpenTofu 1.10")))
		Expect(directories(s.cache)).To(BeEmpty(), "nothing ran")
	})

	It("says what is wrong with the key provider", func(ctx context.Context) {
		engine := s.encrypted(encryption(key("a")))
		prepared := prepare(ctx, engine, oneEntry)
		workspace := open(ctx, engine, "b-1")
		DeferCleanup(workspace.Close)
		Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(Succeed())
		reserved := read(s.stored())
		keys := filepath.Join(s.cache, "runs", "b-1", "keys.sh")
		Expect(os.WriteFile(keys, []byte("echo no keys here >&2; exit 3"), 0o600)).To(Succeed())
		Expect(workspace.Apply(ctx, prepared, s.vars())).To(MatchError(And(
			ContainSubstring("Unable to fetch encryption key data"), ContainSubstring("no keys here"))))
		Expect(read(s.stored())).To(Equal(reserved))
	})
})

// expectRefused asserts that nothing an engine does with b-1 succeeds or changes what is stored.
func expectRefused(ctx context.Context, s site, engine *tofu.Engine, message OmegaMatcher) {
	GinkgoHelper()
	before := read(s.stored())
	prepared := prepare(ctx, engine, oneEntry)
	workspace := open(ctx, engine, "b-1")
	_, err := workspace.State(ctx, installation())
	Expect(err).To(MatchError(message))
	Expect(workspace.Reserve(ctx, installation(), []byte("record"))).To(MatchError(Not(Equal(tofu.ErrExists))))
	Expect(workspace.Destroy(ctx, prepared, s.vars())).NotTo(Succeed())
	Expect(workspace.Remove(ctx, installation())).To(MatchError(message))
	_, err = workspace.Reencrypt(ctx, installation())
	Expect(err).To(HaveOccurred())
	Expect(workspace.Close()).To(Succeed())
	Expect(read(s.stored())).To(Equal(before))
	Expect(filepath.Join(s.entries, "account")).To(BeARegularFile())
}
