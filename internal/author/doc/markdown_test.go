package doc_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/author/doc"
)

var _ = Describe("the Markdown reference", func() {
	DescribeTable("equals its golden file", func(path, name string) {
		text, err := doc.Markdown(openPak(path))
		Expect(err).NotTo(HaveOccurred())
		expectGolden(name+".md", text)
		Expect(doc.Markdown(openPak(path))).To(Equal(text))
	},
		Entry("for the pak with everything", everything, "everything"),
		Entry("for redis", parityPak(), "redis"),
		Entry("for the specification's example", example("example-email"), "example-email"),
	)

	It("has no commands for bindings of a service without a bind section", func() {
		dir := filepath.Join(GinkgoT().TempDir(), "pak")
		Expect(os.CopyFS(dir, os.DirFS(everything))).To(Succeed())
		file := filepath.Join(dir, "minimal.yml")
		definition, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		definition, _, found := bytes.Cut(definition, []byte("\nbind:"))
		Expect(found).To(BeTrue())
		Expect(os.WriteFile(file, append(definition, '\n'), 0o600)).To(Succeed())
		text, err := doc.Markdown(openPak(dir))
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(MatchRegexp(`cf create-service minimal PLAN my-minimal .*\n` + "```"))
		Expect(text).To(ContainSubstring("cf service my-minimal"))
		Expect(text).To(ContainSubstring("cf delete-service my-minimal"))
		Expect(text).NotTo(MatchRegexp("cf (bind-service|create-service-key|unbind-service) .*my-minimal"))
	})

	It("prefers the properties of a plan to its overrides, as a request does", func() {
		pak := openPak(example("redis"))
		plan := &pak.Services[0].Plans[0]
		plan.Properties = map[string]any{"max_clients": int64(7)}
		plan.ProvisionOverrides = map[string]any{"max_clients": int64(8), "persistent": true}
		text, err := doc.Markdown(pak)
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(ContainSubstring("- sets `max_clients` to `7`\n- sets `persistent` to `true`"))
	})

	It("has tables of even width and no markup of the pak", func() {
		text, err := doc.Markdown(openPak(everything))
		Expect(err).NotTo(HaveOccurred())
		expectSound(text)
		Expect(text).To(ContainSubstring(`\*marks\* that \<b\>must\</b\> not`))
		Expect(text).To(ContainSubstring("`^[a-z_](\\w\\|-)*$`"), "a bar within code within a table")
		Expect(text).To(ContainSubstring(`| **Required.**<br>1\. A name that looks like a list |`))
	})
})

var (
	codeOrEscape = regexp.MustCompile("(?s)```.*?```|``.*?``|`[^`]*`|\\\\.")
	ownTags      = strings.NewReplacer("<br>", "")
	autolink     = regexp.MustCompile(`<[a-z]+:[^<>\s]*>`)
)

// expectSound asserts that unsound finds no defect in a Markdown text.
func expectSound(text string) {
	GinkgoHelper()
	Expect(unsound(text)).To(BeEmpty())
}

// unsound returns a description of the first defect of a reference: an element of HTML, or a row of a table with a
// wrong number of cells. It returns "" if there is none.
func unsound(text string) string {
	outside := autolink.ReplaceAllString(ownTags.Replace(codeOrEscape.ReplaceAllString(text, "")), "")
	if at := strings.IndexAny(outside, "<>"); at >= 0 {
		return "markup: " + outside[max(0, at-20):min(len(outside), at+20)]
	}
	width := 0
	for _, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "| ") {
			width = 0
			continue
		}
		bars := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if width != 0 && bars != width {
			return "row: " + line
		}
		width = bars
	}
	return ""
}

var _ = Describe("Stale", func() {
	DescribeTable("reports the first line that differs", func(written, current, want string) {
		Expect(doc.Stale(written, current)).To(Equal(want))
	},
		Entry("\"\" for equal texts", "a\nb\n", "a\nb\n", ""),
		Entry("\"\" for other line ends", "a\r\nb\r\n", "a\nb\n", ""),
		Entry("of a changed line", "a\nb\n", "a\nc\n", "it differs from line 2 on\n  - b\n  + c"),
		Entry("of a missing line", "a\n", "a\nb\n", "it differs from line 2 on\n  - (the end)\n  + b"),
		Entry("of a line too many", "a\nb\n", "a\n", "it differs from line 2 on\n  - b\n  + (the end)"),
		Entry("of a missing final newline", "a", "a\n", "it differs from line 2 on\n  - (the end)\n  + (the end)"),
		Entry("a part of a long line", "a\n", strings.Repeat("x", 200)+"\n",
			"it differs from line 1 on\n  - a\n  + "+strings.Repeat("x", 100)+"…"),
	)
})
