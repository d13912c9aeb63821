package lifecycle_test

import (
	"context"
	"errors"
	"log/slog"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/record"
)

var _ = Describe("the service of a binding", func() {
	It("is read from a pak with the recorded name in preference to other paks", func() {
		pak := func(name, version string, services ...*brokerpak.Service) *brokerpak.Pak {
			return &brokerpak.Pak{
				Manifest: brokerpak.Manifest{
					Name: name, Version: version, Binaries: []brokerpak.Binary{{Name: "tofu", Version: "1.12.6"}},
				},
				Services: services,
			}
		}
		mail := brokerpak.Offering{Name: "mail"}
		other, own := &brokerpak.Service{Offering: mail}, &brokerpak.Service{Offering: mail}
		recorded := func(pak, version, service string) *lifecycle.StateRecord {
			return &lifecycle.StateRecord{
				Subject: lifecycle.Subject{Instance: record.Instance{Service: service}},
				Source:  lifecycle.Source{AppliedWith: lifecycle.AppliedWith{Pak: pak, PakVersion: version}},
			}
		}
		m := &lifecycle.Manager{Paks: []*brokerpak.Pak{pak("b", "1", other), pak("a", "1", own), pak("a", "2")}}
		Expect(m.Service(recorded("a", "0", "mail"))).To(BeIdenticalTo(own))
		Expect(m.Service(recorded("c", "", "mail"))).To(BeIdenticalTo(other))
		Expect(m.Service(recorded("a", "", "none"))).To(BeNil())
	})
})

var _ = Describe("the OpenTofu that reads the states of a missing pak", func() {
	It("is the newest of all paks, and paks without OpenTofu are older than all others", func() {
		pak := func(versions ...string) *brokerpak.Pak {
			p := &brokerpak.Pak{Manifest: brokerpak.Manifest{Name: "other"}}
			for _, version := range versions {
				p.Manifest.Binaries = append(p.Manifest.Binaries, brokerpak.Binary{Name: "tofu", Version: version})
			}
			return p
		}
		none := pak()
		Expect(lifecycle.TofuFor([]*brokerpak.Pak{none, pak("1.9.0")}, "missing", "1")).To(Equal("1.9.0"))
		Expect(lifecycle.TofuFor([]*brokerpak.Pak{pak("1.9.0"), none, pak("1.10.10")}, "missing", "1")).
			To(Equal("1.10.10"))
		Expect(lifecycle.TofuFor([]*brokerpak.Pak{none}, "missing", "1")).To(BeEmpty())
	})
})

var _ = Describe("a provider that the recorded pak lacks", func() {
	It("is taken from another pak, in the newest version if none has the recorded one, "+
		"unless an unreadable pak may contain it", func(ctx context.Context) {
		provider := func(version string) opentofu.Provider {
			return opentofu.Provider{FQN: "registry.opentofu.org/hashicorp/random", Version: version}
		}
		m := &lifecycle.Manager{
			Paks: []*brokerpak.Pak{{}},
			Installation: func(context.Context, *brokerpak.Pak, string) (opentofu.Installation, error) {
				other := opentofu.Provider{FQN: "registry.opentofu.org/hashicorp/null", Version: "1.0.0"}
				return opentofu.Installation{
					Providers: []opentofu.Provider{other, provider("1.5.0"), other, provider("2.0.0")},
				}, nil
			},
		}
		recorded := func(version string) *lifecycle.StateRecord {
			return &lifecycle.StateRecord{Source: lifecycle.Source{Providers: []opentofu.Provider{provider(version)}}}
		}
		var installation opentofu.Installation
		Expect(m.AddRecorded(ctx, &installation, recorded("1.0.0"))).To(Succeed())
		Expect(installation.Providers).To(ConsistOf(provider("2.0.0")))

		installation, m.Unreadable = opentofu.Installation{}, errors.New("the other pak is cut off")
		Expect(m.AddRecorded(ctx, &installation, recorded("1.0.0"))).To(MatchError(m.Unreadable))
		Expect(installation.Providers).To(BeEmpty())
		Expect(m.AddRecorded(ctx, &installation, recorded("2.0.0"))).To(Succeed())
	})
})

var _ = Describe("the PATH of a recorded template", func() {
	It("has the recorded pak first, "+
		"and then the other paks in the order of the configuration", func(ctx context.Context) {
		pak := func(version string, binaries ...string) *brokerpak.Pak {
			p := &brokerpak.Pak{Manifest: brokerpak.Manifest{Name: "mail", Version: version}}
			for _, name := range append(binaries, "tofu") {
				p.Manifest.Binaries = append(p.Manifest.Binaries, brokerpak.Binary{Name: name, Version: "1.12.6"})
			}
			return p
		}
		var opened []string
		m := &lifecycle.Manager{
			Paks: []*brokerpak.Pak{
				pak("4", "tool"), pak("3"), pak("2", "tool"), pak("broken", "tool"), pak("1", "tool"),
			},
			Logger: slog.New(slog.DiscardHandler),
			Installation: func(_ context.Context, p *brokerpak.Pak, _ string) (opentofu.Installation, error) {
				opened = append(opened, p.Manifest.Version)
				if p.Manifest.Version == "broken" {
					return opentofu.Installation{}, errors.New("it has no binaries")
				}
				return opentofu.Installation{Path: []string{"/" + p.Manifest.Version}}, nil
			},
		}
		record := &lifecycle.StateRecord{Source: lifecycle.Source{
			AppliedWith: lifecycle.AppliedWith{Pak: "mail", PakVersion: "1"},
		}}
		var installation opentofu.Installation
		Expect(m.AddRecorded(ctx, &installation, record)).To(Succeed())
		Expect(installation.Path).To(Equal([]string{"/1", "/4", "/2"}))
		Expect(opened).NotTo(ContainElement("3"), "a pak without other executables")

		installation = opentofu.Installation{Path: []string{"/4"}}
		Expect(m.AddRecorded(ctx, &installation, record)).To(Succeed())
		Expect(installation.Path).To(Equal([]string{"/4", "/1", "/2"}))

		record.Pak, installation = "other", opentofu.Installation{}
		Expect(m.AddRecorded(ctx, &installation, record)).To(Succeed())
		Expect(installation.Path).To(Equal([]string{"/4", "/2", "/1"}))
	})
})
