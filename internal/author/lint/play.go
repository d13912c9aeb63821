package lint

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/manifestgen"
	"service-adapter/schemas"
)

// playInstance is the id of the instances of simulated deployments.
const playInstance = "00000000-0000-4000-8000-000000000000"

// A deployment is the input of a simulated deployment: a copy of the service that simulatedService made, a plan, and
// the user's parameters, completed with sample values.
type deployment struct {
	service *brokerpak.Service
	// plan includes the properties that the operator must set. It is the zero value if the service has no plans.
	plan       brokerpak.Plan
	parameters map[string]any
	// guessed means that a sample value is used, so that a failure may be caused by it and not by the pak.
	guessed bool
	// forced means that conditional ops files are applied without their conditions.
	forced bool
}

// A player simulates deployments of a service: it generates manifests without a broker, a Director or OpenTofu.
type player struct {
	*serviceCheck
	manifests []simulation // the manifests that were generated successfully
}

// A simulation is the manifest of a simulated deployment.
type simulation struct {
	*instance.View
	plan string // the name of the plan, "" without one
	// guessed means that sample values were used for the manifest.
	guessed bool
	// forced means that conditional ops files were applied without their conditions, so that no plan may have the
	// manifest.
	forced bool
}

// newSimulation returns the simulation of a deployment with a manifest, with the plan and the marks of the deployment.
func newSimulation(attempt deployment, manifest string) simulation {
	return simulation{
		View: &instance.View{Manifest: []byte(manifest)}, plan: attempt.plan.Name,
		guessed: attempt.guessed, forced: attempt.forced,
	}
}

// play simulates a deployment of each plan, without parameters and with those of each example, and reports the failures
// as findings. The generated manifests are added to c.manifests. It also applies conditional ops files without their
// conditions, because few plans satisfy all of them. The error is not nil only if ctx ended.
func (c *player) play(ctx context.Context) error {
	for _, attempt := range c.deployments() {
		faults, err := c.deploy(ctx, attempt)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.manifestFaults(faults)
		c.reportFailure(attempt, err)
	}
	return c.playConditional(ctx)
}

// reportFailure adds the findings that the error of a simulated deployment contains, or one for any other error. It
// ignores every message to the user. It also ignores an error without findings if a sample value may have caused it, if
// the pak has an error already, or if a finding at the same position explains it. An expression that reads a declared
// variable without a value is only a warning, because the operator may set it. err may be nil.
func (c *player) reportFailure(attempt deployment, err error) {
	var findings diag.Errors
	switch {
	case err == nil, !fault.OnlyForOperator(err):
	case errors.As(err, &findings):
		for _, item := range findings {
			c.diags.Add(item)
		}
	case attempt.guessed || c.diags.HasErrors():
	default:
		pos, text := c.service.Provision.Bosh.Manifest.Pos, oneLine(err)
		var placed *diag.PositionError
		if errors.As(err, &placed) {
			pos, text = placed.Pos, strings.Replace(text, placed.Pos.String()+": ", "", 1) // the finding has the place
		}
		if slices.ContainsFunc(c.diags.All(), func(existing diag.Diagnostic) bool { return existing.Pos == pos }) {
			return // the finding at the same position is the reason
		}
		name := "without a plan"
		if attempt.plan.Name != "" {
			name = "of plan \"" + attempt.plan.Name + "\""
		}
		if errors.Is(err, expr.ErrUnknownVariable) {
			c.diags.Warnf(pos, "deployment",
				"an instance %s cannot be deployed unless the operator or the user sets a value: %s", name, text)
			return
		}
		c.diags.Errorf(pos, "deployment", "an instance %s cannot be deployed: %s", name, text)
	}
}

