// Package diff compares two versions of a pak and reports how the new version affects instances and bindings that were
// created with the old one: what its definitions no longer declare or accept, how the manifests of deployed instances
// change, and which changes OpenTofu plans for the resources of those instances.
//
// Every finding has a verdict, which is the prefix of its message. A finding of severity error "breaks" instances,
// bindings or requests. A warning "needs upgrade": an operator must upgrade instances or change the configuration. A
// notice is "safe".
package diff

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"service-adapter/adapter/session"
	"service-adapter/brokerpak"
	"service-adapter/internal/author/lint"
	"service-adapter/internal/author/test"
	"service-adapter/internal/diag"
	"service-adapter/internal/odb"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/operate/preview"
	"service-adapter/internal/value"
)

// The verdicts, from the worst to the best. A lower severity value is the worse one.
const (
	breaks       = diag.Error
	needsUpgrade = diag.Warning
	safe         = diag.Notice
)

// The rules of findings about instances that could not be compared.
const (
	notCompared   = "not-compared"
	updateRefused = "update-refused"
)

// Verdict returns the worst verdict of the findings: "breaks", "needs upgrade" or "safe". It is "safe" without
// findings.
func Verdict(findings []diag.Diagnostic) string {
	worst := safe
	for _, finding := range findings {
		worst = min(worst, finding.Severity)
	}
	return word(worst)
}

// word returns the text of a verdict in messages. The verdict must be one of the three constants.
func word(verdict diag.Severity) string {
	return map[diag.Severity]string{breaks: "breaks", needsUpgrade: "needs upgrade", safe: "safe"}[verdict]
}

// A comparison compares two versions of a pak and collects its findings in the embedded report.
type comparison struct {
	lint.Report
	old, new *brokerpak.Pak
	// installed are the paks that remain installed with the new one. It is empty if they are not known.
	installed []*brokerpak.Pak
	getenv    func(name string) (string, bool)
}

// Compare compares two versions of a pak and returns its findings, the worst verdict first. Only the Diagnostics of the
// report are set. Services are compared if both paks have one with the same id.
//
// Besides the declarations, Compare compares sample instances. It creates an instance with the old pak for every plan,
// example and test case that the new pak also supports, and then generates its manifest with the new pak. This applies
// the provision templates of the old pak with OpenTofu, plans those of the new pak, and finally destroys all created
// resources. If a pak directory lacks OpenTofu or a provider for this platform, a finding reports that instances were
// not compared.
//
// installed are the paks that remain installed with the new one; they may include the old pak. A binary of the old pak
// that neither the new pak nor one of these has is an error, and a notice if one of these has it. If installed is
// empty, the paks are not known, and every binary that the new pak lacks is a warning. A provider that the new pak
// replaces in states is only a notice in any case.
//
// getenv looks up environment variables for the adapter, for example the credentials of providers; it must not be nil.
// The error is not nil if the test cases of the old pak are invalid, if ctx ended, if the temporary directory of a test
// cannot be created or removed, or if resources may remain because an instance that was created could not be destroyed.
// The report is nil then.
func Compare(
	ctx context.Context, older, newer *brokerpak.Pak, installed []*brokerpak.Pak,
	getenv func(name string) (string, bool),
) (*lint.Report, error) {
	c := &comparison{old: older, new: newer, installed: installed, getenv: getenv}
	c.compareDeclarations()
	c.compareBinaries()
	for _, was := range older.Services {
		index := slices.IndexFunc(newer.Services, func(is *brokerpak.Service) bool { return is.ID == was.ID })
		if index < 0 {
			continue
		}
		if err := c.compareInstances(ctx, was, newer.Services[index]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(c.Diagnostics, func(a, b diag.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Severity, b.Severity), diag.Compare(a, b))
	})
	return &c.Report, nil
}

