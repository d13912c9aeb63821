package diag

import (
	"slices"
	"strings"
)

// maxListed is the number of names that Names lists before it cuts the list.
const maxListed = 9

// A Hint is the part of a message that suggests a correction, such as `; did you mean "size"?`. It begins with "; ". An
// empty Hint suggests nothing.
type Hint string

// Suggest returns `; did you mean "x"?` for the candidate that is most similar to a name, and for the first of several
// that are equally similar. It returns "" if no candidate is similar. A similar candidate needs at most two edits (see
// distance), and at most one edit for each three bytes of the longer of the two names. Case is ignored. A candidate
// that equals the name is suggested as well, so callers must exclude it.
func Suggest(name string, candidates []string) Hint {
	const most, share = 2, 3
	best, bestDistance := "", most+1
	for _, candidate := range candidates {
		near := min(most, max(len(name), len(candidate))/share)
		if max(len(name), len(candidate))-min(len(name), len(candidate)) > near {
			continue // the lengths alone differ by too much
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

// Names returns names in one line for a message: sorted by bytes, without repetitions and separated by ", ". If there
// are more than nine different names, the first nine are listed, and ", …" follows. An empty or nil list is "none". The
// parameter is not changed.
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

// distance returns the smallest number of edits that turn one name into the other if no part of the name is edited
// twice; it is 0 if they are equal. An edit inserts, removes or replaces a byte, or swaps two adjacent ones. Upper-case
// and lower-case letters differ.
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
