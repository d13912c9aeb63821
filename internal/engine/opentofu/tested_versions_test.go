package opentofu_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/opentofu"
)

var _ = DescribeTable("a version of OpenTofu is tested if it is between the oldest and the newest one of the tests",
	func(version string, tested bool) {
		Expect(opentofu.Installation{Version: version}.Tested()).To(Equal(tested))
	},
	Entry("older than the oldest", "1.6.1", false),
	Entry("the oldest", "1.6.2", true),
	Entry("between the oldest and the newest", "1.8.3", true),
	Entry("a minor release before the newest", "1.11.0", true),
	Entry("the newest", "1.12.6", true),
	Entry("a later patch release of the newest", "1.12.99", true),
	Entry("the next minor release", "1.13.0", false),
	Entry("the next major release", "2.0.0", false),
	Entry("not a version", "newest", false),
)
