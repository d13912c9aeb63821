package adapter_test

import (
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/operations.md", func() {
	It("has configurations that load", func() {
		found := map[string]bool{}
		for _, block := range regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$").FindAllStringSubmatch(readFile("../docs/operations.md"), -1) {
			text := strings.ReplaceAll(block[2], "\n"+block[1], "\n")
			config, err := load(strings.TrimPrefix(text, block[1]), nil)
			Expect(err).NotTo(HaveOccurred(), text)
			found[config.State.Type] = true
		}
		Expect(found).To(And(HaveKey("local"), HaveKey("pg"), HaveKey("s3")))
	})
})
