package record_test

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/record"
)

var _ = DescribeTable("an intent in another format is rejected", func(format, message string) {
	text := record.Intent{Instance: record.Instance{InstanceID: "i1", Service: "db"}}.Encode()
	Expect(text).To(ContainSubstring(`"format":1,`))
	_, err := record.DecodeIntent(strings.Replace(text, `"format":1,`, format, 1))
	Expect(err).To(MatchError(message))
},
	Entry("a newer one", `"format":2,`,
		"reading the intent: format 2 is not supported; a newer adapter may have written it"),
	Entry("no format", "", "reading the intent: format 0 is not supported; a newer adapter may have written it"),
)
