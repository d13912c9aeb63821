package semantics_test

import (
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var _ = Describe("a recorded case", func() {
	for _, c := range mustRead(readRecorded) {
		It(c.ID, Label(c.Group), func() {
			differences := verdicts[c.ID].differences
			if row := rowOf(c.ID); row != "" {
				Expect(differences).NotTo(BeEmpty(), "it does not differ any more: take it out of row %q", row)
				return
			}
			Expect(differences).To(BeEmpty(), "%s %s", c.Note, strings.Join(differences, "\n"))
		})
	}
})

var _ = Describe("a decision", func() {
	for _, c := range mustRead(readDecisions) {
		It(c.ID, func() {
			Expect(verdicts[c.ID].differences).To(BeEmpty())
		})
	}
})

var _ = Describe("docs/compatibility.md", func() {
	It("has a row for each difference, and no others", func() {
		known := map[string]bool{}
		for row := range rows {
			known[row] = true
		}
		for _, c := range readDecisions() {
			known[strings.TrimPrefix(c.ID, "decision-")] = true
		}
		documented := documentedRows()
		Expect(slices.Collect(maps.Keys(documented))).To(ConsistOf(slices.Collect(maps.Keys(known))))
		for row, cells := range documented {
			Expect(cells).To(HaveLen(3), row)
			Expect(cells).NotTo(ContainElement(MatchRegexp(`^\s*$`)), row)
		}
	})

	It("names only cases that there are", func() {
		for row, cases := range rows {
			for _, id := range cases {
				Expect(verdicts).To(HaveKey(id), row)
			}
		}
	})

	It("tells what is left out", func() {
		for id, v := range verdicts {
			for _, operation := range v.leftOut {
				Expect(leftOut).To(HaveKey(operation), id)
			}
		}
		for operation := range leftOut {
			Expect(compatibility()).To(ContainSubstring("`" + operation + "`"))
		}
	})

	It("counts the cases", func() {
		table := countTable(readRecorded())
		AddReportEntry("recorded cases", table)
		Expect(compatibility()).To(ContainSubstring(table))
	})
})

// mustRead reads cases while the specs are declared, when no assertion may fail.
func mustRead(read func() []recorded) (cases []recorded) {
	if failure := InterceptGomegaFailure(func() { cases = read() }); failure != nil {
		panic(failure)
	}
	return cases
}
