package brokerpak

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cppforlife/go-semi-semantic/version"
)

// Constraints is a list of conditions on a version, all of which must hold.
type Constraints []condition

type condition struct {
	operator string
	version  version.Version
}

// holding are the results of a comparison for which an operator holds.
var holding = map[string][]int{ //nolint:gochecknoglobals // a constant table
	">=": {0, 1}, "<=": {-1, 0}, ">": {1}, "<": {-1}, "!=": {-1, 1}, "=": {0}, "": {0},
}

// ParseConstraint reads conditions such as ">= 4.1, < 6"; the operators are =, !=, <, <=, > and >=, = when none is given.
// Versions are BOSH's: "1.2.3", "3421.11", "0+dev.4".
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
			return nil, fmt.Errorf("constraint %q names %q, which is no version", text, number)
		}
		all = append(all, condition{operator: operator, version: parsed})
	}
	return all, nil
}

// conditionForm is one condition: an operator, which may be missing, and a version.
var conditionForm = regexp.MustCompile(`^(>=|<=|>|<|=|!=)?\s*(\S+)$`)

// Match tells whether a version meets all conditions, compared as CompareVersions does; the error says that it is no version.
func (c Constraints) Match(text string) (bool, error) {
	parsed, err := parseVersion(text)
	if err != nil {
		return false, err
	}
	for _, condition := range c {
		if !slices.Contains(holding[condition.operator], parsed.Compare(condition.version)) {
			return false, nil
		}
	}
	return true, nil
}

// Example is a version that meets all conditions: the given one if it does, or if none is found.
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

// CompareVersions compares two BOSH versions: negative when a is lower than b.
func CompareVersions(a, b string) (int, error) {
	va, errA := parseVersion(a)
	vb, errB := parseVersion(b)
	return va.Compare(vb), cmp.Or(errA, errB)
}

// parseVersion reads a BOSH version. The part after the first hyphen of a development version's number ("0.1+dev.8-fa37909") is a
// commit and is ignored.
func parseVersion(text string) (version.Version, error) {
	base, local, found := strings.Cut(text, "+")
	if found {
		local, _, _ = strings.Cut(local, "-")
		base += "+" + local
	}
	parsed, err := version.NewVersionFromString(base)
	if err != nil {
		return parsed, fmt.Errorf("%q is not a version", text)
	}
	return parsed, nil
}
