package brokerpak_test

import (
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/value"
)

// The tables in docs/format.md are generated from the decoder's keys. Run the test with UPDATE=1 to write them.
var _ = It("documents the keys that this adapter adds, and those of inputs", func() {
	const file = "../docs/format.md"
	page := readPage(file)
	for _, section := range value.Keys(brokerpak.DocumentedKeys()) {
		begin, end := "<!-- keys of "+section+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(page, begin)
		Expect(ok).To(BeTrue(), begin)
		_, after, ok := strings.Cut(rest, end)
		Expect(ok).To(BeTrue(), end)
		table := "| key | type | meaning |\n|---|---|---|\n"
		for _, key := range brokerpak.DocumentedKeys()[section] {
			table += fmt.Sprintf("| `%s` | %s | %s |\n", key.Name, key.Type, key.Meaning)
		}
		page = before + begin + table + end + after
	}
	if os.Getenv("UPDATE") != "" {
		Expect(os.WriteFile(file, []byte(page), 0o644)).To(Succeed())
	}
	Expect(readPage(file)).To(Equal(page))
})

// readPage returns the content of a file.
func readPage(path string) string {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
