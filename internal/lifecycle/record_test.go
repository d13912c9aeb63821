package lifecycle_test

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/lifecycle"
	"service-adapter/internal/record"
)

var _ = Describe("a record", func() {
	It("comes back with the values that it had", func() {
		values := map[string]any{"size": int64(3), "ratio": 0.5, "list": []any{int64(1), "a"}, "none": nil}
		remembered := &lifecycle.Record{
			Instance: record.Instance{InstanceID: "i1"}, Request: values, Inputs: values, Found: values, Parameters: values,
			Generated: map[string]map[string]any{"input": {"call": int64(7)}},
		}
		text, err := remembered.Encode()
		Expect(err).NotTo(HaveOccurred())
		Expect(lifecycle.DecodeRecord(text)).To(Equal(remembered))
	})

	It("of each format and each release is read, and one that is not is refused with a sentence", func() {
		for _, fixture := range []string{"format-1", "format-1-times"} {
			text, err := os.ReadFile(filepath.Join("testdata", "records", fixture+".json"))
			Expect(err).NotTo(HaveOccurred())
			decoded, err := lifecycle.DecodeRecord(text)
			Expect(err).NotTo(HaveOccurred(), fixture)
			entry := decoded.Entry()
			Expect(entry.ID).To(Equal("b1"))
			Expect(entry.Owner).To(Equal(record.Owner{App: "app", Space: "space", Organization: "org"}))
			Expect(entry.CreatedAt == "").To(Equal(fixture == "format-1"))
			// A key of a later release does no harm.
			_, err = lifecycle.DecodeRecord([]byte(strings.Replace(string(text), "{", `{"later": {"a": 1},`, 1)))
			Expect(err).NotTo(HaveOccurred())
			_, err = lifecycle.DecodeRecord([]byte(strings.Replace(string(text), `"format":1`, `"format":2`, 1)))
			Expect(err).To(MatchError("reading the record: format 2 is not supported; was it made by a newer adapter?"))
		}
	})

	It("is of the time at which it is stored, and keeps that at which it was made", func() {
		const made = "2026-01-02T03:04:05Z"
		remembered := &lifecycle.Record{Instance: record.Instance{InstanceID: "i1"}, CreatedAt: made}
		text, err := remembered.Encode()
		Expect(err).NotTo(HaveOccurred())
		again, err := lifecycle.DecodeRecord(text)
		Expect(err).NotTo(HaveOccurred())
		Expect(again.CreatedAt).To(Equal(made))
		at, err := time.Parse(time.RFC3339, again.UpdatedAt)
		Expect(err).NotTo(HaveOccurred())
		Expect(at).To(And(BeTemporally("~", time.Now(), time.Minute), HaveField("Location()", time.UTC)))
	})
})
