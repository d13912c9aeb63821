package brokerpak_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

var _ = DescribeTable("the tree of a document", func(text string, usable bool, message string) {
	document := brokerpak.Document{Text: text, Pos: diag.Pos{File: "template.yml", Line: 11, Column: 1}, Indent: 4}
	tree, diags := document.Tree()
	if usable {
		Expect(tree).NotTo(BeNil())
	} else {
		Expect(tree).To(BeNil())
	}
	if message == "" {
		Expect(diags.Err()).NotTo(HaveOccurred())
	} else {
		Expect(diags.Err()).To(MatchError(ContainSubstring(message)))
	}
	Expect(document.CheckYAML().All()).To(Equal(diags.All()))
},
	Entry("is returned for a valid text", "a: b\n", true, ""),
	Entry("is returned with an error for an ambiguous scalar", "a: b\nc: yes\n", true,
		`template.yml:12:8: yes means different things`),
	Entry("is returned with an error for a duplicate key", "a: b\na: c\n", true,
		`template.yml:12:5: key "a" is set twice`),
	Entry("is returned for a text with anchors", "a: &b c\nd: *b\n", true, ""),
	Entry("is nil if the text is not YAML", "a: b\nc: [\n", false, "template.yml:12:4: not valid YAML"),
	Entry("is nil if the text is empty", "# nothing\n", false,
		"template.yml:11:1: not valid YAML: the document is empty"),
	Entry("is nil if the text has two documents", "a\n---\nb\n", false, "only one YAML document is allowed"),
)
