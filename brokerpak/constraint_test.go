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
	Entry("a development version lies between", "> 0, < 1", "0+dev.4", true),
	Entry("a commit is no part of a version", "<= 0.1+dev.8", "0.1+dev.8-fa37909", true),
	Entry("nor of a constraint's", ">= 0.1+dev.8-fa37909", "0.1+dev.8", true),
	Entry("a pre-release is older", ">= 2.0", "2.0-rc.1", false),
)

var _ = DescribeTable("what is no version constraint", func(constraint, message string) {
	_, err := brokerpak.ParseConstraint(constraint)
	Expect(err).To(MatchError(message))
},
	Entry(nil, "", `constraint "" must have the form ">= 4.1, < 6"`),
	Entry(nil, ">= 1,", `constraint ">= 1," must have the form ">= 4.1, < 6"`),
	Entry(nil, ">= 1 < 2", `constraint ">= 1 < 2" must have the form ">= 4.1, < 6"`),
	Entry(nil, "~> 1", `constraint "~> 1" must have the form ">= 4.1, < 6"`),
	Entry(nil, ">", `constraint ">" names ">", which is no version`),
	Entry(nil, "=>1", `constraint "=>1" names ">1", which is no version`),
	Entry(nil, ">= 1.x!", `constraint ">= 1.x!" names "1.x!", which is no version`),
)

var _ = It("does not match what is no version", func() {
	conditions, err := brokerpak.ParseConstraint("> 1")
	Expect(err).NotTo(HaveOccurred())
	_, err = conditions.Match("a b")
	Expect(err).To(MatchError(`"a b" is not a version`))
})

// The first 26 rows are those of a hand-written adapter's test of its upgrade rule.
var _ = DescribeTable("comparing versions", func(from, to string, downgrade bool) {
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
	Entry("commits have no order", "0.1+dev.8-fa37909", "0.1+dev.8-0000000", false),
	Entry("commits do not count", "0.1+dev.8-fa37909", "0.1+dev.7-ffffff0", true),
)

var _ = DescribeTable("comparing what is no version", func(a, b string) {
	_, err := brokerpak.CompareVersions(a, b)
	Expect(err).To(MatchError(`"x y" is not a version`))
},
	Entry(nil, "x y", "1"),
	Entry(nil, "1", "x y"),
)
