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

// Verdict returns the worst verdict of findings of this package, which is that of the worst severity: "breaks" for an
// error, "needs upgrade" for a warning, and "safe" for a notice. It returns "safe" without findings.
func Verdict(findings []diag.Diagnostic) string {
	worst := safe
	for _, finding := range findings {
		worst = min(worst, finding.Severity)
	}
	return word(worst)
}

// word returns the word for a verdict in messages: "breaks", "needs upgrade" or "safe". The verdict must be one of the
// constants breaks, needsUpgrade and safe; the result for any other severity is "".
func word(verdict diag.Severity) string {
	return map[diag.Severity]string{breaks: "breaks", needsUpgrade: "needs upgrade", safe: "safe"}[verdict]
}

// A comparison compares two versions of a pak, the old and the new one, and collects its findings in the embedded
// report. It also has the paks that remain installed with the new one, and the function that looks up environment
// variables for the adapter.
type comparison struct {
	lint.Report
	old, new *brokerpak.Pak
	// installed are the paks that remain installed with the new one. It is empty if they are not known.
	installed []*brokerpak.Pak
	getenv    func(name string) (string, bool)
}

// Compare compares two versions of a pak and returns its findings, the worst verdict first. Only the Diagnostics of the
// report are set. Services with the same id are compared with each other; a service that only one of the paks has is a
// single finding.
//
// Besides the declarations and binaries, Compare compares sample instances of each service that can create instances in
// both paks. It creates an instance with the old pak for every plan that the new pak also has (or a single one for a
// service without plans), and for every example and test case with such a plan, except cases that start a server or
// expect a rejection. It then generates the manifest of each instance with the new pak. For this it applies the
// provision templates of the old pak with OpenTofu, plans those of the new pak, and finally destroys all created
// resources. A change that puts data at risk, and an instance that the new pak rejects, is an error; any other change
// is a warning. If a pak directory lacks OpenTofu or a provider for this platform, or if an instance cannot be created,
// a warning reports that instances were not compared.
//
// installed are the paks that remain installed with the new one; they may include the old pak. A provider or
// executable of the old pak that the new pak lacks is a notice if one of installed has it, and an error if none has
// it. If installed is empty, the installed paks are not known, and such a provider or executable is a warning. A
// provider that the new pak replaces in states by one of its own is only a notice in all these cases.
//
// getenv looks up environment variables for the adapter, for example the credentials of providers; it must not be nil.
//
// Compare returns a nil report and an error in these cases:
//
//   - The test cases of the old pak are invalid or cannot be read, or no case can be generated for a plan.
//   - ctx ended while instances were compared.
//   - The temporary directory of the cases cannot be created or removed.
//   - An instance that was created could not be destroyed, so that resources may remain. If resources remain because
//     the creation itself failed, only the finding about the instance mentions this.
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

// add appends a finding to the report. Its message is the word of the verdict, a colon and the text that results from
// format and args, such as `breaks: plan "small" was removed`. The verdict is also the severity of the finding.
func (c *comparison) add(verdict diag.Severity, rule string, pos diag.Pos, format string, args ...any) {
	message := word(verdict) + ": " + fmt.Sprintf(format, args...)
	c.Diagnostics = append(c.Diagnostics, diag.Diagnostic{Severity: verdict, Rule: rule, Pos: pos, Message: message})
}

// A takeover compares the sample instances of one service, which the old pak created and the new pak takes over. It
// collects findings about instances together with the names of their test cases, and the effect of an upgrade on the
// instances. The map caseNames must not be nil; the zero upgradeEffect means that no instance was compared yet.
type takeover struct {
	*comparison
	older, newer *brokerpak.Service
	// caseNames are the names of the test cases with a finding, so that each finding is reported once for all of them.
	caseNames map[diag.Diagnostic][]string
	// upgrade is the effect of an upgrade on the compared instances.
	upgrade upgradeEffect
}

// compareInstances creates sample instances of a service with the old pak, compares their manifests and resources
// with those that the new pak generates and plans, destroys the instances, and adds the findings, one of them about
// maintenance_info; see proposeMaintenance. older and newer are the service in the two paks. It adds no findings if
// the service cannot create instances in one of the paks; see Service.HasInstances. An instance that cannot be
// created or compared is a finding, even if resources remain of the failed creation. If executables are missing, the
// only finding is that instances were not compared; see checkExecutables.
//
// compareInstances returns an error, and adds no findings, if the test cases of the old pak are invalid or cannot be
// read, which is checked first, also for a service that cannot create instances. The other reasons for an error are
// that a case cannot be generated, that ctx ended, that the temporary directory of the cases cannot be created or
// removed, and that an instance that was created could not be destroyed.
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

// checkExecutables returns an error if one of the two paks is a directory that cannot apply and plan the provision
// templates of a service on this platform. That is so if the pak lacks the directory bin/OS/ARCH of the platform, or
// the file of an OpenTofu or a provider in its manifest, or has several files for one of these; the error names them.
// Other programs are not checked, and neither is a pak file: if it lacks executables, no instance can be created.
// older and newer are the service in the two paks. Both paks are checked if at least one of these has a provision
// template; otherwise the result is nil. The end of ctx is not an error.
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

// selectCases returns the test cases whose instances are compared. Candidates are the cases in all, and one generated
// case for each plan of the old pak, or a single one if the service has no plans. A generated case sets sample values
// for those required parameters that have no default and that the plan does not set.
//
// Selected are the candidates that belong to the service, expect no rejection in their first step or as a whole,
// start no server and, if the service of the old pak has plans, use a plan that the new pak also has. The plan of a
// case is that of its key plan, not of a step. If the old pak has plans, a case that names none of them is used with
// the first one; the elements of all are not changed. Each case of the service that cannot be played, because the
// operator declares its plan (see Case.Unplayable), is reported as a finding instead (see report), whatever its
// server and expectations are.
//
// The result is nil if no case is selected. selectCases returns nil and an error if a generated case contradicts the
// pak.
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

// compareInstance reports findings (see report) about the changes of an instance of the old pak when the adapter has
// the new pak and the operator enables updates of its templates and its version of OpenTofu. It deploys and applies
// nothing. testCase is the case that created the instance; its plan must be "" or exist in the new pak. getenv looks
// up the environment variables with which the instance was created.
//
// A change that puts data at risk has the verdict "breaks", and any other change of the manifest, of a resource or of
// a secret "needs upgrade". The effect of the upgrade is added to t.upgrade. If the new pak rejects the instance, or
// if the comparison fails for another reason, a finding with the verdict "breaks" and the rule update-refused reports
// the error. t.upgrade then counts the instance as compared and without changes, and the caller must set
// t.upgrade.incomplete.
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

// oneLine returns the text of an error with each run of white space, line breaks included, replaced by a single blank,
// and without white space at both ends. The error must not be nil.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// report records a finding about the instance of a test case in t.caseNames; its position is that of the service in the
// new pak. Equal findings about several cases are recorded once, with the names of all these cases. compareInstances
// adds them to the report of the comparison afterwards.
func (t *takeover) report(testCase test.Case, verdict diag.Severity, rule, message string) {
	finding := diag.Diagnostic{Severity: verdict, Rule: rule, Message: message, Pos: t.newer.Pos}
	t.caseNames[finding] = append(t.caseNames[finding], testCase.Name)
}
