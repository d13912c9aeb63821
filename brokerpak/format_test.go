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

// The tables of docs/format.md are the keys that the decoder knows. UPDATE=1 writes them.
var _ = It("documents every key that this adapter adds", func() {
	const file = "../docs/format.md"
	written := readPage(file)
	for _, section := range value.Keys(brokerpak.AddedKeys()) {
		begin, end := "<!-- keys of "+section+" -->\n", "<!-- end -->"
		before, rest, found := strings.Cut(written, begin)
		Expect(found).To(BeTrue(), begin)
		_, after, found := strings.Cut(rest, end)
		Expect(found).To(BeTrue(), end)
		table := "| key | type | meaning |\n|---|---|---|\n"
		for _, key := range brokerpak.AddedKeys()[section] {
			table += fmt.Sprintf("| `%s` | %s | %s |\n", key.Name, key.Type, key.Meaning)
		}
		written = before + begin + table + end + after
	}
	if os.Getenv("UPDATE") != "" {
		Expect(os.WriteFile(file, []byte(written), 0o644)).To(Succeed())
	}
	Expect(readPage(file)).To(Equal(written))
})

func readPage(path string) string {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
