package semantics_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// leftOut contains the operations of recorded cases for which the broker does not call an adapter, with the reason.
var leftOut = map[string]string{
	"get_instance": "the broker answers it from its own records",
	"get_binding":  "the broker answers it from its own records",
	"deprovision":  "the broker deletes the deployment without the adapter",
	"bind":         "only where the provision failed: the broker binds to no such instance",
	"unbind":       "only where the provision failed: nothing is bound",
}

// documentedRow matches a row of the tables of docs/compatibility.md whose first cell is a code span.
var documentedRow = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| (.+) \\|$")

// documentedRows returns the cells of the rows after the id, by id.
func documentedRows() map[string][]string {
	found := map[string][]string{}
	for _, match := range documentedRow.FindAllStringSubmatch(compatibility(), -1) {
		Expect(found).NotTo(HaveKey(match[1]))
		found[match[1]] = strings.Split(match[2], " | ")
	}
	return found
}

// compatibility returns the text of docs/compatibility.md.
func compatibility() string {
	text, err := os.ReadFile(kit.Path("docs", "compatibility.md"))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// countTable returns a Markdown table with the numbers of equal, different and omitted answers of each group of cases.
func countTable(cases []recorded) string {
	type count struct{ all, equal, different, leftOut int }
	var groups []string
	counts := map[string]*count{}
	for _, c := range cases {
		if counts[c.Group] == nil {
			groups = append(groups, c.Group)
			counts[c.Group] = &count{}
		}
		n := counts[c.Group]
		n.all++
		if answers[c.ID].Row == "" {
			n.equal++
		} else {
			n.different++
		}
		for _, ended := range outcomes[c.ID] {
			if ended.leftOut {
				n.leftOut++
			}
		}
	}
	slices.Sort(groups)
	var table strings.Builder
	table.WriteString("| group | cases | equal | different | steps left out |\n|---|---|---|---|---|\n")
	var total count
	for _, group := range groups {
		n := counts[group]
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %d |\n", group, n.all, n.equal, n.different, n.leftOut)
		total = count{
			total.all + n.all, total.equal + n.equal, total.different + n.different,
			total.leftOut + n.leftOut,
		}
	}
	fmt.Fprintf(&table, "| all | %d | %d | %d | %d |\n", total.all, total.equal, total.different, total.leftOut)
	return table.String()
}
