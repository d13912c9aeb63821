package director_test

import (
	"context"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/director"
)

var _ = Describe("The addresses of a deployment", func() {
	It("are those of its VMs, by instance group", func(ctx context.Context) {
		s := newSite("uaa")
		client, err := director.New(s.config())
		Expect(err).NotTo(HaveOccurred())
		path := "GET /deployments/service-instance_i1/vms"
		s.replaced[path] = says(http.StatusOK,
			`[{"job":"node","ips":["10.0.0.2","fd00::2"]},
			{"job":"node","ips":["10.0.0.1"]},{"job":"other","ips":null}]`)
		Expect(client.VMs(ctx, "service-instance_i1")).To(Equal(map[string][]string{
			"node": {"10.0.0.2", "fd00::2", "10.0.0.1"}, "other": nil,
		}))
		s.replaced[path] = says(http.StatusOK, `null`)
		_, err = client.VMs(ctx, "service-instance_i1")
		Expect(err).To(MatchError(HaveSuffix("for the VMs of service-instance_i1: the answer is not a list")))
	})

	Describe("by DNS", func() {
		var s *site
		read := func(ctx context.Context, entries ...director.BindingDNS) (map[string]string, error) {
			config := s.config()
			config.BindingDNS = entries
			client, err := director.New(config)
			Expect(err).NotTo(HaveOccurred())
			return client.DNSAddresses(ctx, "d/1")
		}
		entry := director.BindingDNS{Name: "primary", LinkProvider: "db", InstanceGroup: "node"}
		entry.Properties.AZs, entry.Properties.Status = []string{"z1", "z/2"}, "healthy"

		BeforeEach(func() {
			s = newSite("uaa")
			s.replaced["GET /link_providers"] = says(http.StatusOK,
				`[{"id":"1","name":"db","owner_object":{"info":{"instance_group":"other"}}},
				{"id":"2","name":"db","owner_object":{"info":{"instance_group":"node"}}}]`)
			s.replaced["POST /links"] = says(http.StatusOK, `{"id":"7"}`)
			s.replaced["GET /link_address"] = says(http.StatusOK, `{"address":"q-s0.bosh"}`)
			s.replaced["DELETE /links/7"] = says(http.StatusNoContent, "")
		})

		It("are those of links that are created and deleted", func(ctx context.Context) {
			other := director.BindingDNS{Name: "absent", LinkProvider: "gone", InstanceGroup: "node"}
			repeated := director.BindingDNS{Name: "primary", LinkProvider: "db", InstanceGroup: "other"}
			Expect(read(ctx, other, entry, repeated)).To(Equal(map[string]string{"primary": "q-s0.bosh"}))
			Expect(s.requests[2:]).To(Equal([]string{
				"GET /link_providers?deployment=d%2F1", "POST /links",
				"GET /link_address?azs%5B%5D=z1&azs%5B%5D=z%2F2&link_id=7&status=healthy", "DELETE /links/7",
			}))
		})

		It("need no request if none is configured", func(ctx context.Context) {
			Expect(read(ctx)).To(BeEmpty())
			Expect(s.requests).To(BeEmpty())
		})

		It("cause an error after which no link is left", func(ctx context.Context) {
			s.replaced["GET /link_address"] = says(http.StatusOK, `{}`)
			_, err := read(ctx, entry)
			Expect(err).To(MatchError(MatchRegexp(
				`^asking the Director .* for the DNS address "primary" of d/1: the answer does not contain one$`)))
			Expect(s.requests).To(ContainElement("DELETE /links/7"))
			delete(s.replaced, "DELETE /links/7")
			s.replaced["GET /link_address"] = says(http.StatusOK, `{"address":"q-s0.bosh"}`)
			_, err = read(ctx, entry)
			Expect(err).To(MatchError(HaveSuffix("deleting the link 7: it answered 404 Not Found")))
		})
	})
})
