package brokerpak_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
)

var _ = DescribeTable("a version constraint", func(constraint, version string, want bool) {
	conditions, err := brokerpak.ParseConstraint(constraint)
	Expect(err).NotTo(HaveOccurred())
	Expect(conditions.Match(version)).To(Equal(want))
},
	Entry(nil, ">= 4.1, < 6", "4.1", true),
	Entry(nil, ">= 4.1, < 6", "4.1.0", true),
	Entry(nil, ">= 4.1, < 6", "5.99", true),
	Entry(nil, ">= 4.1, < 6", "6", false),
	Entry(nil, ">= 4.1, < 6", "4.0.9", false),
	Entry(nil, ">=4.1,<6", "5", true),
	Entry(nil, "> 1.9", "1.10", true),
	Entry(nil, "> 1.9", "1.9", false),
	Entry(nil, "<= 1.9", "1.9", true),
	Entry(nil, "<= 1.9", "1.9.1", false),
	Entry(nil, "!= 5.0.1", "5.0.1", false),
	Entry(nil, "!= 5.0.1", "5.0.2", true),
	Entry(nil, "= 5", "5.0", true),
	Entry(nil, "5", "5.0.1", false),
	Entry(nil, ">= 1.100", "1.99", false),
	Entry(nil, ">= 1.100", "1.1000", true),
	Entry("orders a development version between two releases", "> 0, < 1", "0+dev.4", true),
	Entry("ignores the commit in the version", "<= 0.1+dev.8", "0.1+dev.8-fa37909", true),
	Entry("ignores the commit in the constraint", ">= 0.1+dev.8-fa37909", "0.1+dev.8", true),
	Entry("considers a pre-release older than its release", ">= 2.0", "2.0-rc.1", false),
)

var _ = DescribeTable("an invalid version constraint is rejected", func(constraint, message string) {
	_, err := brokerpak.ParseConstraint(constraint)
	Expect(err).To(MatchError(message))
},
	Entry(nil, "", `constraint "" must have the form ">= 4.1, < 6"`),
	Entry(nil, ">= 1,", `constraint ">= 1," must have the form ">= 4.1, < 6"`),
	Entry(nil, ">= 1 < 2", `constraint ">= 1 < 2" must have the form ">= 4.1, < 6"`),
	Entry(nil, "~> 1", `constraint "~> 1" must have the form ">= 4.1, < 6"`),
	Entry(nil, ">", `constraint ">" contains ">", which is not a version`),
	Entry(nil, "=>1", `constraint "=>1" contains ">1", which is not a version`),
	Entry(nil, ">= 1.x!", `constraint ">= 1.x!" contains "1.x!", which is not a version`),
)

var _ = It("returns an error if the compared text is not a version", func() {
	conditions, err := brokerpak.ParseConstraint("> 1")
	Expect(err).NotTo(HaveOccurred())
	_, err = conditions.Match("a b")
	Expect(err).To(MatchError(`"a b" is not a version`))
})

// The first 26 entries are taken from the test of a hand-written adapter, which rejects downgrades.
var _ = DescribeTable("CompareVersions detects downgrades", func(from, to string, downgrade bool) {
	comparison, err := brokerpak.CompareVersions(to, from)
	Expect(err).NotTo(HaveOccurred())
	Expect(comparison < 0).To(Equal(downgrade))
},
	Entry(nil, "3", "3", false),
	Entry(nil, "3", "4", false),
	Entry(nil, "3", "2", true),
	Entry(nil, "3.1", "3.1", false),
	Entry(nil, "3.2", "3.10", false),
	Entry(nil, "3.10", "3.2", true),
	Entry(nil, "3", "3.0", false),
	Entry(nil, "3.0", "3", false),
	Entry(nil, "3", "3.1", false),
	Entry(nil, "3.1", "3", true),
	Entry(nil, "0+dev.2", "0+dev.2", false),
	Entry(nil, "0+dev.2", "0+dev.10", false),
	Entry(nil, "0+dev.10", "0+dev.2", true),
	Entry(nil, "1.1+dev.2", "1.1+dev.2", false),
	Entry(nil, "1.1+dev.2", "1.1+dev.10", false),
	Entry(nil, "1.1+dev.10", "1.1+dev.2", true),
	Entry(nil, "1.2", "2.1", false),
	Entry(nil, "2.1", "1.2", true),
	Entry(nil, "1+dev.2", "2+dev.1", false),
	Entry(nil, "2+dev.1", "1+dev.2", true),
	Entry(nil, "0.1+dev.2", "0.2+dev.1", false),
	Entry(nil, "0.2+dev.1", "0.1+dev.2", true),
	Entry(nil, "0+dev.1", "1", false),
	Entry(nil, "1", "1+dev.1", false),
	Entry(nil, "2", "1+dev.1", true),
	Entry(nil, "latest", "latest", false),
	Entry("does not order commits", "0.1+dev.8-fa37909", "0.1+dev.8-0000000", false),
	Entry("ignores commits", "0.1+dev.8-fa37909", "0.1+dev.7-ffffff0", true),
)

var _ = DescribeTable("CompareVersions returns an error if one of the texts is not a version", func(a, b string) {
	_, err := brokerpak.CompareVersions(a, b)
	Expect(err).To(MatchError(`"x y" is not a version`))
},
	Entry(nil, "x y", "1"),
	Entry(nil, "1", "x y"),
)
