package director_test

import (
	"context"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/director"
)

var _ = Describe("The certificates of a deployment", func() {
	certificates := func(ctx context.Context, status int, body string) ([]director.Certificate, error) {
		s := newSite("uaa")
		s.replaced["GET /deployments/a/b/certificate_expiry"] = says(status, body)
		client, err := director.New(s.config())
		Expect(err).NotTo(HaveOccurred())
		listed, err := client.Certificates(ctx, "a/b")
		Expect(s.requests).To(HaveLen(3))
		Expect(s.requests[2]).To(Equal("GET /deployments/a%2Fb/certificate_expiry"))
		return listed, err
	}

	It("are those that the Director reports", func(ctx context.Context) {
		Expect(certificates(ctx, http.StatusOK, `[
			{"name":"/bosh/a/tls","id":"7","expiry_date":"2027-01-02T03:04:05Z","days_left":39},
			{"name":"/ca","id":"8","expiry_date":"2026-01-02T03:04:05Z","days_left":-326}]`)).To(Equal(
			[]director.Certificate{
				{Name: "/bosh/a/tls", Expiry: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC), DaysLeft: 39},
				{Name: "/ca", Expiry: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), DaysLeft: -326},
			}))
	})

	It("may be none", func(ctx context.Context) {
		Expect(certificates(ctx, http.StatusOK, "[]")).To(And(BeEmpty(), Not(BeNil())))
	})

	DescribeTable("cause an error if the response is not a list of them", func(
		ctx context.Context, status int, body, message string,
	) {
		_, err := certificates(ctx, status, body)
		Expect(err).To(MatchError(HaveSuffix(" for the certificates of a/b: " + message)))
	},
		Entry("without the deployment", 404, `{"code":70000,"description":"Deployment 'a/b' doesn't exist"}`,
			"it answered 404 Not Found: Deployment 'a/b' doesn't exist"),
		Entry("with a page", 502, "<html>", "it answered 502 Bad Gateway"),
		Entry("with null", 200, "null", "the answer is not a list"),
		Entry("with another kind of value", 200, `{"certificates":[]}`, "the answer is not the expected JSON"),
		Entry("with a wrong time", 200, `[{"name":"/ca","expiry_date":"soon"}]`, "the answer is not the expected JSON"),
		Entry("without a name", 200, `[{"expiry_date":"2027-01-02T03:04:05Z"}]`,
			"the answer contains a certificate without a name or without a time of expiry"),
		Entry("without a time", 200, `[{"name":"/ca"}]`,
			"the answer contains a certificate without a name or without a time of expiry"),
	)
})
