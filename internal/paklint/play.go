package paklint

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
	"service-adapter/schemas"
)

// playInstance is the id of the instances that are deployed on paper.
const playInstance = "00000000-0000-4000-8000-000000000000"

// deployment is one deployment on paper: a plan, the user's parameters, and what was made up for it.
type deployment struct {
	service    *brokerpak.Service
	plan       brokerpak.Plan // with the properties that the operator must supply; the zero value where the pak has none
	parameters map[string]any
	// guessed tells that a value was made up, so that a failure may be due to it.
	guessed bool
}

// player deploys the plans of a service on paper.
type player struct {
	*serviceCheck
	manifests []*instance.View // those that could be made
}

// play deploys each plan on paper, with its defaults and with the parameters of each example, and reports what cannot work.
// Conditional ops files are tried without their conditions as well, since few plans meet them all.
func (c *player) play(ctx context.Context) error {
	for _, attempt := range c.deployments() {
		faults, err := c.deploy(ctx, attempt)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.manifestFaults(faults)
		c.playFailed(attempt, err)
	}
	return c.playConditional(ctx)
}

// playFailed reports why a deployment cannot be made. What depends on a made-up value is no fault of the pak, and what the user
// is told is none either, nor is a name that nothing set: it is declared, and the operator may set it.
func (c *player) playFailed(attempt deployment, err error) {
	var findings diag.Errors
	switch {
	case err == nil, !fault.OfOperator(err):
	case errors.As(err, &findings):
		for _, item := range findings {
			c.diags.Add(item)
		}
	case attempt.guessed || c.diags.HasErrors() || errors.Is(err, expr.ErrUnknownVariable):
	default:
		pos, text := c.service.Provision.Bosh.Manifest.Pos, oneLine(err)
		var placed *diag.PlacedError
		if errors.As(err, &placed) {
			pos, text = placed.Pos, strings.Replace(text, placed.Pos.String()+": ", "", 1) // the finding has the place
		}
		if slices.ContainsFunc(c.diags.All(), func(known diag.Diagnostic) bool { return known.Pos == pos }) {
			return // what was found there is the reason
		}
		name := "without a plan"
		if attempt.plan.Name != "" {
			name = "of plan \"" + attempt.plan.Name + "\""
		}
		c.diags.Errorf(pos, "deployment", "an instance %s cannot be deployed: %s", name, text)
	}
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// playConditional applies each conditional ops file whatever its condition says: alone, and together with all others, which it
// may build on. What fails both ways cannot be applied.
func (c *player) playConditional(ctx context.Context) error {
	attempt := c.deployments()[0]
	fails := func(which func(index int) bool) (found diag.Errors) {
		attempt.service = c.played(which)
		_, err := c.deploy(ctx, attempt)
		_ = errors.As(err, &found) // another failure says nothing about the operations
		return found
	}
	for i, ops := range c.service.Provision.Bosh.Ops {
		if ops.If == nil {
			continue
		}
		alone, together := fails(func(index int) bool { return index == i }), fails(func(int) bool { return true })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, item := range alone {
			// The key of an input that is a mapping may be there only where the condition holds.
			if item.Rule != "bosh-variable" && slices.ContainsFunc(together, func(other diag.Diagnostic) bool { return other.Pos == item.Pos }) {
				c.diags.Add(item)
			}
		}
	}
	return nil
}

// played copies the service without the conditions of some ops files, and without the rules about versions and plans, which are not for
// made-up ones.
func (c *player) played(which func(index int) bool) *brokerpak.Service {
	changed, bosh := *c.service, *c.service.Provision.Bosh
	bosh.Requires, bosh.Checks, bosh.Ops = brokerpak.Requires{}, nil, slices.Clone(bosh.Ops)
	for i := range bosh.Ops {
		if which(i) {
			bosh.Ops[i].If = nil
		}
	}
	changed.Provision.Bosh = &bosh
	return &changed
}

// deploy makes one manifest, and returns what its schema refuses.
func (c *player) deploy(ctx context.Context, attempt deployment) ([]schemas.ManifestFault, error) {
	secure := true
	var faults []schemas.ManifestFault
	generator := &manifestgen.Generator{
		Secure: &secure, AllowedReferences: absoluteReferences(c.service.Provision.Bosh), Logger: slog.New(slog.DiscardHandler),
		Environment: vars.Environment{
			Env:    func(string) (string, bool) { attempt.guessed = true; return "1", true },
			Config: func(string) (any, bool) { attempt.guessed = true; return "1", true },
		},
		Unchecked: true,
		Provision: c.provisioned,
		CheckManifest: func(tree map[string]any) error {
			found, err := schemas.ManifestFaults(tree)
			faults = append(faults, found...)
			return err
		},
	}
	var failed error
	for _, request := range c.requests(attempt) {
		result, err := generator.Generate(ctx, request)
		if err == nil {
			c.manifests = append(c.manifests, &instance.View{Manifest: []byte(result.Manifest)})
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

// manifestFaults reports what the schema of BOSH manifests refuses, where the template has it.
func (c *player) manifestFaults(faults []schemas.ManifestFault) {
	document := c.service.Provision.Bosh.Manifest
	root, _ := document.Tree()
	if root == nil {
		return
	}
	for _, found := range faults {
		place := root
		for _, step := range found.Path {
			below := child(place, step)
			if below == nil {
				break
			}
			place = below
		}
		c.diags.Errorf(document.At(place.Line, place.Column), "bosh-manifest", "the BOSH manifest is not valid: %s", found.Message)
	}
}

// paths checks the constant paths of manifest.get against all manifests that could be made.
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
				if _, missing = manifest.Find(call.Arg(0)); missing == nil {
					break
				}
			}
			if missing != nil {
				c.diags.Errorf(call.Pos, "manifest-path", "%s", oneLine(missing))
			}
		}
	}
}

