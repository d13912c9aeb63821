package diag

import (
	"slices"
	"strings"
)

// maxListed is how many names an error message lists before it only counts the rest.
const maxListed = 9

// Hint is the part of a message that says what may have been meant, with the "; " before it; "" for none.
type Hint string

// Suggest returns `; did you mean "x"?` for the known name nearest to the given one, or "" when none is near: a third of the letters
// may differ, and two at most.
func Suggest(name string, known []string) Hint {
	const most, share = 2, 3
	best, bestDistance := "", most+1
	for _, candidate := range known {
		near := min(most, max(len(name), len(candidate))/share)
		if max(len(name), len(candidate))-min(len(name), len(candidate)) > near {
			continue // however long it is
		}
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d <= near && d < bestDistance {
			best, bestDistance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return Hint(`; did you mean "` + best + `"?`)
}

// Names joins names for a message: sorted, each once, separated by commas, long lists cut; "none" for an empty list.
func Names(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	sorted := slices.Compact(slices.Sorted(slices.Values(names)))
	if len(sorted) > maxListed {
		sorted = append(sorted[:maxListed], "…")
	}
	return strings.Join(sorted, ", ")
}

// distance is how many letters of a name are to be inserted, left out, replaced or swapped with the next to get the other.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
