package paklint

import (
	"regexp"
	"strings"

	"service-adapter/docs"
)

// Rule is what a finding violates.
type Rule struct {
	// Name stands in brackets behind the finding.
	Name string
	// Severity is "error", "warning", or "both" where other brokers accept some of it.
	Severity string
	// Summary is what the rule demands, as a clause.
	Summary string
}

// Rules returns all rules, sorted by name, as docs/rules.md has them.
func Rules() []Rule {
	var all []Rule
	for _, section := range regexp.MustCompile(`(?m)^## (\S+)\n\n\*([^:*]+): ([^*]+)\.\*`).FindAllStringSubmatch(docs.Rules, -1) {
		severity := strings.ToLower(section[2])
		if strings.Contains(severity, "error") && strings.Contains(severity, "warning") {
			severity = "both"
		}
		all = append(all, Rule{Name: section[1], Severity: severity, Summary: section[3]})
	}
	return all
}
