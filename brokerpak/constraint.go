package brokerpak

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cppforlife/go-semi-semantic/version"
)

// Constraints is a list of conditions on a version, all of which must hold.
type Constraints []condition

type condition struct {
	operator string
	version  version.Version
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
		parsed, err := version.NewVersionFromString(withoutCommit(number))
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
	parsed, err := version.NewVersionFromString(withoutCommit(text))
	if err != nil {
		return false, fmt.Errorf("%q is not a version", text)
	}
	for _, condition := range c {
		if !condition.holds(parsed.Compare(condition.version)) {
			return false, nil
		}
	}
	return true, nil
}

func (c condition) holds(comparison int) bool {
	switch c.operator {
	case ">=":
		return comparison >= 0
	case "<=":
		return comparison <= 0
	case ">":
		return comparison > 0
	case "<":
		return comparison < 0
	case "!=":
		return comparison != 0
	default:
		return comparison == 0
	}
}

// CompareVersions compares two BOSH versions: negative when a is lower than b. The part after the first hyphen of a
// development version's number ("0.1+dev.8-fa37909") is a commit and is ignored.
func CompareVersions(a, b string) (int, error) {
	va, err := version.NewVersionFromString(withoutCommit(a))
	if err != nil {
		return 0, fmt.Errorf("%q is not a version", a)
	}
	vb, err := version.NewVersionFromString(withoutCommit(b))
	if err != nil {
		return 0, fmt.Errorf("%q is not a version", b)
	}
	return va.Compare(vb), nil
}

func withoutCommit(text string) string {
	base, local, found := strings.Cut(text, "+")
	if !found {
		return text
	}
	local, _, _ = strings.Cut(local, "-")
	return base + "+" + local
}
