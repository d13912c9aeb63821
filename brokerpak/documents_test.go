package brokerpak_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

var _ = DescribeTable("the tree of a document", func(text string, usable bool, message string) {
	document := brokerpak.Document{Text: text, Pos: diag.Pos{File: "template.yml", Line: 11, Column: 1}, Indent: 4}
	tree, found := document.Tree()
	if usable {
		Expect(tree).NotTo(BeNil())
	} else {
		Expect(tree).To(BeNil())
	}
	if message == "" {
		Expect(found.Err()).NotTo(HaveOccurred())
	} else {
		Expect(found.Err()).To(MatchError(ContainSubstring(message)))
	}
	Expect(document.CheckYAML().All()).To(Equal(found.All()))
},
	Entry("is there with nothing to report", "a: b\n", true, ""),
	Entry("is there with what readers disagree about", "a: b\nc: yes\n", true, `template.yml:12:8: yes means different things`),
	Entry("is there with a key twice", "a: b\na: c\n", true, `template.yml:12:5: key "a" is there twice`),
	Entry("is there with anchors", "a: &b c\nd: *b\n", true, ""),
	Entry("is missing where the text is no YAML", "a: b\nc: [\n", false, "template.yml:12:4: not valid YAML"),
	Entry("is missing where the text is empty", "# nothing\n", false, "template.yml:11:1: not valid YAML: the document is empty"),
	Entry("is missing where there are two", "a\n---\nb\n", false, "only one YAML document is allowed"),
)
