package config_test

import (
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit/site"
)

// allowedKeys returns the keys of a part of the configuration, which the message for an unknown key lists.
func allowedKeys(text string) []string {
	GinkgoHelper()
	_, err := load(text, nil)
	Expect(err).To(HaveOccurred())
	_, list, found := strings.Cut(err.Error(), "; allowed: ")
	Expect(found).To(BeTrue(), err.Error())
	return strings.Split(strings.Split(list, "\n")[0], ", ")
}

var _ = Describe("docs/configuration.md", func() {
	DescribeTable("describes all keys and no others",
		func(heading, text string) {
			_, section, found := strings.Cut(site.ReadFile("../../docs/configuration.md"), "\n"+heading+"\n")
			Expect(found).To(BeTrue())
			section = regexp.MustCompile(`(?m)^#`).Split(section, 2)[0]
			documented := []string{}
			for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
				documented = append(documented, row[1])
			}
			Expect(documented).To(Equal(allowedKeys(text)))
		},
		Entry("at the top", "## Keys", "qqqqqqqq: 1"),
		Entry("of the state", "### State", "state: {qqqqqqqq: 1}"),
		Entry("of the state encryption", "### State encryption", "state: {encryption: {qqqqqqqq: 1}}"),
		Entry("of a service", "### Services", "services: {x: {qqqqqqqq: 1}}"),
	)

	It("names the variable of every key", func() {
		text := site.ReadFile("../../docs/configuration.md")
		for _, key := range allowedKeys("qqqqqqqq: 1") {
			if key != "config" {
				Expect(text).To(MatchRegexp("(?m)^\\| `" + key + "` .*`SERVICE_ADAPTER_" + strings.ToUpper(key) + "="))
			}
		}
	})

	It("has an example that loads", func() {
		text := site.ReadFile("../../docs/configuration.md")
		blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllStringSubmatch(text, -1)
		Expect(blocks).NotTo(BeEmpty())
		for _, block := range blocks {
			_, err := load(block[1], nil)
			Expect(err).NotTo(HaveOccurred())
		}
	})
})
