package semantics_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
)

// rows are the recorded cases that differ, by the id of the row of docs/compatibility.md that says why.
var rows = map[string][]string{
	"mixed-maps": {
		"hil-json-map", "hil-flatten-map", "hil-details-number", "hil-details-float", "hil-details-bool-false", "hil-details-object",
		"planinput-properties-mixed", "prec-provision-context",
	},
	"values-are-not-hcl": {
		"hil-escape", "cast-nonstring-string-list", "cast-nonstring-array-list", "cast-nonstring-object-list",
		"cast-nonstring-none-list", "cast-nonstring-none-map", "planinput-hil-text", "val-default-literal-dollar-brace",
		"val-default-list-with-hil", "life-hcl-bad-template",
	},
	"exact-integers": {
		"hil-param-big-int", "hil-scalar-details-s", "hil-scalar-details-neg", "hil-scalar-details-half", "hil-scalar-details-ml",
		"hil-scalar-details-f-as-number", "hil-scalar-details-b-as-string", "hil-scalar-details-ternary", "hil-scalar-details-eq",
		"hil-scalar-details-eq-true", "cast-number-s-max", "val-big-number",
	},
	"expression-syntax":      {"hil-index-list", "hil-syntax-error", "hil-syntax-error-2", "hil-exp-literal"},
	"truncate-characters":    {"hil-truncate-utf8-whole"},
	"config-scalars":         {"hil-config-non-string"},
	"originating-identity":   {"hil-request-originating-identity"},
	"schema-keywords":        {"val-con-const-bad", "val-con-propertyNames-bad"},
	"optional-plan-inputs":   {"planinput-missing", "planinput-missing-with-user-input"},
	"unreadable-defaults":    {"prec-bind-env-bad-json"},
	"parameters-are-checked": {"val-noval-plan-property"},
	"plan-of-the-instance":   {"life-bind-other-plan"},
}

// leftOut are operations of the recorded cases of which an adapter never hears.
var leftOut = map[string]string{
	"get_instance": "the broker answers it from its own records",
	"get_binding":  "the broker answers it from its own records",
	"deprovision":  "the broker deletes the deployment without the adapter",
	"bind":         "only after a provision that failed: the broker binds to no such instance",
}

// rowOf returns the row that covers a case, "" when it must be equal.
func rowOf(id string) string {
	for row, cases := range rows {
		if slices.Contains(cases, id) {
			return row
		}
	}
	return ""
}

// documentedRow is a row of the tables of docs/compatibility.md whose first cell is a code span.
var documentedRow = regexp.MustCompile("(?m)^\\| `([a-z0-9-]+)` \\| (.+) \\|$")

// documentedRows returns the cells of the rows after the id.
func documentedRows() map[string][]string {
	found := map[string][]string{}
	for _, match := range documentedRow.FindAllStringSubmatch(compatibility(), -1) {
		Expect(found).NotTo(HaveKey(match[1]))
		found[match[1]] = strings.Split(match[2], " | ")
	}
	return found
}

func compatibility() string {
	text, err := os.ReadFile(repository("docs", "compatibility.md"))
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// countTable is how the cases of each group ended, as a Markdown table.
func countTable(cases []recorded) string {
	type count struct{ all, equal, different, leftOut int }
	var groups []string
	counts := map[string]*count{}
	for _, c := range cases {
		if counts[c.Group] == nil {
			groups = append(groups, c.Group)
			counts[c.Group] = &count{}
		}
		n, v := counts[c.Group], verdicts[c.ID]
		n.all++
		n.leftOut += len(v.leftOut)
		if len(v.differences) == 0 {
			n.equal++
		} else {
			n.different++
		}
	}
	slices.Sort(groups)
	var table strings.Builder
	table.WriteString("| group | cases | equal | different | steps left out |\n|---|---|---|---|---|\n")
	var total count
	for _, group := range groups {
		n := counts[group]
		fmt.Fprintf(&table, "| %s | %d | %d | %d | %d |\n", group, n.all, n.equal, n.different, n.leftOut)
		total = count{total.all + n.all, total.equal + n.equal, total.different + n.different, total.leftOut + n.leftOut}
	}
	fmt.Fprintf(&table, "| all | %d | %d | %d | %d |\n", total.all, total.equal, total.different, total.leftOut)
	return table.String()
}
