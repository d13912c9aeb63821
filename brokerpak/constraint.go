package brokerpak

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cppforlife/go-semi-semantic/version"
)

// Constraints is a parsed version constraint such as ">= 4.1, < 6": a list of conditions, all of which a version must
// meet. Every version meets a nil or empty list. ParseConstraint creates it.
type Constraints []condition

// A condition compares a version with a fixed one, such as ">= 4.1": it consists of an operator and that version. The
// empty operator means equality.
type condition struct {
	operator string // a key of acceptedResults
	version  version.Version
}

// acceptedResults maps each operator to the results of Version.Compare that meet the condition. The missing operator
// "" means equality.
var acceptedResults = map[string][]int{ //nolint:gochecknoglobals // a constant table
	">=": {0, 1}, "<=": {-1, 0}, ">": {1}, "<": {-1}, "!=": {-1, 1}, "=": {0}, "": {0},
}

// ParseConstraint parses conditions that are separated by commas, such as ">= 4.1, < 6"; a version must meet all of
// them. The operators are =, !=, <, <=, > and >=; a condition without one means equality. White space around operators
// and versions is ignored. Versions have the syntax of BOSH: "1.2.3", "3421.11", "0+dev.4". ParseConstraint returns nil
// and an error if the text or one of its conditions is empty, has another form, or contains a text that is not a
// version.
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

// Match reports whether a version, such as "4.2.1", meets all conditions; every version meets an empty list. Versions
// are compared as in CompareVersions. Match returns false and an error if the text is not a BOSH version, even if the
// list is empty.
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

// Example returns a version that meets all conditions, if it finds one. It returns the first candidate that does: the
// parameter version, then for each condition its version and the same with ".1" appended, and finally "0". If no
// candidate meets the conditions, Example returns the parameter version unchanged, although it does not meet them. A
// parameter that is not a version counts as one that does not meet them.
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

// CompareVersions compares two BOSH versions, such as "1.10" and "1.9.2". The result is negative if a is older than b,
// zero if they are equal and positive if a is newer. The commit in a development version, the part after the hyphen in
// "0.1+dev.8-fa37909", does not count. CompareVersions returns an error, which quotes the first invalid version, if a
// or b is not a version; the number is meaningless then.
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
