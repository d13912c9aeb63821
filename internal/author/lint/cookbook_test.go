package lint_test

import (
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("docs/cookbook.md", func() {
	text, err := os.ReadFile("../../../docs/cookbook.md")
	if err != nil {
		panic(err) // while the tests are collected nothing else can fail
	}
	recipes := 0
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		files := map[string]string{}
		for _, example := range ruleExample.FindAllStringSubmatch(section, -1) {
			files[example[2]] = example[3]
		}
		if len(files) == 0 {
			continue
		}
		recipes++
		It("contains a valid pak in the recipe "+title, func() {
			found, _ := lintPak(writePak(files))
			Expect(lines(found)).To(BeEmpty())
		})
	}

	It("has fifteen recipes", func() { Expect(recipes).To(Equal(15)) })
})
