package workspace_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"service-adapter/spec/kit"

	"service-adapter/internal/engine/statestore"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// answer is the output of a key provider.
type answer struct {
	Keys struct {
		Encryption []byte `json:"encryption_key"`
		Decryption []byte `json:"decryption_key"`
	} `json:"keys"`
	Meta struct {
		ExternalData map[string]string `json:"external_data"`
	} `json:"meta"`
}

// shells returns the commands that run a key script. The command of a shell that is not installed is nil.
func shells() map[string][]string {
	all := map[string][]string{
		"sh": {"/bin/sh"}, "dash": {"dash"}, "bash": {"bash", "--posix"},
		"busybox": {"busybox", "sh"}, "mksh": {"mksh"},
	}
	for name, command := range all {
		if path, err := exec.LookPath(command[0]); err != nil {
			all[name] = nil
		} else {
			command[0] = path
		}
	}
	return all
}

// runKeyScript runs the key script with the metadata of a state, in the directory of the script and without a PATH.
func runKeyScript(shell []string, path, metadata string) (stdout, stderr string, err error) {
	cmd := exec.Command(shell[0], append(shell[1:], path)...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Env = filepath.Dir(path), []string{"PATH=/nowhere"}
	if !filepath.IsAbs(path) {
		cmd.Dir = ""
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(metadata), &out, &said
	err = cmd.Run()
	return out.String(), said.String(), err
}

// requestKeys returns the output of the key script, which must succeed.
func requestKeys(shell []string, path, metadata string) answer {
	GinkgoHelper()
	stdout, stderr, err := runKeyScript(shell, path, metadata)
	Expect(err).NotTo(HaveOccurred(), stderr)
	Expect(stderr).To(BeEmpty())
	header, body, _ := strings.Cut(stdout, "\n")
	Expect(header).To(MatchJSON(`{"magic": "OpenTofu-External-Key-Provider", "version": 1}`))
	var got answer
	Expect(json.Unmarshal([]byte(body), &got)).To(Succeed())
	return got
}

// writeKeyScript writes a key script and returns its path.
func writeKeyScript(keys ...[]byte) string {
	GinkgoHelper()
	path := filepath.Join(GinkgoT().TempDir(), "keys.sh")
	Expect(os.WriteFile(path, encryption(keys[0], keys[1:]...).KeyScript(), 0o600)).To(Succeed())
	return path
}

// keyMetadata returns the metadata of a state whose key has this id.
func keyMetadata(id string) string { return `{"external_data":{"id":"` + id + `"}}` }

var _ = Describe("the key script", func() {
	for name, shell := range shells() {
		Context("in "+name, func() {
			BeforeEach(func() {
				if shell == nil {
					kit.Missing(GinkgoT(), "there is no "+name+"; run `scripts/install "+name+"`")
				}
			})

			// OpenTofu passes these when it asks for a key to encrypt with.
			for _, nothing := range []string{"null", "null\n", `{"external_data":null}`} {
				It("returns the current key for "+nothing, func() {
					path := writeKeyScript(key("a"), key("b"))
					got := requestKeys(shell, path, nothing)
					Expect(got.Keys.Encryption).To(Equal(key("a")))
					Expect(got.Keys.Decryption).To(BeEmpty())
					Expect(got.Meta.ExternalData).To(HaveKeyWithValue("id", statestore.KeyID(key("a"))))
					Expect(path + ".asked").NotTo(BeAnExistingFile())
				})
			}

			It("returns the key that the metadata names, and records its id", func() {
				path := writeKeyScript(key("a"), key("b"), key("c"))
				for _, letter := range []string{"c", "a", "b"} {
					got := requestKeys(shell, path, keyMetadata(statestore.KeyID(key(letter))))
					Expect(got.Keys.Encryption).To(Equal(key("a")))
					Expect(got.Keys.Decryption).To(Equal(key(letter)))
					Expect(got.Meta.ExternalData).To(HaveKeyWithValue("id", statestore.KeyID(key("a"))))
					Expect(os.ReadFile(path + ".asked")).To(BeEquivalentTo(statestore.KeyID(key(letter)) + "\n"))
					expectPrivate(filepath.Dir(path))
				}
			})

			It("rejects the id of an unknown key, and names and records it", func() {
				path, id := writeKeyScript(key("a")), statestore.KeyID(key("b"))
				stdout, stderr, err := runKeyScript(shell, path, keyMetadata(id))
				Expect(err).To(MatchError("exit status 1"))
				Expect(stdout).To(Equal(`{"magic":"OpenTofu-External-Key-Provider","version":1}` + "\n"))
				Expect(stderr).To(Equal(`the state was encrypted with another key (id "` + id +
					`"); add it to state.encryption.old_keys` + "\n"))
				Expect(os.ReadFile(path + ".asked")).To(BeEquivalentTo(id + "\n"))
			})

			DescribeTable("rejects metadata that it did not write",
				func(metadata string) {
					path := writeKeyScript(key("a"))
					stdout, stderr, err := runKeyScript(shell, path, metadata)
					Expect(err).To(MatchError("exit status 1"))
					Expect(stdout).To(Equal(`{"magic":"OpenTofu-External-Key-Provider","version":1}` + "\n"))
					Expect(stderr).To(Equal("reading the metadata of the state: it names no key; " +
						"something else than the service adapter encrypted the state\n"))
					Expect(os.ReadDir(filepath.Dir(path))).To(HaveLen(1))
				},
				Entry("that is missing", ""),
				Entry("that is not JSON", "{"),
				Entry("with another structure", `{"external_data":"x"}`),
				Entry("that is empty", `{"external_data":{}}`),
				Entry("without an id", `{"external_data":{"key":"x"}}`),
				Entry("whose id is a number", `{"external_data":{"id":7}}`),
				Entry("with an empty id", keyMetadata("")),
				Entry("whose id is a word of the script", keyMetadata("none")),
				Entry("with a short id", keyMetadata("0123456789abcde")),
				Entry("with a long id", keyMetadata("0123456789abcdef0")),
				Entry("with an id in capitals", keyMetadata("0123456789ABCDEF")),
				Entry("whose id is a pattern", keyMetadata("????????????????")),
				Entry("whose id is another pattern", keyMetadata("*")),
				Entry("whose id is a command substitution", keyMetadata("$(echo x >evil)")),
				Entry("whose id is a quoted command", keyMetadata(`\";echo x >evil;\"`)),
				Entry("whose id is a command in backquotes", keyMetadata("`echo x >evil`")),
				Entry("whose id closes a quotation", keyMetadata("';echo x >evil;'")),
				Entry("with bytes that are not text",
					keyMetadata("\xff\xfe\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
				Entry("with an additional field", `{"external_data":{"id":"`+statestore.KeyID(key("a"))+`"},"more":1}`),
			)

			It("reports that it cannot record the key", func() {
				path := writeKeyScript(key("a"))
				Expect(os.Mkdir(path+".asked", 0o700)).To(Succeed())
				stdout, stderr, err := runKeyScript(shell, path, keyMetadata(statestore.KeyID(key("a"))))
				Expect(err).To(MatchError("exit status 1"))
				Expect(stdout).NotTo(ContainSubstring("_key"))
				Expect(stderr).To(HaveSuffix("recording the key of the state\n"))
			})

			DescribeTable("works at a path",
				func(name string) {
					dir := filepath.Join(GinkgoT().TempDir(), name)
					Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
					path := filepath.Join(dir, name+".sh")
					Expect(os.WriteFile(path, encryption(key("a")).KeyScript(), 0o600)).To(Succeed())
					got := requestKeys(shell, path, keyMetadata(statestore.KeyID(key("a"))))
					Expect(got.Keys.Decryption).To(Equal(key("a")))
					Expect(path + ".asked").To(BeARegularFile())
				},
				Entry("with spaces", "a b  c"), Entry("with quotes", `a"b'c`),
				Entry("with templates", "${a} %{b} $(c)"),
				Entry("with a backslash", `a\nb\`), Entry("with a pattern", "*?[a]"), Entry("with a dash", "-x"),
			)
		})
	}

	It("works at a relative path", func() {
		GinkgoT().Chdir(filepath.Dir(writeKeyScript(key("a"))))
		Expect(requestKeys([]string{"/bin/sh"}, "keys.sh",
			keyMetadata(statestore.KeyID(key("a")))).Keys.Decryption).To(Equal(key("a")))
		Expect("keys.sh.asked").To(BeARegularFile())
	})
})

// FuzzKeyScript passes arbitrary metadata to the key script. The script must return the current key and the one that
// the metadata names, or an error that contains no key, and must write only the id of a key.
func FuzzKeyScript(f *testing.F) {
	current, old := bytes.Repeat([]byte("a"), 32), bytes.Repeat([]byte("b"), 32)
	for _, seed := range []string{
		"null", `{"external_data":null}`, keyMetadata("0011223344556677"), keyMetadata(statestore.KeyID(current)),
		keyMetadata(statestore.KeyID(old)),
		keyMetadata("$(echo x >&2)"), keyMetadata("`echo x`"), keyMetadata(`\"; echo x; \"`), keyMetadata("*"),
		`{"external_data":{"id":1}}`, "{", "",
	} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "keys.sh")
	e := &statestore.Encryption{Key: current, OldKeys: [][]byte{old}}
	if err := os.WriteFile(path, e.KeyScript(), 0o600); err != nil {
		f.Fatal(err)
	}
	isID := regexp.MustCompile("^[0-9a-f]{16}\n$")
	f.Fuzz(func(t *testing.T, metadata []byte) {
		stdout, stderr, err := runKeyScript([]string{"/bin/sh"}, path, string(metadata))
		header, body, _ := strings.Cut(stdout, "\n")
		if !strings.Contains(header, "OpenTofu-External-Key-Provider") {
			t.Fatalf("no header: %q", stdout)
		}
		files, _ := os.ReadDir(filepath.Dir(path))
		asked, _ := os.ReadFile(path + ".asked")
		if len(files) > 2 || asked != nil && !isID.Match(asked) {
			t.Fatalf("left %v, asked %q", files, asked)
		}
		if err != nil {
			for _, key := range [][]byte{current, old} {
				if body != "" || strings.Contains(stderr, base64.StdEncoding.EncodeToString(key)) {
					t.Fatalf("answer with an error: %q, %q", body, stderr)
				}
			}
			return
		}
		var got answer
		if err := json.Unmarshal([]byte(body), &got); err != nil || stderr != "" {
			t.Fatalf("%v, %q", err, stderr)
		}
		if !bytes.Equal(got.Keys.Encryption, current) {
			t.Fatalf("not the current key")
		}
		if got.Keys.Decryption != nil && !bytes.Contains(metadata, []byte(statestore.KeyID(got.Keys.Decryption))) {
			t.Fatalf("a key that was not asked for")
		}
	})
}