// add appends a finding to the report. Its message is the word of the verdict, and the formatted text.
func (c *comparison) add(verdict diag.Severity, rule string, pos diag.Pos, format string, args ...any) {
	message := word(verdict) + ": " + fmt.Sprintf(format, args...)
	c.Diagnostics = append(c.Diagnostics, diag.Diagnostic{Severity: verdict, Rule: rule, Pos: pos, Message: message})
}

// A takeover compares the instances of one service, which the old pak created and the new pak takes over.
type takeover struct {
	*comparison
	older, newer *brokerpak.Service
	// caseNames are the names of the test cases with a finding, so that each finding is reported once for all of them.
	caseNames map[diag.Diagnostic][]string
	// upgrade is the effect of an upgrade on the compared instances.
	upgrade upgradeEffect
}

// compareInstances creates sample instances of a service with the old pak, compares them as described at Compare, and
// adds the findings. older and newer are the service in the two paks. It adds no findings if the service has no
// instances in one of the paks. That instances cannot be compared is a finding too. See Compare for the errors.
func (c *comparison) compareInstances(ctx context.Context, older, newer *brokerpak.Service) error {
	cases, err := test.Cases(c.old, false)
	if err != nil || !older.HasInstances() || !newer.HasInstances() {
		return err
	}
	if err := c.checkExecutables(ctx, older, newer); err != nil {
		c.add(needsUpgrade, notCompared, newer.Pos,
			"instances were not compared, and nothing was planned with OpenTofu: %s", oneLine(err))
		return nil
	}
	t := takeover{comparison: c, older: older, newer: newer, caseNames: map[diag.Diagnostic][]string{}}
	created := map[string]bool{}
	suite := test.Suite{Pak: c.old, Getenv: c.getenv, Done: func(test.Result) {}}
	suite.Created = func(testCase test.Case, instance *odb.Instance, getenv func(string) (string, bool)) {
		created[testCase.Name] = true
		t.compareInstance(ctx, testCase, instance, getenv)
	}
	if cases, err = t.selectCases(cases); err != nil {
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
			return fmt.Errorf("%s: %w", result.Case.Name, result.Err) // the instance exists, so resources may remain
		default:
			t.report(result.Case, needsUpgrade, notCompared,
				"no instance could be created for the comparison: "+oneLine(result.Err))
		}
	}
	for finding, names := range t.caseNames {
		c.add(finding.Severity, finding.Rule, finding.Pos, "%s (%s)", finding.Message, strings.Join(names, ", "))
		t.upgrade.incomplete = t.upgrade.incomplete || finding.Rule == notCompared || finding.Rule == updateRefused
	}
	c.proposeMaintenance(newer.Pos, &t.upgrade)
	return nil
}

