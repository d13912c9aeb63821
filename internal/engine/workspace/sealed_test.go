package workspace_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"service-adapter/spec/kit"

	"service-adapter/internal/engine/statestore"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// sealedFile is the file in which OpenTofu stores its state when the engine does not run it.
const sealedFile = "terraform.tfstate"

// runTofuAlone runs an OpenTofu of a version in a directory, without the engine, and returns its standard output.
func runTofuAlone(
	ctx context.Context, version, dir string, e *statestore.Encryption, args ...string,
) (stdout string, err error) {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, kit.OpenTofuPath(version), args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=/usr/bin:/bin", "HOME=" + dir, "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE=/dev/null",
		"TF_IN_AUTOMATION=1", "TF_INPUT=0",
	}
	if e != nil {
		keys := filepath.Join(dir, `the "keys" ${of} %{it}`+"'s.sh")
		Expect(os.WriteFile(keys, e.KeyScript(), 0o600)).To(Succeed())
		setting, err := e.Configuration(keys)
		Expect(err).NotTo(HaveOccurred())
		cmd.Env = append(cmd.Env, "TF_ENCRYPTION="+setting)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		GinkgoWriter.Println(stderr.String())
	}
	return string(text), err
}

// applyAlone applies a template in a new directory, and returns the directory and the stored state.
func applyAlone(ctx context.Context, version string, e *statestore.Encryption) (dir string, stored []byte) {
	GinkgoHelper()
	dir = GinkgoT().TempDir()
	template := `resource "terraform_data" "x" { input = "s3cret <&> input" }` + "\n" +
		`output "x" { value = terraform_data.x.output }`
	Expect(os.WriteFile(filepath.Join(dir, "main.tf"), []byte(template), 0o600)).To(Succeed())
	_, err := runTofuAlone(ctx, version, dir, e, "apply", "-auto-approve", "-no-color")
	Expect(err).NotTo(HaveOccurred())
	return dir, readFile(filepath.Join(dir, sealedFile))
}

// plainState is a state of OpenTofu 1.12.6 without resources.
const plainState = `{"version":4,"terraform_version":"1.12.6","serial":3,"lineage":"c8f3a5d0-0001",` +
	`"outputs":{},"resources":[],"check_results":null}` + "\n"

// storedState is a state that OpenTofu 1.10.10 stored with key a when the adapter was its key provider. Its only output
// is "x".
const storedState = `{"serial":1,"lineage":"6f53564b-e86b-446a-2de7-68b921dbc64c",` +
	`"meta":{"key_provider.external.adapter":"eyJleHRlcm5hbF9kYXRhIjp7ImlkIjoiNjFjODI5ZGJlMTY5ZGE3YiJ9fQ=="},` +
	`"encrypted_data":"` +
	"xCOseEWsEzIhrhF8gfxPRDMtSWUP5i3Y7PjVOcBvRqvXZnB+dCdbH42Vly6kNiIB1OtS388OZKqDiYUmVI40ml0TGJjKCQqF7p/i" +
	"c3P/Wz2ahZuq/p14+ZG4wKz0wehjNY0SQjYCvhdnyr5x30Doj59E3vyStMto5Cw3idHvaObHu0btcg1klRGlgEe/DelTXfwdCPsw" +
	"tUU4MvLVCtUpzBY8y/+/RzVUIM8gvYhobPiIYKTJjJxgssb7uERLCEYU9/POXwy+AI+pvxx2BllGvMWknZ94sC3r" +
	`","encryption_version":"v0"}`

