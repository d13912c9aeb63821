package lifecycle_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/lifecycle"
)

var _ = Describe("a record", func() {
	It("comes back with the values that it had", func() {
		values := map[string]any{"size": int64(3), "ratio": 0.5, "list": []any{int64(1), "a"}, "none": nil}
		record := &lifecycle.Record{
			InstanceID: "i1", Request: values, Inputs: values, Found: values, Parameters: values,
			Generated: map[string]map[string]any{"input": {"call": int64(7)}},
		}
		text, err := record.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(lifecycle.DecodeRecord(text)).To(Equal(record))
	})
})
