package tofu_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/tofu"
)

// answer is what a key provider writes.
type answer struct {
	Keys struct {
		Encryption []byte `json:"encryption_key"`
		Decryption []byte `json:"decryption_key"`
	} `json:"keys"`
	Meta struct {
		ExternalData map[string]string `json:"external_data"`
	} `json:"meta"`
}

// serve calls ServeKey with keys and the metadata of a state.
func serve(path, metadata string) (answer, error) {
	var stdout bytes.Buffer
	err := tofu.ServeKey(strings.NewReader(metadata), &stdout, path)
	header, body, _ := strings.Cut(stdout.String(), "\n")
	Expect(header).To(MatchJSON(`{"magic": "OpenTofu-External-Key-Provider", "version": 1}`))
	var got answer
	if err != nil {
		Expect(body).To(BeEmpty())
	} else {
		Expect(json.Unmarshal([]byte(body), &got)).To(Succeed())
	}
	return got, err
}

// keysOf writes a file with keys.
func keysOf(keys ...[]byte) string {
	text, err := json.Marshal(map[string]any{"keys": keys})
	Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(GinkgoT().TempDir(), "keys.json")
	Expect(os.WriteFile(path, text, 0o600)).To(Succeed())
	return path
}

var _ = Describe("the key provider", func() {
	// As OpenTofu asks for a key to encrypt with, before 1.12 and since.
	for _, nothing := range []string{"null", `{"external_data":null}`} {
		It("gives the current key for "+nothing, func() {
			got, err := serve(keysOf(key("a"), key("b")), nothing)
			Expect(err).NotTo(HaveOccurred())
			Expect(got.Keys.Encryption).To(Equal(key("a")))
			Expect(got.Keys.Decryption).To(BeEmpty())
			Expect(got.Meta.ExternalData).To(HaveKeyWithValue("id", MatchRegexp("^[0-9a-f]{16}$")))
		})
	}

	It("gives the key that the metadata names, and tells which", func() {
		old, err := serve(keysOf(key("b")), "null")
		Expect(err).NotTo(HaveOccurred())
		metadata, err := json.Marshal(map[string]any{"external_data": old.Meta.ExternalData})
		Expect(err).NotTo(HaveOccurred())
		path := keysOf(key("a"), key("b"))
		got, err := serve(path, string(metadata))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Keys.Encryption).To(Equal(key("a")))
		Expect(got.Keys.Decryption).To(Equal(key("b")))
		Expect(got.Meta.ExternalData["id"]).NotTo(Equal(old.Meta.ExternalData["id"]))
		Expect(os.ReadFile(path + ".asked")).To(BeEquivalentTo(old.Meta.ExternalData["id"]))
		expectPrivate(filepath.Dir(path))

		_, err = serve(keysOf(key("a")), string(metadata))
		Expect(err).To(MatchError(`the state was encrypted with another key (id "` + old.Meta.ExternalData["id"] +
			`"); add it to state.encryption.old_keys`))
	})

	DescribeTable("refuses metadata that is not its own",
		func(metadata, message string) {
			_, err := serve(keysOf(key("a")), metadata)
			Expect(err).To(MatchError(ContainSubstring(message)))
		},
		Entry("none", "", "not that of an external key provider"),
		Entry("no JSON", "{", "not that of an external key provider"),
		Entry("of another shape", `{"external_data": "x"}`, "not that of an external key provider"),
		Entry("without an id", `{"external_data": {"key": "x"}}`, "something else than the service adapter encrypted the state"),
		Entry("with another id", `{"external_data": {"id": 7}}`, "something else than the service adapter encrypted the state"),
	)

	DescribeTable("refuses a file without keys, and shows nothing of it",
		func(text, message string) {
			path := filepath.Join(GinkgoT().TempDir(), "keys.json")
			Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
			_, err := serve(path, "null")
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(err).NotTo(MatchError(ContainSubstring("s3cret")))
		},
		Entry("no JSON", "s3cret", "holds none"),
		Entry("empty", `{"s3cret": []}`, "holds none"),
		Entry("a short key", `{"keys": ["czNjcmV0"]}`, "does not have 32 bytes"),
	)

	It("says that the file is missing", func() {
		_, err := serve("/nowhere/keys.json", "null")
		Expect(err).To(MatchError(os.ErrNotExist))
	})
})

// FuzzServeKey gives the key provider arbitrary metadata: it answers with the current key and a known one, or with an error that
// shows no key.
func FuzzServeKey(f *testing.F) {
	for _, seed := range []string{"null", `{"external_data":null}`, `{"external_data":{"id":"0011223344556677"}}`, `{"external_data":{"id":1}}`, "{", ""} {
		f.Add([]byte(seed))
	}
	path := filepath.Join(f.TempDir(), "keys.json")
	current, old := bytes.Repeat([]byte("a"), 32), bytes.Repeat([]byte("b"), 32)
	text, err := json.Marshal(map[string]any{"keys": [][]byte{current, old}})
	if err != nil {
		f.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, metadata []byte) {
		var stdout bytes.Buffer
		err := tofu.ServeKey(bytes.NewReader(metadata), &stdout, path)
		header, body, _ := strings.Cut(stdout.String(), "\n")
		switch {
		case !strings.Contains(header, "OpenTofu-External-Key-Provider"):
			t.Fatalf("no header: %q", stdout.String())
		case err != nil:
			if body != "" || strings.Contains(err.Error(), "YWFhYW") || strings.Contains(err.Error(), "YmJiYm") {
				t.Fatalf("answer with an error: %q, %v", body, err)
			}
			return
		}
		var got answer
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Keys.Encryption, current) {
			t.Fatalf("not the current key")
		}
		if got.Keys.Decryption != nil && !bytes.Equal(got.Keys.Decryption, current) && !bytes.Equal(got.Keys.Decryption, old) {
			t.Fatalf("a key that is not known")
		}
	})
}
