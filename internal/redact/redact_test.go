package redact_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/redact"
)

func TestRedact(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/redact")
}

var _ = Describe("secrets", func() {
	DescribeTable("are masked in every form in which a message may show them",
		func(secret string) {
			var secrets redact.Secrets
			secrets.Add("  " + secret + "\n")
			inJSON, err := json.Marshal(secret)
			Expect(err).NotTo(HaveOccurred())
			quoted := fmt.Sprintf("%q", secret)
			for _, shown := range []string{
				secret, quoted, string(inJSON), fmt.Sprintf("%q", quoted), fmt.Sprintf("%q", inJSON), url.QueryEscape(secret), url.PathEscape(secret),
			} {
				cleaned := secrets.Clean("before " + shown + " after")
				Expect(strings.ReplaceAll(cleaned, `\`, "")).To(MatchRegexp(`^before "*\[redacted\]"* after$`), shown)
			}
			Expect(secrets.List()).To(Equal([]string{"  " + secret + "\n"}))
		},
		Entry("plain", "s3cret"),
		Entry("quotes and backslashes", `s3"cr\et'`),
		Entry("HTML", "s3cret<&>"),
		Entry("several lines", "s3cret line\n\tsecond s3cret line"),
		Entry("beyond ASCII", "s3cr\u00e9t \u2028 \u0007 %"),
	)

	It("are masked in part where they have several parts", func() {
		var secrets redact.Secrets
		secrets.Add("-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nshort\n", `{"user": "admin", "password": ["s3cret-password"], "n": 1}`)
		Expect(secrets.Clean("line MIIEvQIBADANBgkq")).To(Equal("line [redacted]"))
		Expect(secrets.Clean("a short s3cret-password")).To(Equal("a short [redacted]"))
		Expect(secrets.Clean("admin")).To(Equal("admin"), "too short")
	})

	It("are masked as a whole where one is part of another", func() {
		var secrets redact.Secrets
		secrets.Add("s3cret")
		secrets.AddLeaves(map[string]any{"list": []any{"the s3cret password", 17, nil}, "other": true})
		Expect(secrets.Clean("x the s3cret password s3cret")).To(Equal("x [redacted] [redacted]"))
	})

	It("that are too short leave a text readable", func() {
		var secrets redact.Secrets
		secrets.Add("", "a", "12345", "     \n\n\n\n\n")
		Expect(secrets.Clean("a 12345")).To(Equal("a 12345"))
	})
})
