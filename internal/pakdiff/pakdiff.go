// Package pakdiff tells what a new version of a pak means for the instances and bindings of an old one: what its definitions take away,
// how the manifests of deployed instances change, and what OpenTofu would do to what it built for them.
//
// Each finding has a verdict, by which its message begins: an error breaks something, for a warning an operator has to upgrade instances
// or to change the configuration, and a notice is safe.
package pakdiff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"service-adapter/adapter"
	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/odb"
	"service-adapter/internal/paklint"
	"service-adapter/internal/paktest"
	"service-adapter/internal/value"
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

// takeover are instances of a service of the old pak that the new one takes over.
type takeover struct {
	*comparison
	older, newer *brokerpak.Service
	// found are the names of the cases of whose instances something was found.
	found map[diag.Diagnostic][]string
}

// instances compares the instances of a service.
func (c *comparison) instances(ctx context.Context, older, newer *brokerpak.Service) error {
	cases, err := paktest.Cases(c.old, false)
	if err != nil || !older.HasInstances() || !newer.HasInstances() {
		return err
	}
	if err := c.unrunnable(ctx, older, newer); err != nil {
		c.add(needsUpgrade, "not-compared", newer.Pos, "instances were not compared, and nothing was planned with OpenTofu: %s", oneLine(err))
		return nil
	}
	t := takeover{comparison: c, older: older, newer: newer, found: map[diag.Diagnostic][]string{}}
	created := map[string]bool{}
	suite := paktest.Suite{Pak: c.old, Getenv: c.getenv, Done: func(paktest.Result) {}}
	suite.Created = func(testCase paktest.Case, instance *odb.Instance, getenv func(string) (string, bool)) {
		created[testCase.Name] = true
		t.compare(ctx, testCase, instance, getenv)
	}
	if cases, err = t.cases(cases); err != nil {
		return err
	}
	results, err := suite.Play(ctx, cases)
	if err != nil || ctx.Err() != nil {
		return cmp.Or(err, ctx.Err())
	}
	for _, result := range results {
		switch {
		case result.Err == nil:
		case created[result.Case.Name]:
			return fmt.Errorf("%s: %w", result.Case.Name, result.Err) // something may be left
		default:
			t.report(result.Case, needsUpgrade, "not-compared", "no instance could be made to compare: "+oneLine(result.Err))
		}
	}
	for finding, names := range t.found {
		c.add(finding.Severity, finding.Rule, finding.Pos, "%s (%s)", finding.Message, strings.Join(names, ", "))
	}
	return nil
}

// unrunnable says why the provision templates of a service cannot be applied and planned; a file has binaries.
func (c *comparison) unrunnable(ctx context.Context, older, newer *brokerpak.Service) error {
	var failed []error
	for _, pak := range []*brokerpak.Pak{c.old, c.new} {
		if len(older.Provision.Templates)+len(newer.Provision.Templates) > 0 && !pak.IsZip() {
			_, err := pak.Executables(ctx, brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, "")
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// cases are those of the service whose plan still exists, and for each plan one with nothing but the parameters that are required.
func (t *takeover) cases(all []paktest.Case) (cases []paktest.Case, err error) {
	plans := t.older.Plans
	if len(plans) == 0 { // operators add them
		plans = []brokerpak.Plan{{Name: "without a plan"}}
	}
	for _, plan := range plans {
		parameters := map[string]any{}
		given := value.Merge(plan.ProvisionOverrides, plan.Properties)
		for _, input := range t.older.Provision.UserInputs {
			if _, ok := given[input.Name]; input.Required && !input.HasDefault && !ok {
				parameters[input.Name] = input.Typical()
			}
		}
		bare, err := paktest.New(t.old, t.older.Name+"/"+plan.Name, map[string]any{"service": t.older.Name, "plan": plan.ID, "create": parameters})
		if err != nil {
			return nil, err
		}
		all = append(all, bare)
	}
	for _, testCase := range all {
		plan := t.older.Plan(testCase.Plan)
		if plan == nil && len(t.older.Plans) > 0 {
			plan = &t.older.Plans[0]
		}
		if plan != nil {
			testCase.Plan = plan.ID
		}
		gone := plan != nil && t.newer.Plan(plan.ID) == nil
		served := testCase.Server.Start != "" // its values are those of a server, for bindings
		if !gone && !served && testCase.Service == t.older.Name && !testCase.Expect.Fails() && !testCase.Steps[0].Expect.Fails() {
			cases = append(cases, testCase)
		}
	}
	return cases, nil
}

// compare finds how an instance changes when operators let it get the templates and the OpenTofu of the new pak.
func (t *takeover) compare(ctx context.Context, testCase paktest.Case, instance *odb.Instance, getenv func(string) (string, bool)) {
	set := map[string]string{
		"SERVICE_ADAPTER_PAKS":                      string(value.MustJSON([]any{t.new.Path})),
		"SERVICE_ADAPTER_BROKERPAK_UPDATES_ENABLED": "true", "SERVICE_ADAPTER_TERRAFORM_UPGRADES_ENABLED": "true",
	}
	invocation := adapter.Invocation{Stderr: io.Discard, Getenv: func(name string) (string, bool) {
		if text, ok := set[name]; ok {
			return text, true
		}
		return getenv(name)
	}}
	sample := odb.Sample(t.newer, t.newer.Plan(testCase.Plan), instance.ID)
	sample.Configure(t.newer, t.newer.Plan(testCase.Plan), testCase.Steps[0].Surroundings)
	changes, err := adapter.PendingChanges(ctx, invocation, instance.Manifest, string(value.MustJSON(sample.Plan)), &sample.Deployment)
	if err != nil {
		t.report(testCase, breaks, "update-refused", "updates and upgrades are refused: "+oneLine(err))
	}
	for _, change := range changes {
		verdict, rule := needsUpgrade, "manifest"
		message := fmt.Sprintf("the manifest has %s at %s instead of %s", shown(change.Generated), change.Path, shown(change.Deployed))
		if action := change.OpenTofu; action != "" {
			rule, message = "resource-changed", fmt.Sprintf("OpenTofu will %s %s", action, change.Path)
		}
		if change.Effect == adapter.DataAtRisk {
			verdict, rule = breaks, "data-at-risk"
		}
		t.report(testCase, verdict, rule, message+"; "+change.Consequence)
	}
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (t *takeover) report(testCase paktest.Case, verdict diag.Severity, rule, message string) {
	finding := diag.Diagnostic{Severity: verdict, Rule: rule, Message: message, Pos: t.newer.Pos}
	t.found[finding] = append(t.found[finding], testCase.Name)
}