var _ = Describe("a stored state", func() {
	It("of an earlier adapter can be opened", func(ctx context.Context) {
		e := encryption(key("b"), key("a"))
		_, text, id, ok := e.Open([]byte(storedState))
		Expect(ok).To(BeTrue())
		Expect(id).To(Equal("61c829dbe169da7b"))
		Expect(string(text)).To(ContainSubstring(`"outputs":{"x":{"value":"old","type":"string"}}`))
		dir := GinkgoT().TempDir()
		Expect(os.WriteFile(filepath.Join(dir, sealedFile), []byte(storedState), 0o600)).To(Succeed())
		Expect(runTofuAlone(ctx, tofuVersion, dir, e, "output", "-raw", "x")).To(Equal("old"))
	})

	// The oldest OpenTofu that can encrypt, and the newest.
	for _, version := range []string{"1.10.10", tofuVersion} {
		It("of OpenTofu "+version+" is opened with its key", func(ctx context.Context) {
			dir, stored := applyAlone(ctx, version, encryption(key("a")))
			Expect(string(stored)).NotTo(ContainSubstring("s3cret"))
			_, text, id, ok := encryption(key("a")).Open(stored)
			Expect(ok).To(BeTrue())
			Expect(id).To(Equal(statestore.KeyID(key("a"))))
			Expect(runTofuAlone(ctx, version, dir, encryption(key("a")), "state", "pull")).To(
				Equal(string(text) + "\n"))

			_, text, id, ok = encryption(key("b"), key("c"), key("a")).Open(stored)
			Expect(ok).To(BeTrue(), "with an old key")
			Expect(id).To(Equal(statestore.KeyID(key("a"))))
			Expect(string(text)).To(ContainSubstring(`s3cret`))

			_, _, _, ok = encryption(key("b")).Open(stored)
			Expect(ok).To(BeFalse(), "with other keys")
			_, _, _, ok = (*statestore.Encryption)(nil).Open(stored)
			Expect(ok).To(BeFalse(), "without encryption")
		})

		It("that was sealed is read and changed by OpenTofu "+version, func(ctx context.Context) {
			dir, stored := applyAlone(ctx, version, nil)
			sealed, err := encryption(key("a")).Seal(stored)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(sealed)).NotTo(ContainSubstring("s3cret"))
			Expect(os.WriteFile(filepath.Join(dir, sealedFile), sealed, 0o600)).To(Succeed())
			rotated := encryption(key("b"), key("a"))
			var before, after struct{ Serial int }
			pulled, err := runTofuAlone(ctx, version, dir, rotated, "state", "pull")
			Expect(err).NotTo(HaveOccurred())
			Expect(pulled).To(MatchJSON(stored))
			Expect(json.Unmarshal([]byte(pulled), &before)).To(Succeed())

			template := `resource "terraform_data" "y" {}`
			Expect(os.WriteFile(filepath.Join(dir, "main.tf"), []byte(template), 0o600)).To(Succeed())
			_, err = runTofuAlone(ctx, version, dir, rotated, "apply", "-auto-approve", "-no-color")
			Expect(err).NotTo(HaveOccurred())
			_, text, id, ok := rotated.Open(readFile(filepath.Join(dir, sealedFile)))
			Expect(ok).To(BeTrue())
			Expect(id).To(Equal(statestore.KeyID(key("b"))))
			Expect(json.Unmarshal(text, &after)).To(Succeed())
			Expect(after.Serial).To(BeNumerically(">", before.Serial))
			Expect(string(text)).To(And(ContainSubstring(`"name":"y"`), Not(ContainSubstring("s3cret"))))
		})
	}

	It("is sealed with the current key only", func() {
		sealed, err := encryption(key("a"), key("b")).Seal([]byte(plainState))
		Expect(err).NotTo(HaveOccurred())
		_, text, id, ok := encryption(key("a")).Open(sealed)
		Expect(ok).To(BeTrue())
		Expect(id).To(Equal(statestore.KeyID(key("a"))))
		Expect(string(text)).To(Equal(plainState))
		again, err := encryption(key("a")).Seal([]byte(plainState))
		Expect(err).NotTo(HaveOccurred())
		Expect(again).NotTo(Equal(sealed), "another nonce")
	})

	It("can be opened if it is indented", func() {
		sealed, err := encryption(key("a")).Seal([]byte(plainState))
		Expect(err).NotTo(HaveOccurred())
		var indented bytes.Buffer
		Expect(json.Indent(&indented, append(sealed, '\n'), "", "  ")).To(Succeed())
		_, text, _, ok := encryption(key("a")).Open(indented.Bytes())
		Expect(ok).To(BeTrue())
		Expect(string(text)).To(Equal(plainState))
	})

	It("is not changed by sealing without encryption", func() {
		var none *statestore.Encryption
		sealed, err := none.Seal([]byte(plainState))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(sealed)).To(Equal(plainState))
		_, text, id, ok := none.Open([]byte(plainState))
		Expect([]any{string(text), id, ok}).To(Equal([]any{plainState, "", true}))
	})

	It("may be in clear text only if that is accepted", func() {
		e := encryption(key("a"))
		_, _, _, ok := e.Open([]byte(plainState))
		Expect(ok).To(BeFalse())
		e.AcceptUnencrypted = true
		_, text, id, ok := e.Open([]byte(plainState))
		Expect([]any{string(text), id, ok}).To(Equal([]any{plainState, "", true}))
		sealed, err := e.Seal(text)
		Expect(err).NotTo(HaveOccurred())
		_, _, id, ok = e.Open(sealed)
		Expect([]any{id, ok}).To(Equal([]any{statestore.KeyID(key("a")), true}))
	})

	DescribeTable("is not sealed if it is not a state:",
		func(text string) {
			_, err := encryption(key("a")).Seal([]byte(text))
			Expect(err).To(MatchError("encrypting a state: it is not a state, or has no serial"))
		},
		Entry("nothing", ""), Entry("not JSON", "s3cret"), Entry("null", "null"), Entry("a list", "[]"),
		Entry("another object", "{}"),
		Entry("without a version of OpenTofu", `{"version":4,"serial":1,"lineage":"x"}`),
		Entry("without a serial", `{"version":4,"terraform_version":"1.12.6","lineage":"x"}`),
		Entry("encrypted", `{"serial":1,"lineage":"x","terraform_version":"1.12.6","encryption_version":"v0"}`),
	)

	It("cannot be opened if any bit was changed", func() {
		e := encryption(key("a"), key("b"))
		sealed, err := e.Seal([]byte(plainState))
		Expect(err).NotTo(HaveOccurred())
		for i := range sealed {
			for bit := range 8 {
				damaged := bytes.Clone(sealed)
				damaged[i] ^= 1 << bit
				_, _, _, ok := e.Open(damaged)
				Expect(ok).To(BeFalse(), "bit %d of byte %d", bit, i)
			}
			_, _, _, ok := e.Open(sealed[:i])
			Expect(ok).To(BeFalse(), "cut at %d", i)
		}
	})

	DescribeTable("is left to OpenTofu if it has another form:",
		func(change func(sealed string) string) {
			e := encryption(key("a"), key("b"))
			sealed, err := e.Seal([]byte(plainState))
			Expect(err).NotTo(HaveOccurred())
			changed := change(string(sealed))
			Expect(changed).NotTo(Equal(string(sealed)))
			for _, e := range []*statestore.Encryption{
				e, {Key: e.Key, OldKeys: e.OldKeys, AcceptUnencrypted: true}, nil,
			} {
				_, _, _, ok := e.Open([]byte(changed))
				Expect(ok).To(BeFalse())
			}
		},
		Entry("nothing", replaceText(".*", "")),
		Entry("another version", replaceText(`"v0"`, `"v1"`)),
		Entry("a longer version", replaceText(`"v0"`, `"v0 "`)),
		Entry("another serial", replaceText(`"serial":3`, `"serial":4`)),
		Entry("no serial", replaceText(`"serial":3,`, ``)),
		Entry("another lineage", replaceText(`"lineage":"c8f3a5d0-0001"`, `"lineage":"c8f3a5d0-0002"`)),
		Entry("no lineage", replaceText(`"lineage":"c8f3a5d0-0001",`, ``)),
		Entry("the id of another known key",
			replaceText(base64Text(keyMetadata(statestore.KeyID(key("a")))),
				base64Text(keyMetadata(statestore.KeyID(key("b")))))),
		Entry("the id of an unknown key",
			replaceText(base64Text(keyMetadata(statestore.KeyID(key("a")))),
				base64Text(keyMetadata(statestore.KeyID(key("z")))))),
		Entry("other metadata", replaceText(base64Text(keyMetadata(statestore.KeyID(key("a")))),
			base64Text(`{"external_data":null}`))),
		Entry("no metadata", replaceText(`"meta":{`, `"meta":{},"more":{`)),
		Entry("another key provider", replaceText(`key_provider.external.adapter`, `key_provider.external.other`)),
		Entry("two key providers", replaceText(`"meta":{`, `"meta":{"a":"",`)),
		Entry("an additional field", replaceText(`"meta"`, `"more":1,"meta"`)),
		Entry("a value twice", replaceText(`"serial":3`, `"serial":3,"serial":3`)),
		Entry("another spelling", replaceText(`"serial"`, `"Serial"`)),
		Entry("a space in a value", replaceText(`"lineage":"`, `"lineage":" `)),
		Entry("an escape", replaceText(`"v0"`, `"v\u0030"`)),
		Entry("text after the object", replaceText(`"v0"}`, `"v0"}{}`)),
		Entry("no data", replaceText(`"encrypted_data":"`, `"encrypted_data":"","more":"`)),
		Entry("short data", replaceText(`"encrypted_data":"`, `"encrypted_data":"YWFh","more":"`)),
		Entry("data with other white space", replaceText(`"encrypted_data":"`, `"encrypted_data":"\n`)),
	)
})

