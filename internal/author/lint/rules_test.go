package lint_test

import (
	"os"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/author/lint"
	"service-adapter/internal/author/release"
	"service-adapter/internal/diag"
)

var (
	ruleSection = regexp.MustCompile(`(?m)^## (.*)$`)
	ruleExample = regexp.MustCompile("(?ms)^```[a-z]+ (bad|good|release) (\\S+)\n(.*?)^```$")
)

// documented is a section of docs/rules.md.
type documented struct {
	name      string
	bad, good map[string]string
	releases  map[string]string // the files of releases, whose directories have the names of the releases
}

func documentedRules() []documented {
	text, err := os.ReadFile("../../../docs/rules.md")
	if err != nil {
		panic(err) // while the tests are collected nothing else can fail
	}
	var rules []documented
	starts := ruleSection.FindAllStringSubmatchIndex(string(text), -1)
	for i, start := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		rule := documented{name: string(text[start[2]:start[3]]), bad: map[string]string{}, good: map[string]string{}}
		rule.releases = map[string]string{}
		for _, example := range ruleExample.FindAllStringSubmatch(string(text[start[0]:end]), -1) {
			kinds := map[string]map[string]string{"bad": rule.bad, "good": rule.good, "release": rule.releases}
			kinds[example[1]][example[2]] = example[3]
		}
		rules = append(rules, rule)
	}
	return rules
}

var _ = Describe("docs/rules.md", func() {
	severities := map[string]string{}
	for _, rule := range lint.Rules() {
		severities[rule.Name] = rule.Severity
	}

	It("states the severity and the requirement of each rule, and sorts the rules", func() {
		var names []string
		for _, rule := range lint.Rules() {
			names = append(names, rule.Name)
			Expect(rule.Severity).To(BeElementOf("error", "warning", "both"), rule.Name)
			Expect(rule.Summary).To(MatchRegexp(`^[^\n]{5,90}$`), rule.Name)
		}
		Expect(slices.IsSorted(names)).To(BeTrue())
		for _, rule := range documentedRules() {
			Expect(names).To(ContainElement(rule.name))
		}
	})

	It("describes every rule that the code reports", func() {
		reported := map[string]string{}
		for _, directory := range []string{
			"brokerpak", "manifestgen", "schemas", "internal/hclfile",
			"internal/author/lint",
		} {
			found, err := rulesInSource("../../../" + directory)
			Expect(err).NotTo(HaveOccurred())
			for rule, file := range found {
				reported[rule] = file
			}
		}
		Expect(len(reported)).To(BeNumerically(">", 50))
		for rule, file := range reported {
			Expect(severities).To(HaveKey(rule), "reported in "+file)
		}
	})

	for _, rule := range documentedRules() {
		It("describes correctly the rule "+rule.name, func() {
			Expect(rule.bad).NotTo(BeEmpty())
			Expect(rule.good).NotTo(BeEmpty())
			releases := writeReleases(rule.releases)
			findings := lintExcerpt
			if rule.name == "unused" || rule.name == "unpinned" {
				findings = func(files map[string]string, _ ...*release.Release) []diag.Diagnostic {
					found, _ := lintPak(writePak(files))
					if rule.name == "unpinned" {
						found, _ = lintAll(writePak(files))
					}
					return found
				}
			}
			found := findings(rule.bad, releases...)
			Expect(found).NotTo(BeEmpty())
			for _, item := range found {
				Expect(item.Rule).To(Equal(rule.name), item.String())
				Expect(item.Pos.Line).To(BeNumerically(">", 0), item.String())
				if severity := severities[rule.name]; severity != "both" {
					Expect(item.Severity.String()).To(Equal(severity), item.String())
				}
			}
			Expect(lines(findings(rule.good, releases...))).To(BeEmpty())
		})
	}

	It("uses a base pak without findings", func() {
		found, report := lintPak(writePak(nil))
		Expect(lines(found)).To(BeEmpty())
		Expect(report.Files).To(Equal(3))
		Expect(report.Notes).To(ConsistOf(ContainSubstring("no bin/")))
	})
})

// messages keeps what each documented example gives.
var _ = Describe("Messages", func() {
	It("equal those in testdata/messages.txt", func() {
		var all strings.Builder
		for _, rule := range documentedRules() {
			found, _ := lintPak(writePak(rule.bad), writeReleases(rule.releases)...)
			found = slices.DeleteFunc(found, func(item diag.Diagnostic) bool {
				return item.Rule == "unused" && rule.name != "unused"
			})
			for _, line := range lines(found) {
				all.WriteString(line + "\n")
			}
		}
		const golden = "testdata/messages.txt"
		if os.Getenv("UPDATE") != "" {
			Expect(os.WriteFile(golden, []byte(all.String()), 0o600)).To(Succeed())
		}
		want, err := os.ReadFile(golden)
		Expect(err).NotTo(HaveOccurred())
		Expect(all.String()).To(Equal(string(want)))
	})
})