// oneLine returns the text of an error with each run of white space, line breaks included, replaced by a blank.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// playConditional applies each conditional ops file without evaluating its condition: once alone, and once together
// with all others, because it may depend on their changes. An operation that fails both times is reported, unless only
// a variable is invalid. The generated manifests are added to c.manifests. The error is not nil only if ctx ended.
func (c *player) playConditional(ctx context.Context) error {
	attempt := c.deployments()[0]
	attempt.forced = true
	failures := func(unconditional func(index int) bool) (findings diag.Errors) {
		attempt.service = c.simulatedService(unconditional)
		_, err := c.deploy(ctx, attempt)
		_ = errors.As(err, &findings) // an error of another type does not concern the operations
		return findings
	}
	for i, ops := range c.service.Provision.Bosh.Ops {
		if ops.If == nil {
			continue
		}
		alone := failures(func(index int) bool { return index == i })
		together := failures(func(int) bool { return true })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, item := range alone {
			samePos := func(other diag.Diagnostic) bool { return other.Pos == item.Pos }
			// A variable may refer to a key of an input that is set only if the condition is true.
			if item.Rule != "bosh-variable" && slices.ContainsFunc(together, samePos) {
				c.diags.Add(item)
			}
		}
	}
	return nil
}

// simulatedService returns a copy of the service for simulated deployments. Ops files whose index satisfies
// unconditional have no condition. The requirements on versions and the checks of plans are removed, because sample
// values need not satisfy them.
func (c *player) simulatedService(unconditional func(index int) bool) *brokerpak.Service {
	changed, bosh := *c.service, *c.service.Provision.Bosh
	bosh.Requires, bosh.Checks, bosh.Ops = brokerpak.Requires{}, nil, slices.Clone(bosh.Ops)
	for i := range bosh.Ops {
		if unconditional(i) {
			bosh.Ops[i].If = nil
		}
	}
	changed.Provision.Bosh = &bosh
	return &changed
}

// deploy generates the manifest of a simulated deployment and returns the violations of the schema of BOSH manifests.
// If generation fails with the instance groups of the template, it is repeated with those that ops files may add. A
// successful manifest is added to c.manifests. If generation fails, there are no violations. The error is nil if
// generation failed for a reason that a sample value may have caused; a diag.Errors is returned in any case. The end of
// ctx may therefore result in a nil error, so that the caller must check ctx.
func (c *player) deploy(ctx context.Context, attempt deployment) ([]schemas.ManifestFault, error) {
	var faults []schemas.ManifestFault
	generator := c.generator(&attempt)
	generator.CheckManifest = func(tree map[string]any) error {
		violations, err := schemas.ManifestFaults(tree)
		faults = append(faults, violations...)
		return err
	}
	var failed error
	for _, request := range c.requests(attempt) {
		result, err := generator.Generate(ctx, request)
		if err == nil {
			c.manifests = append(c.manifests, newSimulation(attempt, result.Manifest))
			return faults, nil
		}
		if failed == nil || errors.As(failed, new(diag.Errors)) {
			failed = err
		}
		faults = nil
	}
	if attempt.guessed && !errors.As(failed, new(diag.Errors)) {
		failed = nil
	}
	return faults, failed
}

// generator returns the generator of a simulated deployment. It sets attempt.guessed when it evaluates an expression
// that reads the environment or the configuration. The caller must set CheckManifest.
func (c *player) generator(attempt *deployment) *manifestgen.Generator {
	secure := true
	return &manifestgen.Generator{
		Secure: &secure, AllowedReferences: absoluteReferences(c.service.Provision.Bosh),
		Logger: slog.New(slog.DiscardHandler),
		Environment: vars.Environment{
			Env:    func(string) (string, bool) { attempt.guessed = true; return "1", true },
			Config: func(string) (any, bool) { attempt.guessed = true; return "1", true },
		},
		Unchecked: true,
		Provision: c.provisioned,
	}
}

