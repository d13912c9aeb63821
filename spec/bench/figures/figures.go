// Package figures turns what was measured into figures, keeps them, and renders them as a table.
package figures

import (
	"fmt"
	"slices"
)

// Measure is what was measured of one thing: the distribution of its runs, in milliseconds or in the unit of its
// figure.
type Measure struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Q1     float64 `json:"q1"` // a quarter of the runs took less
	Q3     float64 `json:"q3"` // a quarter of the runs took more
	Runs   int     `json:"runs"`
	// Memory is the most that was resident of the program itself, in megabytes, and Largest that of the largest of it
	// and all that it started. They are medians of the runs; 0 is not measured.
	Memory  float64 `json:"memory,omitempty"`
	Largest float64 `json:"largest_process,omitempty"`
}

// Of is the distribution of values, which stay as they are. Of no values it is the zero Measure.
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

// quantile interpolates between the two values around a place in a sorted list, as R and hyperfine do.
func quantile(sorted []float64, part float64) float64 {
	place := part * float64(len(sorted)-1)
	below := int(place)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (place-float64(below))*(sorted[above]-sorted[below])
}

// Figure is a measured thing, and what it is compared with. A thing that is compared with several others has as many
// figures in succession, all with the same name.
type Figure struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Unit    string `json:"unit,omitempty"` // of all values; "" is milliseconds
	Measure
	Against  string   `json:"against,omitempty"`  // what it is compared with, "" is nothing
	Baseline *Measure `json:"baseline,omitempty"` // of what it is compared with
	Goal     *Goal    `json:"goal,omitempty"`     // of the comparison
}

// Goal is what a comparison should come to: at most so many times the baseline or, where More is set, at most so many
// milliseconds above it.
type Goal struct {
	Ratio float64 `json:"ratio,omitempty"`
	More  float64 `json:"more_ms,omitempty"`
}

// Ratio is the median divided by the baseline's, 0 without a baseline.
func (f Figure) Ratio() float64 {
	if f.Baseline == nil || f.Baseline.Median == 0 {
		return 0
	}
	return f.Median / f.Baseline.Median
}

// Met tells whether the goal is met; without a goal or a baseline it is not.
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

// goal says what the goal is and whether it is met.
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
