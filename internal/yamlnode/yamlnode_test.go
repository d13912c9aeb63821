package yamlnode_test

import (
	"errors"
	"fmt"
	"io"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/yamlnode"
)

var _ = Describe("Parse", func() {
	It("gives the nodes of the library for plain texts, without it", func() {
		for _, text := range plainTexts {
			Expect(compare(text)).To(BeEmpty(), "%q", text)
			Expect(yamlnode.Fast(text)).To(BeTrue(), "%q", text)
		}
	})

	It("leaves other texts to the library", func() {
		for _, text := range otherTexts {
			Expect(compare(text)).To(BeEmpty(), "%q", text)
			Expect(yamlnode.Fast(text)).To(BeFalse(), "%q", text)
		}
	})

	It("gives the nodes of the library for every short text", func() {
		tokens := []string{"a", ": ", ":", "- ", "-", "\n", "\n ", "\n  ", " #c", "#", "|", ">", "'b'", "[", "]", "{", "}", ",", "~", "---"}
		fast := 0
		var extend func(text string, more int)
		extend = func(text string, more int) {
			if yamlnode.Fast(text) {
				fast++
				if difference := compare(text); difference != "" {
					Fail(fmt.Sprintf("%q: %s", text, difference))
				}
			}
			if more > 0 {
				for _, token := range tokens {
					extend(text+token, more-1)
				}
			}
		}
		extend("", 4)
		Expect(fast).To(BeNumerically(">", 10_000))
	})

	It("gives the nodes of the library for every byte at every place of a word of the machine", func() {
		for value := range 256 {
			for place := range 20 {
				text := "k: 'aaaaaaaaaaaaaaaaaaaa'\n"
				text = text[:4+place] + string([]byte{byte(value)}) + text[4+place:]
				Expect(compare(text)).To(BeEmpty(), "%q", text)
				Expect(yamlnode.Fast(text)).To(Equal(value == '\t' || value >= ' ' && value <= '~' && value != '\''), "%q", text)
			}
		}
	})

	It("reads every file of the examples without the library", func() {
		texts := yamlFiles(GinkgoTB(), "../../examples")
		Expect(len(texts)).To(BeNumerically(">", 10))
		for path, text := range texts {
			Expect(compare(text)).To(BeEmpty(), path)
			Expect(yamlnode.Fast(text)).To(BeTrue(), path)
		}
	})

	It("reads large templates and definitions without the library", func() {
		for _, text := range []string{largeTemplate(), largeDefinition()} {
			Expect(compare(text)).To(BeEmpty())
			Expect(yamlnode.Fast(text)).To(BeTrue())
		}
	})

	It("gives nodes whose contents can be appended to", func() {
		document, err := yamlnode.Parse("a: [b]\nc: [d]")
		Expect(err).NotTo(HaveOccurred())
		root := document.Content[0]
		first := root.Content[1]
		first.Content = append(first.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "e"})
		text, err := yaml.Marshal(document)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(Equal("a: [b, e]\nc: [d]\n"))
	})
})

var _ = DescribeTable("Decoder gives the documents one after the other",
	func(text string, documents ...string) {
		decoder := yamlnode.NewDecoder(text)
		var found []string
		for {
			document, err := decoder.Decode()
			if errors.Is(err, io.EOF) {
				break
			}
			Expect(err).NotTo(HaveOccurred())
			found = append(found, document.Content[0].Value)
		}
		Expect(found).To(Equal(documents))
	},
	Entry("one", "a", "a"),
	Entry("several", "a\n---\nb\n---\nc", "a", "b", "c"),
)
