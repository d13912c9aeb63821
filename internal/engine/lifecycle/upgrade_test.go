package lifecycle_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
)

var _ = DescribeTable("the installed pak is older than the recorded one",
	func(version, tofu string, older bool) {
		pak := &brokerpak.Pak{Manifest: brokerpak.Manifest{
			Name: "mail", Version: version, Binaries: []brokerpak.Binary{{Name: "tofu", Version: tofu}},
		}}
		stored := &lifecycle.Stored{Entry: lifecycle.Entry{
			AppliedWith: lifecycle.AppliedWith{Pak: "mail", PakVersion: "0.2.0", Tofu: "1.10.10"},
			Condition:   lifecycle.Complete,
		}}
		found := lifecycle.OlderPak(&lifecycle.Manager{Paks: []*brokerpak.Pak{pak}}, stored)
		Expect(found != nil).To(Equal(older))
	},
	Entry("with an older version", "0.1.0", "1.10.10", true),
	Entry("with an older OpenTofu", "0.2.0", "1.6.2", true),
	Entry("but not with the same version", "0.2.0", "1.10.10", false),
	Entry("but not with a newer OpenTofu, to which it upgrades", "0.1.0", "1.12.6", false),
)