// exists reports a name of an instance group or a job that the manifest does not have.
func (c *player) exists(what, rule string, known []string, name string, pos diag.Pos) {
	if !slices.Contains(known, name) {
		slices.Sort(known)
		c.diags.Errorf(pos, rule, "the manifest has no %s %q%s; it has %s", what, name, diag.Suggest(name, known), diag.Names(known))
	}
}

// groups checks the names of instance groups wherever the definition has one: groups of the template and of manifests that were made
// from it.
func (c *player) groups() {
	bosh := c.service.Provision.Bosh
	known := value.Each(bosh.InstanceGroups(), func(group brokerpak.InstanceGroup) string { return group.Name })
	for _, manifest := range c.manifests {
		found, _ := manifest.Find("/instance_groups")
		for _, group := range value.Mappings(found) {
			known = append(known, value.Text(group["name"]))
		}
	}
	check := func(name string, pos diag.Pos) { c.exists("instance group", "instance-group", known, name, pos) }
	for _, name := range bosh.OptionalInstanceGroups {
		check(name, c.places.value(bosh.Pos, "optional_instance_groups"))
	}
	for _, group := range bosh.Groups {
		check(group.Name, group.Pos)
		if group.Like != "" {
			check(group.Like, group.Pos)
		}
	}
	for _, name := range bosh.Requires.NoScaleIn {
		check(name, c.places.value(bosh.Pos, "requires", "no_scale_in"))
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

// jobs checks the names of jobs that the rules about releases have.
func (c *player) jobs() {
	bosh := c.service.Provision.Bosh
	known, _ := c.addedByOps()
	for _, group := range bosh.InstanceGroups() {
		known = append(known, group.Jobs...)
	}
	for _, constraint := range bosh.Requires.Jobs {
		c.exists("job", "job", known, constraint.Name, constraint.Pos)
	}
	for _, name := range bosh.Requires.NoDowngradeJobs {
		c.exists("job", "job", known, name, c.places.value(bosh.Pos, "requires", "no_downgrade_jobs"))
	}
}