// replaceText returns a function that replaces a text, which must occur; ".*" stands for the whole state.
func replaceText(old, by string) func(string) string {
	return func(text string) string {
		if old == ".*" {
			return by
		}
		return strings.Replace(text, old, by, 1)
	}
}

// base64Text returns a text as the metadata of an encrypted state contains it.
func base64Text(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// FuzzOpen opens arbitrary stored states. A state that can be opened must be the same after it was sealed again, must
// be valid for OpenTofu, and must have the serial and the lineage of its envelope.
func FuzzOpen(f *testing.F) {
	current, old := bytes.Repeat([]byte("a"), 32), bytes.Repeat([]byte("b"), 32)
	e := &statestore.Encryption{Key: current, OldKeys: [][]byte{old}}
	accepting := &statestore.Encryption{Key: current, OldKeys: [][]byte{old}, AcceptUnencrypted: true}
	f.Add([]byte(plainState))
	for _, key := range [][]byte{current, old} {
		sealed, err := (&statestore.Encryption{Key: key}).Seal([]byte(plainState))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(sealed)
		f.Add(bytes.Replace(sealed, []byte(`"serial":3`), []byte(`"serial":-3`), 1))
	}
	f.Add([]byte(`{"serial":1,"lineage":"<","terraform_version":"1.10.10","encryption_version":null}`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		_, text, id, ok := e.Open(stored)
		var outside, inside struct {
			Serial     int
			Lineage    string
			Encryption string `json:"encryption_version"`
		}
		if ok {
			if id != statestore.KeyID(current) && id != statestore.KeyID(old) || bytes.Equal(text, stored) {
				t.Fatalf("opened with %q", id)
			}
			if json.Unmarshal(stored, &outside) != nil ||
				json.Unmarshal(text, &inside) != nil || inside.Encryption != "" ||
				outside.Serial != inside.Serial || outside.Lineage != inside.Lineage {
				t.Fatalf("opened %s: %s", stored, text)
			}
		}
		_, accepted, acceptedID, plain := accepting.Open(stored)
		switch {
		case ok && (!plain || acceptedID != id || !bytes.Equal(accepted, text)):
			t.Fatal("what is encrypted is another text where clear text is accepted")
		case !plain:
			return
		case !ok && (acceptedID != "" || !bytes.Equal(accepted, stored)):
			t.Fatalf("clear text with %q: %s", acceptedID, accepted)
		}
		sealed, err := e.Seal(accepted)
		if err != nil {
			t.Fatal(err)
		}
		_, again, id, ok := e.Open(sealed)
		if !ok || id != statestore.KeyID(current) || !bytes.Equal(again, accepted) {
			t.Fatalf("sealed anew it is %v, %q, %s", ok, id, again)
		}
	})
}
