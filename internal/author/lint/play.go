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

// A deployment is the input of a simulated deployment: a copy of the service without its preconditions, as
// simulatedService returns it, a plan, and the parameters of a user. The method player.deployment returns one, after it
// has added sample values for required inputs without any other value to the properties of the plan and to the
// parameters. The zero value has no service and cannot be used.
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

// A player simulates deployments of one service: it generates manifests without a broker, a Director or OpenTofu. It
// collects the generated manifests, and embeds the serviceCheck to which it adds its findings.
type player struct {
	*serviceCheck
	manifests []simulation // the manifests that were generated successfully
}

// A simulation is the generated manifest of a simulated deployment, with the name of its plan, which is "" without a
// plan, and the marks guessed (sample values were used) and forced (conditional ops files were applied without their
// conditions).
type simulation struct {
	*instance.View
	plan string // the name of the plan, "" without one
	// guessed means that sample values were used for the manifest.
	guessed bool
	// forced means that conditional ops files were applied without their conditions, so that no plan may have the
	// manifest.
	forced bool
}

// newSimulation returns the simulation that consists of a manifest, which is a YAML text, and of the plan's name and
// the fields guessed and forced of the deployment for which it was generated.
func newSimulation(attempt deployment, manifest string) simulation {
	return simulation{
		View: &instance.View{Manifest: []byte(manifest)}, plan: attempt.plan.Name,
		guessed: attempt.guessed, forced: attempt.forced,
	}
}

// play simulates a deployment of each plan, without parameters and with those of each example of the plan. For a
// service without plans, it does so without a plan. It adds the failures to c.diags, except those that reportFailure
// ignores, and the violations of the schema of BOSH manifests. It also applies conditional ops files without their
// conditions, because few plans satisfy all of them; see playConditional. The generated manifests are added to
// c.manifests. play returns the error of ctx if ctx ended, and nil otherwise. The service must have a bosh section.
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

// reportFailure adds the failure err of a simulated deployment to c.diags. It adds the findings that err contains if
// err is a diag.Errors. Any other error results in one finding, at the position in the error or else that of the
// manifest template: a warning if an expression reads a variable that is not set, because the operator or the user may
// set it, and else an error.
//
// reportFailure ignores a nil error and an error that contains a message to the end user, such as a rejected parameter.
// It also ignores an error without findings if a sample value may have caused it (attempt.guessed), if the pak has an
// error already, or if a finding at the same position explains it.
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
		var located *diag.PositionError
		if errors.As(err, &located) {
			pos, text = located.Pos, strings.Replace(text, located.Pos.String()+": ", "", 1) // the finding has it
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

// oneLine returns the text of an error with each run of white space, line breaks included, replaced by a single blank,
// and without white space at both ends. The error must not be nil.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// playConditional applies each conditional ops file of the service without evaluating its condition, in a deployment of
// the first plan without parameters: once alone, and once together with all others, because it may depend on their
// changes. A finding that occurs at the same position both times is added to c.diags, except one about an invalid
// ((variable)), which may be valid if the condition is true. Errors without findings, and violations of the schema of
// BOSH manifests, are ignored. The generated manifests are added to c.manifests. playConditional returns the error of
// ctx if ctx ended, and nil otherwise.
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
		single := failures(func(index int) bool { return index == i })
		combined := failures(func(int) bool { return true })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, item := range single {
			samePos := func(other diag.Diagnostic) bool { return other.Pos == item.Pos }
			// A variable may refer to a key of an input that is set only if the condition is true.
			if item.Rule != "bosh-variable" && slices.ContainsFunc(combined, samePos) {
				c.diags.Add(item)
			}
		}
	}
	return nil
}

// simulatedService returns a copy of the service for simulated deployments; the service itself is not modified. The
// conditions are removed from those ops files for whose index in the list ops the function unconditional returns true.
// All preconditions of the bosh section, which are its keys requires and checks, are removed as well, because sample
// values need not satisfy them. The service must have a bosh section.
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

// deploy generates the manifest of a simulated deployment, adds it to c.manifests, and returns its violations of the
// schema of BOSH manifests; nil means none. If generation fails with the first request that the method requests
// returns, deploy tries the second one, if there is one. The plan of the second one also has the instance groups that
// ops files may add.
//
// If generation fails with every request, deploy returns no violations and selects one error: that of the last request
// if the error of the first one contains findings (a diag.Errors), and otherwise that of the first. It returns the
// selected error, or nil if this contains no findings and sample values were used, which may be its cause. A nil error
// therefore does not mean that the manifest was generated. Because the end of ctx may also result in a nil error, the
// caller must check ctx.
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

// generator returns a generator for the manifest of a simulated deployment. It uses sample values for the outputs of
// the provision template instead of running OpenTofu, logs nothing, does not validate parameters, assumes that the
// broker stores secrets, and allows all absolute CredHub paths of the templates. Every environment variable and
// configuration value is "1"; when an expression reads one, the generator sets attempt.guessed. The caller must set the
// field CheckManifest of the result.
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

// manifestFaults adds an error to c.diags for each violation of the schema of BOSH manifests in faults. The position of
// the finding is that of the node in the manifest template that is nearest to the invalid value, which may have been
// set by an ops file or the plan. If the template is not valid YAML, which is another finding, manifestFaults does
// nothing.
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

// paths adds an error to c.diags for each call of manifest.get in the service's expressions whose path is a constant
// and exists in none of the generated manifests in c.manifests. It does nothing if no manifest could be generated.
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

// requireName adds an error to c.diags, at pos, if existing does not contain name. kind is the word for the name in the
// message, such as "instance group" or "job", and rule the rule of the finding, such as "instance-group". existing is
// sorted in place if the name is missing.
func (c *player) requireName(kind, rule string, existing []string, name string, pos diag.Pos) {
	if !slices.Contains(existing, name) {
		slices.Sort(existing)
		c.diags.Errorf(pos, rule, "the manifest has no %s %q%s; it has %s",
			kind, name, diag.Suggest(name, existing), diag.Names(existing))
	}
}

// groups adds an error to c.diags for each name that must be that of an instance group but is not. These names are in
// the bosh section, which must exist, and in expressions:
//   - optional_instance_groups, instance_groups (the names of entries and the values of like) and requires.no_scale_in
//   - the constant first argument of a function that takes a group, such as bosh.host, in provision and bind
//
// A group exists if the manifest template, an ops file for the template, whatever its condition is, or one of the
// manifests in c.manifests contains it. Templates and ops files that are not valid YAML contain none.
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

// jobs adds an error to c.diags for each name in requires.jobs and requires.no_downgrade_jobs that is not the name of a
// job. The service must have a bosh section. A job exists if the manifest template contains it, in an instance group or
// an addon, or if an ops file adds it, whatever its condition is; see brokerpak.Bosh.JobNames. Templates and ops files
// that are not valid YAML contain none.
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
