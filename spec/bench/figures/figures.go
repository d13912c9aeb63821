// Package figures calculates figures from measurements, stores them, and renders them as tables.
package figures

import (
	"fmt"
	"slices"
)

// A Measure is the distribution of the runs of one subject, in milliseconds or in the unit of its figure.
type Measure struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Q1     float64 `json:"q1"` // a quarter of the runs took less
	Q3     float64 `json:"q3"` // a quarter of the runs took more
	Runs   int     `json:"runs"`
	// Memory is the maximum resident memory of the program itself in megabytes. Largest is that of the largest process
	// among the program and its child processes. Both are medians of the runs, and 0 if they were not measured.
	Memory  float64 `json:"memory,omitempty"`
	Largest float64 `json:"largest_process,omitempty"`
}

// Of returns the distribution of values without changing them. Without values, it returns the zero Measure.
func Of(values ...float64) Measure {
	if len(values) == 0 {
		return Measure{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Measure{
		Median: quantile(sorted, 0.5), Min: sorted[0], Q1: quantile(sorted, 0.25), Q3: quantile(sorted, 0.75),
		Runs: len(sorted),
	}
}

// quantile interpolates between the two values around a position in a sorted list, as R and hyperfine do.
func quantile(sorted []float64, part float64) float64 {
	position := part * float64(len(sorted)-1)
	below := int(position)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (position-float64(below))*(sorted[above]-sorted[below])
}

// A Figure is a measured subject and its baseline. A subject with several baselines has several consecutive figures
// with the same name.
type Figure struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Unit    string `json:"unit,omitempty"` // of all values; "" for milliseconds
	Measure
	Against  string   `json:"against,omitempty"`  // the name of the baseline, "" for none
	Baseline *Measure `json:"baseline,omitempty"` // the measure of the baseline
	Goal     *Goal    `json:"goal,omitempty"`     // for the comparison with the baseline
}

// A Goal is the limit of a comparison: the maximum ratio to the baseline or, if More is set, the maximum difference
// from it in milliseconds.
type Goal struct {
	Ratio float64 `json:"ratio,omitempty"`
	More  float64 `json:"more_ms,omitempty"`
}

// Ratio returns the median divided by that of the baseline. It returns 0 without a baseline.
func (f Figure) Ratio() float64 {
	if f.Baseline == nil || f.Baseline.Median == 0 {
		return 0
	}
	return f.Median / f.Baseline.Median
}

// Met reports whether the goal is met. It returns false without a goal or a baseline.
func (f Figure) Met() bool {
	switch {
	case f.Goal == nil || f.Ratio() == 0:
		return false
	case f.Goal.More != 0:
		return f.Median-f.Baseline.Median <= f.Goal.More
	default:
		return f.Ratio() <= f.Goal.Ratio
	}
}

// goal describes the goal and whether it is met.
func (f Figure) goal() string {
	if f.Goal == nil {
		return ""
	}
	text := fmt.Sprintf("≤ %.2g", f.Goal.Ratio)
	if f.Goal.More != 0 {
		text = fmt.Sprintf("≤ +%.2g ms", f.Goal.More)
	}
	if f.Met() {
		return text + " met"
	}
	return text + " missed"
}
