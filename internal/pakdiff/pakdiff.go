// Package pakdiff tells what a new version of a pak means for the instances and bindings of an old one: what its definitions take away,
// how the manifests of deployed instances change, and what OpenTofu would do to what it built for them.
//
// Each finding has a verdict, by which its message begins: an error breaks something, for a warning an operator has to upgrade instances
// or to change the configuration, and a notice is safe.
package pakdiff

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/paklint"
)

// The verdicts.
const (
	breaks       = diag.Error
	needsUpgrade = diag.Warning
	safe         = diag.Notice
)

// Verdict is what findings mean together: "breaks", "needs upgrade" or "safe".
func Verdict(findings []diag.Diagnostic) string {
	worst := safe
	for _, finding := range findings {
		worst = min(worst, finding.Severity)
	}
	return word(worst)
}

func word(verdict diag.Severity) string {
	return map[diag.Severity]string{breaks: "breaks", needsUpgrade: "needs upgrade", safe: "safe"}[verdict]
}

// comparison compares two versions of a pak.
type comparison struct {
	paklint.Report
	old, new *brokerpak.Pak
	getenv   func(name string) (string, bool)
}

// Compare compares two versions of a pak; the findings of its report are sorted by verdict. Instances of the old one are made up with every
// plan, example and case that the new one can have as well. Its provision templates are really applied, those of the new one planned,
// and everything is destroyed: where a pak lacks OpenTofu or a provider, a finding says so. getenv is the environment of the adapter.
func Compare(ctx context.Context, older, newer *brokerpak.Pak, getenv func(name string) (string, bool)) (*paklint.Report, error) {
	c := &comparison{old: older, new: newer, getenv: getenv}
	c.declarations()
	for _, was := range older.Services {
		at := slices.IndexFunc(newer.Services, func(is *brokerpak.Service) bool { return is.ID == was.ID })
		if at < 0 {
			continue
		}
		if err := c.instances(ctx, was, newer.Services[at]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.Diagnostics, func(a, b diag.Diagnostic) int { return cmp.Or(cmp.Compare(a.Severity, b.Severity), diag.Compare(a, b)) })
	return &c.Report, nil
}

func (c *comparison) add(verdict diag.Severity, rule string, pos diag.Pos, format string, args ...any) {
	message := word(verdict) + ": " + fmt.Sprintf(format, args...)
	c.Diagnostics = append(c.Diagnostics, diag.Diagnostic{Severity: verdict, Rule: rule, Pos: pos, Message: message})
}