// manifestFaults adds an error to c.diags for each of the violations of the schema of BOSH manifests. The position of
// each finding is the node of the manifest template that is nearest to the invalid value, which may come from an ops
// file or the plan. If the template is not valid YAML, which is another finding, manifestFaults reports nothing.
func (c *player) manifestFaults(faults []schemas.ManifestFault) {
	document := c.service.Provision.Bosh.Manifest
	root, _ := document.Tree()
	if root == nil {
		return
	}
	for _, violation := range faults {
		node := root
		for _, step := range violation.Path {
			next := child(node, step)
			if next == nil {
				break
			}
			node = next
		}
		c.diags.Errorf(document.At(node.Line, node.Column), "bosh-manifest", "the BOSH manifest is not valid: %s",
			violation.Message)
	}
}

// paths adds an error to c.diags for each constant path in a call of manifest.get that exists in none of the generated
// manifests. It does nothing if no manifest could be generated.
func (c *player) paths() {
	if len(c.manifests) == 0 {
		return
	}
	for _, site := range c.sites() {
		for _, call := range site.Calls() {
			if call.Name != "manifest.get" || call.Arg(0) == "" {
				continue
			}
			var missing error
			for _, manifest := range c.manifests {
				if _, missing = manifest.GetRaw(call.Arg(0)); missing == nil {
					break
				}
			}
			if missing != nil {
				c.diags.Errorf(call.Pos, "manifest-path", "%s", oneLine(missing))
			}
		}
	}
}

// requireName adds an error of a rule to c.diags, at pos, if a name is not one of the existing names of instance groups
// or jobs. kind is the word for them in the message. existing is sorted in place if the name is missing.
func (c *player) requireName(kind, rule string, existing []string, name string, pos diag.Pos) {
	if !slices.Contains(existing, name) {
		slices.Sort(existing)
		c.diags.Errorf(pos, rule, "the manifest has no %s %q%s; it has %s",
			kind, name, diag.Suggest(name, existing), diag.Names(existing))
	}
}

// groups reports an error for every name in the definition and in constant arguments of functions that take one, such
// as bosh.host, that is not the name of an instance group; see requireName. A group exists if the template or one of
// the generated manifests contains it.
func (c *player) groups() {
	bosh := c.service.Provision.Bosh
	existing := value.Convert(bosh.InstanceGroups(), func(group brokerpak.InstanceGroup) string { return group.Name })
	for _, manifest := range c.manifests {
		list, _ := manifest.GetRaw("/instance_groups")
		for _, group := range value.Mappings(list) {
			existing = append(existing, value.Text(group["name"]))
		}
	}
	check := func(name string, pos diag.Pos) {
		c.requireName("instance group", "instance-group", existing, name, pos)
	}
	for _, name := range bosh.OptionalInstanceGroups {
		check(name, c.positions.value(bosh.Pos, "optional_instance_groups"))
	}
	for _, group := range bosh.Groups {
		check(group.Name, group.Pos)
		if group.Like != "" {
			check(group.Like, group.Pos)
		}
	}
	for _, name := range bosh.Requires.NoScaleIn {
		check(name, c.positions.value(bosh.Pos, "requires", "no_scale_in"))
	}
	for _, site := range c.sites() {
		for _, call := range site.Calls() {
			prefix, _, _ := strings.Cut(call.Name, ".")
			ofPlan := (prefix == "plan" || prefix == "previous_plan") && call.Name != "plan.has_property"
			ofGroup := slices.Contains([]string{"bosh.host", "bosh.hosts", "previous.instances"}, call.Name) || ofPlan
			if ofGroup && call.Arg(0) != "" {
				check(call.Arg(0), call.Pos)
			}
		}
	}
}

// jobs reports an error for every name in the section requires that is not the name of a job; see requireName. A job
// exists if the template contains it or an ops file adds it.
func (c *player) jobs() {
	bosh := c.service.Provision.Bosh
	existing := bosh.JobNames()
	for _, constraint := range bosh.Requires.Jobs {
		c.requireName("job", "job", existing, constraint.Name, constraint.Pos)
	}
	for _, name := range bosh.Requires.NoDowngradeJobs {
		c.requireName("job", "job", existing, name, c.positions.value(bosh.Pos, "requires", "no_downgrade_jobs"))
	}
}
