package config_test

import (
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit/site"
)

var _ = Describe("the pages in docs/operations", func() {
	It("contain only configurations that load", func() {
		pages, err := filepath.Glob("../../docs/operations/*.md")
		Expect(err).NotTo(HaveOccurred())
		found := map[string]bool{}
		yamlBlock := regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")
		for _, page := range pages {
			for _, block := range yamlBlock.FindAllStringSubmatch(site.ReadFile(page), -1) {
				text := strings.ReplaceAll(block[2], "\n"+block[1], "\n")
				config, err := load(strings.TrimPrefix(text, block[1]), nil)
				Expect(err).NotTo(HaveOccurred(), page, text)
				found[config.State.Type] = true
			}
		}
		Expect(found).To(And(HaveKey("local"), HaveKey("pg"), HaveKey("s3")))
	})
})
