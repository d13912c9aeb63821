package statestore_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/statestore"
)

var _ = Describe("a state with another record", func() {
	It("is the same but for the record", func() {
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

	DescribeTable("is refused", func(text string) {
		_, err := statestore.WithRecord([]byte(text), []byte("x"))
		Expect(err).To(MatchError(ContainSubstring("reading state")))
	},
		Entry("no JSON", "x"),
		Entry("no guard", `{"version": 4, "resources": []}`),
		Entry("another one's guard", `{"version": 4, "resources": [{"type": "terraform_data", "name": "_binding", "module": "module.x", "instances": []}]}`),
		Entry("a guard of another shape", `{"version": 4, "resources": [{"type": "terraform_data", "name": "_binding", "instances": [{"attributes": {}}]}]}`),
	)
})