// checkExecutables returns an error if a pak lacks an executable that is needed to apply and plan the provision
// templates of a service on this platform. It returns nil if the service has no provision template in either pak. Only
// pak directories are checked: a pak file always contains its executables.
func (c *comparison) checkExecutables(ctx context.Context, older, newer *brokerpak.Service) error {
	var failed []error
	for _, pak := range []*brokerpak.Pak{c.old, c.new} {
		if len(older.Provision.Templates)+len(newer.Provision.Templates) > 0 && !pak.IsZip() {
			_, err := pak.Executables(ctx, brokerpak.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}, "")
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// selectCases returns the test cases whose instances are compared. These are the cases in all that belong to the
// service, use a plan that the new pak also has, expect to succeed and start no server. For each plan, it also
// considers a generated case with the required parameters only. A case whose plan the old pak does not have gets the
// first plan. It reports each unplayable case of the service as a finding. It returns an error if a generated case is
// invalid.
func (t *takeover) selectCases(all []test.Case) (cases []test.Case, err error) {
	plans := t.older.Plans
	if len(plans) == 0 { // operators declare the plans
		plans = []brokerpak.Plan{{Name: "without a plan"}}
	}
	for _, plan := range plans {
		parameters := map[string]any{}
		preset := value.Merge(plan.ProvisionOverrides, plan.Properties)
		for _, input := range t.older.Provision.UserInputs {
			if _, ok := preset[input.Name]; input.Required && !input.HasDefault && !ok {
				parameters[input.Name] = input.SampleValue()
			}
		}
		minimal, err := test.New(t.old, t.older.Name+"/"+plan.Name, map[string]any{
			"service": t.older.Name, "plan": plan.ID, "create": parameters,
		})
		if err != nil {
			return nil, err
		}
		all = append(all, minimal)
	}
	for _, testCase := range all {
		plan := t.older.Plan(testCase.Plan)
		if plan == nil && len(t.older.Plans) > 0 {
			plan = &t.older.Plans[0]
		}
		if plan != nil {
			testCase.Plan = plan.ID
		}
		planRemoved := plan != nil && t.newer.Plan(plan.ID) == nil
		hasServer := testCase.Server.Start != "" // such a case tests bindings
		fails := testCase.Expect.Fails() || testCase.Steps[0].Expect.Fails()
		switch {
		case testCase.Service != t.older.Name:
		case testCase.Unplayable != "":
			t.report(testCase, needsUpgrade, notCompared, "no instance could be created for the comparison: "+
				testCase.Unplayable)
		case !planRemoved && !hasServer && !fails:
			cases = append(cases, testCase)
		}
	}
	return cases, nil
}

// compareInstance reports how an instance changes when the adapter has the new pak and the operator enables updates of
// its templates and its version of OpenTofu. getenv is the environment with which the instance was created. That the
// new pak rejects the instance, or that the comparison fails for another reason, is a finding too. The effect of the
// upgrade is added to t.upgrade.
func (t *takeover) compareInstance(
	ctx context.Context, testCase test.Case, instance *odb.Instance, getenv func(string) (string, bool),
) {
	set := map[string]string{
		"SERVICE_ADAPTER_PAKS":                      string(value.MustJSON([]any{t.new.Path})),
		"SERVICE_ADAPTER_BROKERPAK_UPDATES_ENABLED": "true", "SERVICE_ADAPTER_TERRAFORM_UPGRADES_ENABLED": "true",
	}
	process := session.Process{Stderr: io.Discard, Getenv: func(name string) (string, bool) {
		if text, ok := set[name]; ok {
			return text, true
		}
		return getenv(name)
	}}
	sample := odb.Sample(t.newer, t.newer.Plan(testCase.Plan), instance.ID)
	sample.Configure(t.newer, t.newer.Plan(testCase.Plan), testCase.Steps[0].Environment)
	plan := string(value.MustJSON(sample.Plan))
	changes, err := preview.Changes(ctx, process, instance.Manifest, plan, &sample.Deployment)
	if err != nil {
		t.report(testCase, breaks, updateRefused, "updates and upgrades are rejected: "+oneLine(err))
	}
	t.upgrade.add(instance.Manifest, changes)
	for _, change := range changes {
		verdict, rule := needsUpgrade, "manifest"
		message := fmt.Sprintf("the manifest has %s at %s instead of %s",
			formatValue(change.Generated), change.Path, formatValue(change.Deployed))
		if action := change.OpenTofu; action != "" {
			rule, message = "resource-changed", fmt.Sprintf("OpenTofu will %s %s", action, change.Path)
		}
		if change.Secret != "" {
			rule, message = "secret-renewed", fmt.Sprintf("an upgrade will %s %s", change.Secret, change.Path)
		}
		if change.Effect == manifestdiff.DataAtRisk {
			verdict, rule = breaks, "data-at-risk"
		}
		t.report(testCase, verdict, rule, message+"; "+change.Consequence)
	}
}

// oneLine returns the text of an error with each run of white space, line breaks included, replaced by a blank.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// report remembers a finding about the instance of a test case. compareInstances adds it to the report, once for all
// cases.
func (t *takeover) report(testCase test.Case, verdict diag.Severity, rule, message string) {
	finding := diag.Diagnostic{Severity: verdict, Rule: rule, Message: message, Pos: t.newer.Pos}
	t.caseNames[finding] = append(t.caseNames[finding], testCase.Name)
}
