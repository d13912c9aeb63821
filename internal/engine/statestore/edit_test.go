package statestore_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/statestore"
)

var _ = Describe("replacing the record in a state", func() {
	It("changes only the record", func() {
		text, err := statestore.Reservation(nil, "1.12.6", []byte("old"), "nonce")
		Expect(err).NotTo(HaveOccurred())
		changed, err := statestore.WithRecord(text, []byte(`new "<&>" 🔑`))
		Expect(err).NotTo(HaveOccurred())
		state, err := statestore.Parse(changed)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(state.Record)).To(Equal(`new "<&>" 🔑`))
		Expect(state.Nonce).To(Equal("nonce"))
		Expect(state.TofuVersion).To(Equal("1.12.6"))
		back, err := statestore.WithRecord(changed, []byte("old"))
		Expect(err).NotTo(HaveOccurred())
		Expect(back).To(MatchJSON(text))
	})

	DescribeTable("rejects", func(text string) {
		_, err := statestore.WithRecord([]byte(text), []byte("x"))
		Expect(err).To(MatchError(ContainSubstring("reading state")))
	},
		Entry("a text that is not JSON", "x"),
		Entry("a state without a guard", `{"version": 4, "resources": []}`),
		Entry("a state with a guard in a module", `{"version": 4, "resources": [
			{"type": "terraform_data", "name": "_binding", "module": "module.x", "instances": []}]}`),
		Entry("a state with a guard of another form", `{"version": 4, "resources": [
			{"type": "terraform_data", "name": "_binding", "instances": [{"attributes": {}}]}]}`),
	)
})
