package lifecycle_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/record"
)

var _ = Describe("the service of a binding", func() {
	It("is that of a pak of the recorded name before that of another one", func() {
		pak := func(name, version string, services ...*brokerpak.Service) *brokerpak.Pak {
			return &brokerpak.Pak{
				Manifest: brokerpak.Manifest{Name: name, Version: version, Binaries: []brokerpak.Binary{{Name: "tofu", Version: "1.12.6"}}},
				Services: services,
			}
		}
		other, own := &brokerpak.Service{Name: "mail"}, &brokerpak.Service{Name: "mail"}
		m := &lifecycle.Manager{Paks: []*brokerpak.Pak{pak("b", "1", other), pak("a", "1", own), pak("a", "2")}}
		Expect(m.Service(&lifecycle.Record{Pak: "a", PakVersion: "0", Instance: record.Instance{Service: "mail"}})).To(BeIdenticalTo(own))
		Expect(m.Service(&lifecycle.Record{Pak: "c", Instance: record.Instance{Service: "mail"}})).To(BeIdenticalTo(other))
		Expect(m.Service(&lifecycle.Record{Pak: "a", Instance: record.Instance{Service: "none"}})).To(BeNil())
	})
})
