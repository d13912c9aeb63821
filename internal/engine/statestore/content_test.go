package statestore_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/value"
)

// contentState returns a state with the serial and one resource with a sensitive attribute, and with a guard whose
// record is marked as sensitive.
func contentState(lineage string, serial int, password string) []byte {
	return fmt.Appendf(nil, `{
  "version": 4, "terraform_version": "1.12.6", "serial": %d, "lineage": %q,
  "outputs": {
    "_binding_applied": {"value": "the applied record", "type": "string"}, "port": {"value": 1, "type": "number"}
  },
  "resources": [
    {"mode": "managed", "type": "terraform_data", "name": "_binding",
     "provider": "provider[\"terraform.io/builtin/terraform\"]",
     "instances": [{"attributes": {
        "input": {
          "value": {"record": "the record", "tofu": "1.12.6"},
          "type": ["object", {"record": "string", "tofu": "string"}]
        },
        "triggers_replace": {"value": "nonce", "type": "string"}},
      "sensitive_attributes": [[{"type": "get_attr", "value": "input"}]]}]},
    {"mode": "managed", "type": "pg_user", "name": "user", "provider": "provider[\"example.com/a/pg\"]",
     "instances": [{"attributes": {"name": "user", "password": %q},
      "sensitive_attributes": [[{"type": "get_attr", "value": "password"}]]}]}
  ]
}`, serial, lineage, password)
}

var _ = Describe("a state", func() {
	It("has the sensitive values of its resources, but not the record of the guard", func() {
		state, err := statestore.Parse(contentState("l", 1, "planted-s3cret"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("the record"))
		Expect(state.SensitiveValues()).To(Equal([]any{"planted-s3cret"}))
	})

	It("without its content has neither resources nor outputs, and the same serial", func() {
		text, err := statestore.WithoutContent(contentState("l", 7, "planted-s3cret"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).NotTo(ContainSubstring("planted-s3cret"))
		Expect(text).To(MatchJSON(`{
  "version": 4, "terraform_version": "1.12.6", "serial": 7, "lineage": "l", "outputs": {}, "resources": []
}`))
	})

	It("has no output for the record of the last complete apply", func() {
		state, err := statestore.Parse(contentState("l", 1, "p"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Applied)).To(Equal("the applied record"))
		Expect(state.Outputs).To(Equal(map[string]any{"port": int64(1)}))
	})
})

var _ = Describe("a state whose guard is not the first resource", func() {
	// withOthers returns the reservation with another resource before the guard and the mark of a complete apply.
	withOthers := func(mark string) []byte {
		GinkgoHelper()
		text, err := statestore.Reservation(nil, "1.12.6", []byte("the record"), "nonce")
		Expect(err).NotTo(HaveOccurred())
		kind, name := statestore.SplitAddress(statestore.CompleteAddress)
		return bytes.Replace(text, []byte(`"resources":[`), fmt.Appendf(nil, `"resources":[
{"mode": "managed", "type": "pg_user", "name": "user", "provider": "provider[\"example.com/a/pg\"]",
 "instances": [{"attributes": {}}]},
{"mode": "managed", "type": %q, "name": %q, "provider": "provider[\"terraform.io/builtin/terraform\"]",
 "instances": [{"attributes": {"input": {"value": %q, "type": "string"}}}]},`, kind, name, mark), 1)
	}
	digest := func(record string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(record))) }

	It("gets another record", func() {
		changed, err := statestore.WithRecord(withOthers(""), []byte("another record"))
		Expect(err).NotTo(HaveOccurred())
		state, err := statestore.Parse(changed)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal("another record"))
		Expect(state.Resources).To(Equal([]string{"pg_user.user"}))
	})

	DescribeTable("is complete if its mark is the digest of its record", func(mark string, complete bool) {
		state, err := statestore.Parse(withOthers(mark))
		Expect(err).NotTo(HaveOccurred())
		Expect(state.HasCompleteMark).To(BeTrue())
		Expect(state.Complete).To(Equal(complete))
	},
		Entry("of its record", digest("the record"), true),
		Entry("of the record before", digest("an older record"), false),
	)
})

var _ = DescribeTable("an unsaved state is superseded by a stored one that is not its predecessor",
	func(stored []byte, superseded bool) {
		unsaved := contentState("l", 5, "p")
		unsavedState, err := statestore.Parse(unsaved)
		Expect(err).NotTo(HaveOccurred())
		var storedState *statestore.State
		if stored != nil {
			storedState, err = statestore.Parse(stored)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(statestore.Superseded(unsaved, stored, unsavedState, storedState)).To(Equal(superseded))
	},
	Entry("none is stored", nil, false),
	Entry("the predecessor", contentState("l", 4, "old"), false),
	Entry("the same state", contentState("l", 5, "p"), false),
	Entry("the same serial with other resources", contentState("l", 5, "other"), true),
	Entry("a higher serial", contentState("l", 6, "p"), true),
	Entry("another lineage", contentState("m", 4, "p"), true),
)

var _ = DescribeTable("an encrypted state is rejected if its clear text parts differ from those that are encrypted",
	func(change func(sealed map[string]any), accepted bool) {
		encryption := &statestore.Encryption{Key: make([]byte, 32)}
		text, err := encryption.Seal(contentState("l", 5, "p"))
		Expect(err).NotTo(HaveOccurred())
		sealed, err := value.DecodeObject(text)
		Expect(err).NotTo(HaveOccurred())
		change(sealed)
		// The order of the keys is that of OpenTofu.
		changed := bytes.Replace(text, []byte(`"serial":5`), fmt.Appendf(nil, `"serial":%v`, sealed["serial"]), 1)
		lineage := fmt.Appendf(nil, `"lineage":%q`, sealed["lineage"])
		changed = bytes.Replace(changed, []byte(`"lineage":"l"`), lineage, 1)
		_, _, _, ok := encryption.Open(changed)
		Expect(ok).To(Equal(accepted))
	},
	Entry("no difference", func(map[string]any) {}, true),
	Entry("the serial", func(sealed map[string]any) { sealed["serial"] = 6 }, false),
	Entry("the lineage", func(sealed map[string]any) { sealed["lineage"] = "m" }, false),
)
