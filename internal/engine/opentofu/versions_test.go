package opentofu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/value"
)

var _ = DescribeTable("a version of OpenTofu has the defects of its range",
	func(version string, issues ...string) {
		actual := []string{}
		for _, defect := range opentofu.Defects() {
			if defect.Has(version) {
				actual = append(actual, defect.Issue)
				Expect(opentofu.Older(version, defect.Fixed)).To(BeTrue())
			}
		}
		Expect(actual).To(HaveExactElements(value.Convert(issues, func(issue string) any { return issue })...))
	},
	Entry("before the range", "1.11.11"),
	Entry("a range of one version", "1.11.12", "opentofu#4374"),
	Entry("after it", "1.11.13"),
	Entry("the first version", "1.12.0", "opentofu#4374"),
	Entry("a version without the patch number", "1.12", "opentofu#4374"),
	Entry("the last version", "1.12.4", "opentofu#4374"),
	Entry("the first version without the defect", "1.12.5"),
	Entry("not a version", "latest"),
	Entry("no version", ""),
)

var _ = It("tests no version of OpenTofu with a defect", func() {
	for _, defect := range opentofu.Defects() {
		Expect(opentofu.Tested()).To(ContainElement(defect.Fixed))
		for _, version := range opentofu.Tested() {
			Expect(defect.Has(version)).To(BeFalse(), version)
		}
	}
})
