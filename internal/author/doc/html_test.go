package doc_test

import (
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/html"

	"service-adapter/internal/author/doc"
)

// writePage writes the page of a pak, changed a little where a test needs it, into a file of its own.
func writePage(path string, change func(string) string) string {
	GinkgoHelper()
	text, err := doc.HTML(openPak(path))
	Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(GinkgoT().TempDir(), "page.html")
	Expect(os.WriteFile(file, []byte(change(text)), 0o600)).To(Succeed())
	return file
}

func same(text string) string { return text }

// elements calls visit for every element of a page.
func elements(text string, visit func(node *html.Node)) error {
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return err
	}
	for node := range root.Descendants() {
		if node.Type == html.ElementNode {
			visit(node)
		}
	}
	return nil
}

var _ = Describe("the HTML page", func() {
	It("equals its golden file, for a pak that uses every feature", func() {
		text, err := doc.HTML(openPak(everything))
		Expect(err).NotTo(HaveOccurred())
		expectGolden("everything.html", text)
		again, err := doc.HTML(openPak(everything))
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(Equal(text))
	})

	It("has no script and no external resource, and every internal link has a target", func() {
		text, err := doc.HTML(openPak(everything))
		Expect(err).NotTo(HaveOccurred())
		ids, targets := map[string]bool{}, []string{}
		Expect(elements(text, func(node *html.Node) {
			Expect(node.Data).NotTo(BeElementOf("script", "iframe", "object", "embed", "form", "base", "b"))
			for _, attribute := range node.Attr {
				Expect(attribute.Key).NotTo(HavePrefix("on"))
				target, within := strings.CutPrefix(attribute.Val, "#")
				switch {
				case attribute.Key == "id":
					Expect(ids).NotTo(HaveKey(attribute.Val))
					ids[attribute.Val] = true
				case attribute.Key == "href" && within:
					targets = append(targets, target)
				case attribute.Key == "href" && node.Data == "a":
					Expect(attribute.Val).To(MatchRegexp("^(https?://|mailto:)"))
				case attribute.Key == "href", attribute.Key == "src":
					Expect(attribute.Val).To(HavePrefix("data:"), node.Data)
				}
			}
		})).To(Succeed())
		Expect(targets).NotTo(BeEmpty())
		for _, target := range targets {
			Expect(ids).To(HaveKey(target))
		}
		Expect(text).To(ContainSubstring("alert(1)&lt;/script&gt;"), "the tag is there, as a text")
		Expect(text).NotTo(ContainSubstring("javascript:"))
	})
})

var _ = Describe("the HTML page in Chromium", Ordered, func() {
	var b *browser

	BeforeAll(func() { b = startBrowser() })

	DescribeTable("has no console error, makes no request, and fits the window", func(path, name string) {
		file := writePage(path, same)
		for width, size := range map[int]string{400: "narrow", 1200: "wide"} {
			page := b.open(file, width)
			Expect(page.number("window.innerWidth")).To(BeNumerically("==", width))
			Expect(page.number("document.documentElement.scrollWidth")).To(BeNumerically("<=", width))
			Expect(page.number(smallest)).To(BeNumerically(">=", 12), "pixels of the smallest letters")
			page.screenshot(name + "-" + size)
			page.prefer("prefers-color-scheme", "dark")
			page.screenshot(name + "-" + size + "-dark")
		}
		problems, addresses := b.take()
		Expect(problems).To(BeEmpty())
		Expect(addresses).NotTo(BeEmpty())
		for _, address := range addresses {
			Expect(address).To(Or(Equal("file://"+file), HavePrefix("data:")))
		}
	},
		Entry("with everything", everything, "everything"),
		Entry("redis", parityPak(), "redis"),
	)

	It("fails the test above if it contains a script or an external resource", func() {
		b.open(writePage(everything, func(text string) string {
			return strings.Replace(text, "<main>", `<main><script>1</script><img src="http://127.0.0.1:1/x.png">`, 1)
		}), 400)
		var all []string
		Eventually(func() []string {
			problems, _ := b.take()
			all = append(all, problems...)
			return all
		}).Should(ContainElements(ContainSubstring("script-src"), ContainSubstring("img-src")))
	})

	It("fails the test above if it is too wide", func() {
		file := writePage(everything, func(text string) string {
			return strings.Replace(text, "<main>", `<main><div style="width: 600px">wide</div>`, 1)
		})
		Expect(b.open(file, 400).number("document.documentElement.scrollWidth")).To(BeNumerically(">", 400))
	})
})

// smallest is the size of the smallest letters of a page.
const smallest = `Math.min(...[...document.querySelectorAll("body *")].filter(e => e.innerText).map(
	e => parseFloat(getComputedStyle(e).fontSize)))`
