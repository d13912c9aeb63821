package brokerpak

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cppforlife/go-semi-semantic/version"
)

// Constraints is a list of conditions. A version must meet all of them; every version meets an empty list.
type Constraints []condition

// A condition compares a version with a fixed one.
type condition struct {
	operator string // a key of acceptedResults
	version  version.Version
}

// acceptedResults maps each operator to the results of Version.Compare that meet the condition. The missing operator
// "" means equality.
var acceptedResults = map[string][]int{ //nolint:gochecknoglobals // a constant table
	">=": {0, 1}, "<=": {-1, 0}, ">": {1}, "<": {-1}, "!=": {-1, 1}, "=": {0}, "": {0},
}

// ParseConstraint parses conditions such as ">= 4.1, < 6". The operators are =, !=, <, <=, > and >=; a condition
// without one means equality. Versions have the syntax of BOSH: "1.2.3", "3421.11", "0+dev.4". ParseConstraint
// returns an error if the text is empty or does not have this form.
func ParseConstraint(text string) (Constraints, error) {
	var all Constraints
	for _, part := range strings.Split(text, ",") {
		match := conditionForm.FindStringSubmatch(strings.TrimSpace(part))
		if match == nil {
			return nil, fmt.Errorf("constraint %q must have the form \">= 4.1, < 6\"", text)
		}
		operator, number := match[1], match[2]
		parsed, err := parseVersion(number)
		if err != nil {
			return nil, fmt.Errorf("constraint %q contains %q, which is not a version", text, number)
		}
		all = append(all, condition{operator: operator, version: parsed})
	}
	return all, nil
}

// conditionForm matches one condition. Its groups are the operator, which may be missing, and the version.
var conditionForm = regexp.MustCompile(`^(>=|<=|>|<|=|!=)?\s*(\S+)$`)

// Match reports whether a version meets all conditions. Versions are compared as in CompareVersions. Match returns
// false and an error if the text is not a BOSH version.
func (c Constraints) Match(text string) (bool, error) {
	parsed, err := parseVersion(text)
	if err != nil {
		return false, err
	}
	for _, condition := range c {
		if !slices.Contains(acceptedResults[condition.operator], parsed.Compare(condition.version)) {
			return false, nil
		}
	}
	return true, nil
}

// Example returns a version that meets all conditions. It returns the given version if that meets them, or if no
// other candidate does; the candidates are the versions of the conditions, those with ".1" appended, and "0".
func (c Constraints) Example(version string) string {
	candidates := []string{version}
	for _, condition := range c {
		text := condition.version.String()
		candidates = append(candidates, text, text+".1")
	}
	for _, candidate := range append(candidates, "0") {
		if ok, err := c.Match(candidate); ok && err == nil {
			return candidate
		}
	}
	return version
}

// CompareVersions compares two BOSH versions. The result is negative if a is older than b, zero if they are equal and
// positive if a is newer. The commit in a development version, the part after the hyphen in "0.1+dev.8-fa37909", does
// not count. CompareVersions returns an error if one of them is not a version; the result is meaningless then.
func CompareVersions(a, b string) (int, error) {
	va, errA := parseVersion(a)
	vb, errB := parseVersion(b)
	return va.Compare(vb), cmp.Or(errA, errB)
}

// parseVersion parses a BOSH version. In a development version such as "0.1+dev.8-fa37909", the part after the hyphen
// is a commit and is ignored. parseVersion returns an error, which quotes the text, if that is not a version. The
// version must not be used then.
func parseVersion(text string) (version.Version, error) {
	base, local, hasLocal := strings.Cut(text, "+")
	if hasLocal {
		local, _, _ = strings.Cut(local, "-")
		base += "+" + local
	}
	parsed, err := version.NewVersionFromString(base)
	if err != nil {
		return parsed, fmt.Errorf("%q is not a version", text)
	}
	return parsed, nil
}
