package figures_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/bench/figures"
)

// measured returns a measure with a median.
func measured(median, memory, largest float64) figures.Measure {
	m := figures.Of(median)
	m.Memory, m.Largest = memory, largest
	return m
}

// compared returns a figure with a baseline.
func compared(section, name string, median float64, against string, baseline float64,
	goal *figures.Goal,
) figures.Figure {
	base := measured(baseline, 73, 73)
	return figures.Figure{
		Section: section, Name: name, Measure: measured(median, 19, 75), Against: against, Baseline: &base, Goal: goal,
	}
}

// sample returns figures of all kinds.
func sample() []figures.Figure {
	ratio := &figures.Goal{Ratio: 1.7}
	return []figures.Figure{
		compared("manifests", "generate-manifest, small", 9.04, "an <empty> program", 4, &figures.Goal{Ratio: 1.5}),
		compared("manifests", "generate-manifest, large", 14, "an <empty> program", 9, &figures.Goal{More: 5}),
		compared("bindings", "create-binding, one & all", 170, "tofu apply", 100, ratio),
		compared("bindings", "create-binding, one & all", 170, "tofu alone", 60, nil),
		compared("bindings", "delete-binding, one & all", 120, "tofu destroy", 100, ratio),
		compared("bindings", "create-binding, encrypted", 431, "tofu apply", 100, ratio),
		{Section: "throughput", Name: "create-binding, 2 at once", Unit: "per minute", Measure: figures.Of(620.4)},
		{Section: "paks", Name: "pak build", Measure: figures.Of(11_415)},
	}
}

var _ = Describe("Of", func() {
	DescribeTable("summarises", func(values []float64, median, least, q1, q3 float64) {
		Expect(figures.Of(values...)).To(Equal(figures.Measure{
			Median: median, Min: least, Q1: q1, Q3: q3,
			Runs: len(values),
		}))
	},
		Entry("no values", nil, 0.0, 0.0, 0.0, 0.0),
		Entry("one value", []float64{7}, 7.0, 7.0, 7.0, 7.0),
		Entry("two values", []float64{9, 7}, 8.0, 7.0, 7.5, 8.5),
		Entry("an odd number of values in any order", []float64{5, 1, 4, 2, 3}, 3.0, 1.0, 2.0, 4.0),
		Entry("an even number of values", []float64{4, 1, 3, 2}, 2.5, 1.0, 1.75, 3.25),
		Entry("an outlier", []float64{1, 1, 1, 1, 1000}, 1.0, 1.0, 1.0, 1.0),
	)

	It("does not change the values", func() {
		values := []float64{3, 1, 2}
		figures.Of(values...)
		Expect(values).To(Equal([]float64{3, 1, 2}))
	})
})

var _ = Describe("Figure", func() {
	DescribeTable("reports whether the goal is met:", func(median, baseline float64, goal *figures.Goal, met bool) {
		Expect(compared("", "", median, "x", baseline, goal).Met()).To(Equal(met))
	},
		Entry("a ratio equal to the limit", 150.0, 100.0, &figures.Goal{Ratio: 1.5}, true),
		Entry("a ratio above the limit", 151.0, 100.0, &figures.Goal{Ratio: 1.5}, false),
		Entry("a difference equal to the limit", 14.0, 9.0, &figures.Goal{More: 5}, true),
		Entry("a difference above the limit", 14.1, 9.0, &figures.Goal{More: 5}, false),
		Entry("no goal", 1.0, 1.0, nil, false),
		Entry("no baseline", 1.0, 0.0, &figures.Goal{Ratio: 1.5}, false),
	)

	It("is encoded as JSON for programs", func() {
		text, err := json.Marshal(compared("bindings", "bind", 170, "tofu", 100, &figures.Goal{Ratio: 1.7}))
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(MatchJSON(`{
			"section": "bindings", "name": "bind", "median": 170, "min": 170, "q1": 170, "q3": 170, "runs": 1,
			"memory": 19, "largest_process": 75,
			"against": "tofu",
			"baseline": {"median": 100, "min": 100, "q1": 100, "q3": 100, "runs": 1, "memory": 73,
				"largest_process": 73},
			"goal": {"ratio": 1.7}
		}`))
	})
})

var _ = Describe("Table", func() {
	It("has a table for each section", func() { expectGolden("table.md", figures.Table(sample())) })

	It("has the same number of cells in each row as in the head", func() {
		for line := range strings.Lines(figures.Table(sample())) {
			if line != "\n" {
				Expect(strings.Count(line, "|")).To(Equal(9), line)
			}
		}
	})
})

var _ = Describe("Results", func() {
	var file string
	found := []figures.Figure{compared("bindings", "bind", 2, "tofu", 1, &figures.Goal{Ratio: 2})}
	wanted := []string{"one", "two"}

	BeforeEach(func() { file = filepath.Join(GinkgoT().TempDir(), "bench", "results.json") })

	load := func(of string, again bool) *figures.Results {
		GinkgoHelper()
		results, err := figures.Load(file, of, again)
		Expect(err).NotTo(HaveOccurred())
		return results
	}

	It("continue an interrupted run", func() {
		Expect(load("program", false).Add(file, "one", found, wanted)).To(Succeed())
		results := load("program", false)
		Expect(results.Complete).To(BeFalse())
		Expect(results.Parts).To(Equal(map[string][]figures.Figure{"one": found}))
		Expect(results.Add(file, "two", nil, wanted)).To(Succeed())
		Expect(results.Complete).To(BeTrue())
	})

	It("are empty after a complete run, unless a part of it is measured again", func() {
		results := load("program", false)
		Expect(results.Add(file, "one", found, wanted)).To(Succeed())
		Expect(results.Add(file, "two", found, wanted)).To(Succeed())
		Expect(load("program", false).Parts).To(BeEmpty())
		Expect(load("program", true).Parts).To(HaveLen(2))
	})

	It("do not include those of another program", func() {
		Expect(load("program", false).Add(file, "one", found, wanted)).To(Succeed())
		Expect(load("another", true).Parts).To(BeEmpty())
	})

	DescribeTable("are empty if the file is", func(text string) {
		Expect(os.MkdirAll(filepath.Dir(file), 0o700)).To(Succeed())
		Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		Expect(load("program", true).Add(file, "one", found, wanted)).To(Succeed())
	},
		Entry("truncated", `{"of": "prog`),
		Entry("empty", ``),
		Entry("without parts", `{"of": "program"}`),
	)
})

var _ = Describe("Replace", func() {
	const examplePage = "before\n<!-- figures: begin, written by `make bench` -->\nold\n<!-- figures: end -->\nafter\n"

	It("changes only the figures, repeatedly", func() {
		once, err := figures.Replace(examplePage, "new\n")
		Expect(err).NotTo(HaveOccurred())
		Expect(once).To(Equal(strings.Replace(examplePage, "old", "new", 1)))
		Expect(figures.Replace(once, "new\n")).To(Equal(once))
	})

	It("rejects a page without the marks", func() {
		_, err := figures.Replace("before <!-- figures: end -->", "new")
		Expect(err).To(MatchError(ContainSubstring("around the figures")))
	})

	It("finds the marks in the documentation", func() {
		page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "performance.md"))
		Expect(err).NotTo(HaveOccurred())
		_, err = figures.Replace(string(page), "")
		Expect(err).NotTo(HaveOccurred())
	})
})
