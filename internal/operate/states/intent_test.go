package states_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/operate/states"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

var _ = Describe("an intent", func() {
	It("keeps all digits of a secret", func() {
		text := record.Intent{Instance: record.Instance{InstanceID: "inst-1", Service: "db"}}.Encode()
		read, err := states.ReadIntent(value.MustJSON(map[string]any{
			"intent":  text,
			"secrets": map[string]any{"pin": 9007199254740993},
		}))
		Expect(err).NotTo(HaveOccurred())
		Expect(value.Text(read.Secrets["pin"])).To(Equal("9007199254740993"))
	})
})
