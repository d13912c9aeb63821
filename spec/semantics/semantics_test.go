package semantics_test

import (
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

var _ = Describe("a case", func() {
	for n, c := range mustRead(func() []recorded {
		answers = readAnswers()
		return append(readRecorded(), readDecisions()...)
	}) {
		It(c.ID, Label(c.Group), kit.SlowIf(isSlow(n)), func() {
			expected, err := c.expectations()
			Expect(err).NotTo(HaveOccurred())
			Expect(outcomes[c.ID]).To(HaveLen(len(c.Steps)), "the case was not played to its end")
			for number, got := range outcomes[c.ID] {
				Expect(expected[number].difference(got)).To(BeEmpty(), "%s\nstep %d, %s", c.Note, number,
					c.Steps[number].Op)
			}
			for number := range answers[c.ID].Steps {
				Expect(number).To(BeNumerically("<", len(c.Steps)), "the case has no such step")
				was, err := c.expectation(number)
				Expect(err).NotTo(HaveOccurred())
				Expect(was.difference(outcomes[c.ID][number])).NotTo(BeEmpty(),
					"step %d no longer differs: remove its answer", number)
			}
		})
	}
})

var _ = Describe(wholeSuite, func() {
	It("has a row for each difference, and no other rows", func() {
		known := map[string]bool{}
		for _, a := range answers {
			if a.Row != "" {
				known[a.Row] = true
			}
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

	It("answers only existing cases", kit.Slow(), func() {
		Expect(slices.Collect(maps.Keys(outcomes))).To(ContainElements(slices.Collect(maps.Keys(answers))))
	})

	It("lists the omitted operations", func() {
		for _, c := range readRecorded() {
			for number, ended := range outcomes[c.ID] {
				if ended.leftOut {
					Expect(leftOut).To(HaveKey(c.Steps[number].Op), c.ID)
				}
			}
		}
		for operation := range leftOut {
			Expect(compatibility()).To(ContainSubstring("`" + operation + "`"))
		}
	})

	It("has the current numbers of cases", kit.Slow(), func() {
		table := countTable(slices.DeleteFunc(readRecorded(), func(c recorded) bool { return c.file != published }))
		AddReportEntry("recorded cases", table)
		Expect(compatibility()).To(ContainSubstring(table))
	})
})

// mustRead reads cases while the specs are declared, and panics if an assertion fails then.
func mustRead(read func() []recorded) (cases []recorded) {
	if failure := InterceptGomegaFailure(func() { cases = read() }); failure != nil {
		panic(failure)
	}
	return cases
}
