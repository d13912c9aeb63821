package diag

import (
	"slices"
	"strings"
)

// maxListed is how many names an error message lists before it only counts the rest.
const maxListed = 9

// Suggest returns `; did you mean "x"?` for the known name nearest to the given one, or "" when none is near.
func Suggest(name string, known []string) string {
	best, bestDistance := "", 3
	for _, candidate := range known {
		limit := min(bestDistance, max(len(candidate)/2, 1)+1)
		if d := distance(name, candidate); d < limit {
			best, bestDistance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return `; did you mean "` + best + `"?`
}

// Names joins names for a message: sorted, separated by commas, long lists cut; "none" for an empty list.
func Names(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(names))
	if len(sorted) > maxListed {
		sorted = append(sorted[:maxListed], "…")
	}
	return strings.Join(sorted, ", ")
}

// distance is the Levenshtein distance between two names.
func distance(a, b string) int {
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := range len(a) {
		current := make([]int, len(b)+1)
		current[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			current[j+1] = min(previous[j+1]+1, current[j]+1, previous[j]+cost)
		}
		previous = current
	}
	return previous[len(b)]
}
