package manifestgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// Errands say how the errands apply-instance and destroy-instance work on an instance.
type Errands struct {
	// Properties are those of their jobs. Texts may hold expressions of the instance.
	Properties map[string]any
	// Limit is the property errand_limit, unless Properties have it; "" for none.
	Limit string
	// Updates and Upgrades let existing instances get the provision template and the OpenTofu of the installed pak.
	Updates, Upgrades bool
}

// hasErrand finds a lifecycle errand of this adapter in a list of the plan's, and adds it. The definition may have a job of that name itself.
func (in *input) hasErrand(list []serviceadapter.Errand, name string) bool {
	at := slices.IndexFunc(list, func(errand serviceadapter.Errand) bool { return errand.Name == name })
	if at < 0 || in.bosh.HasGroupOrJob(name) {
		return false
	}
	in.errands = append(in.errands, list[at])
	return true
}

// checkErrands refuses plans whose errands cannot work, and requests that need the template before them.
func checkErrands(in *input) error {
	if len(in.errands) == 0 {
		return nil
	}
	for _, errand := range in.errands {
		if len(errand.Instances) > 1 || len(errand.Instances) == 1 && !strings.Contains(errand.Instances[0], "/") {
			return fault.Operatorf("the plan's lifecycle errand %q must run on exactly one instance, as in instances: [GROUP/0]", errand.Name)
		}
	}
	if settings, _ := in.Errands.Properties["state"].(map[string]any); cmp.Or(value.Text(settings["type"]), "local") == "local" {
		return fault.Operatorf("the plan has lifecycle errands of the service adapter, so errand_properties of its configuration must have a " +
			"state.type that an errand's VM can reach, such as pg: what is local is gone with the VM")
	}
	if !in.applies {
		return nil
	}
	if !hasTemplate(in.Service) {
		return fault.Operatorf("the plan has the lifecycle errand %q, but the service has no provision template", record.ApplyErrand)
	}
	if !in.destroys {
		return fault.Operatorf("the plan has %q in lifecycle_errands.post_deploy, so it must have %q in pre_delete: nothing else destroys "+
			"what that made", record.ApplyErrand, record.DestroyErrand)
	}
	if what, at := in.Service.Provision.NeedsOutputs(in.module.Outputs); what != "" {
		return fault.Operatorf("the plan has the lifecycle errand %q, but the service's manifest needs the output %s of the provision template "+
			"(%s), which an errand makes only after the deployment: take the errand from the plan", record.ApplyErrand, what, at)
	}
	for _, imported := range in.Service.Provision.ImportInputs {
		if value.Text(in.Parameters[imported.Name]) != "" {
			return fault.Userf("parameter %q imports what exists, which plans that provision by an errand cannot do", imported.Name)
		}
	}
	return nil
}

// errandGroup is the plan's group for the errands of this adapter: the one of lifecycle errand that the service does not know. Nil when
// there is none.
func errandGroup(in *input, known []string) (*serviceadapter.InstanceGroup, error) {
	if len(in.errands) == 0 {
		return nil, nil
	}
	var found *serviceadapter.InstanceGroup
	for i := range in.BrokerPlan.InstanceGroups {
		group := &in.BrokerPlan.InstanceGroups[i]
		if group.Lifecycle != "errand" || slices.Contains(known, group.Name) {
			continue
		}
		if found != nil {
			return nil, fault.Operatorf("the plan has two instance groups of lifecycle errand that the service does not know, %q and %q; "+
				"its errands need one", found.Name, group.Name)
		}
		found = group
	}
	return found, nil
}

// placeErrands adds the group of the errands of this adapter, with the jobs that the plan does not place elsewhere.
func placeErrands(in *input, groups []any, group *serviceadapter.InstanceGroup, alias string) ([]any, error) {
	var jobs []any
	for _, errand := range in.errands {
		if len(errand.Instances) > 0 {
			continue
		}
		if group == nil {
			return nil, fault.Operatorf("the plan's lifecycle errand %q has no place: give the plan an instance group with lifecycle: errand, "+
				"or the errand instances: [GROUP/0]", errand.Name)
		}
		jobs = append(jobs, map[string]any{"name": errand.Name})
	}
	if group == nil {
		return groups, nil
	}
	if jobs == nil {
		return nil, fault.Operatorf("the plan has an instance group %q of lifecycle errand, but places its errands elsewhere", group.Name)
	}
	entry := map[string]any{"name": group.Name, "jobs": jobs}
	fillGroup(entry, group, alias, in.before)
	return append(groups, entry), nil
}

// configureErrands gives the jobs of the errands their properties.
func configureErrands(in *input, p *prepared, manifest map[string]any) error {
	if len(in.errands) == 0 {
		return nil
	}
	properties, err := errandProperties(in, p)
	if err != nil {
		return err
	}
	own := map[string]map[string]any{}
	if in.destroys {
		own[record.DestroyErrand] = map[string]any{"instance_id": in.instanceID()}
	}
	if in.applies {
		intent, secrets := intend(in, p)
		own[record.ApplyErrand] = map[string]any{"intent": intent.Encode(), "secrets": secrets}
	}
	for _, group := range value.Mappings(manifest["instance_groups"]) {
		for name, job := range byName(group["jobs"]) {
			if own[name] != nil {
				job["properties"] = value.Merge(value.CloneMap(properties), own[name])
			}
		}
	}
	return nil
}

// errandProperties are the operator's properties for an instance.
func errandProperties(in *input, p *prepared) (map[string]any, error) {
	scope := vars.NewScope(vars.Options{
		Constants: map[string]any{
			"request.instance_id": in.instanceID(), "request.service_id": in.ServiceID, "request.plan_id": p.record.PlanID,
			"bosh.deployment": in.Deployment.DeploymentName,
		},
		Functions: map[string]expr.Function{
			"credhub": instance.FunctionOf(expr.String, func(name string) (any, error) { return "((" + name + "))", nil }),
		},
	})
	evaluated, err := value.Map(in.Errands.Properties, func(leaf any) (any, error) {
		text, ok := leaf.(string)
		if !ok || !strings.Contains(text, "${") {
			return leaf, nil
		}
		template, err := expr.Parse(expr.Source{Text: text})
		if err != nil {
			return nil, err
		}
		return scope.Eval("errand_properties", template)
	})
	if err != nil {
		return nil, fmt.Errorf("evaluating errand_properties of the configuration: %w", err)
	}
	properties, _ := value.Normalise(evaluated).(map[string]any)
	if _, set := properties["errand_limit"]; !set && in.Errands.Limit != "" {
		properties["errand_limit"] = in.Errands.Limit
	}
	return properties, nil
}

// versions say by what the errand makes the instance. What the operator does not let change stays as it was recorded; an instance that
// no errand made yet keeps what it has.
func versions(in *input) (record.Versions, error) {
	tofu, err := in.Pak.Manifest.DefaultVersion()
	if err != nil {
		return record.Versions{}, err
	}
	installed := record.Versions{
		Pak: in.Pak.Manifest.Name, PakVersion: in.Pak.Manifest.Version, Template: brokerpak.Digest(in.Service.Provision.Templates), Tofu: tofu,
	}
	if !in.before.exists() {
		return installed, nil
	}
	before := in.before.record
	kept := record.Versions{Pak: cmp.Or(before.Pak, installed.Pak), PakVersion: cmp.Or(before.PakVersion, installed.PakVersion)}
	if before.Errand != nil {
		kept = *before.Errand
	}
	wanted := kept
	if in.Errands.Updates || in.Errands.Upgrades {
		wanted.Template = installed.Template
	}
	if in.Errands.Upgrades {
		wanted.Tofu = installed.Tofu
	}
	if wanted != kept {
		wanted.Pak, wanted.PakVersion = installed.Pak, installed.PakVersion
	}
	return wanted, nil
}

// prepareIntent finds the inputs that are for the errand to evaluate, those that are secrets, and by what it makes the instance.
func prepareIntent(in *input, p *prepared) (err error) {
	if p.later, err = postpone(in, p); err != nil {
		return err
	}
	if p.generated, err = withValueSecrets(in, p); err != nil {
		return err
	}
	p.record.Errand = &in.versions
	return checkDerived(in, p)
}

// intend is what the errand shall make, and the values of its secrets: references, or what the manifest holds where the broker stores
// no secrets.
func intend(in *input, p *prepared) (record.Intent, map[string]any) {
	intent := record.Intent{
		Instance: in.instance(p), Owner: p.record.Owner, Versions: *p.record.Errand, Inputs: map[string]any{},
		Constants: p.later.constants, Later: p.later.names,
	}
	secrets := map[string]any{}
	for name, item := range p.scope.Values {
		if !p.later.inputs[name] && !in.passedToTemplate(name) || slices.Contains(p.later.names, name) {
			continue
		}
		secret := in.bosh.SecretOf(name)
		if secret == nil {
			intent.Inputs[name] = item
			continue
		}
		switch chosen := p.secrets[secret.Name]; {
		case chosen.reference != "":
			secrets[name] = chosen.reference
		case chosen.literal == nil || chosen.literal == "":
			intent.Inputs[name] = chosen.literal
		default:
			secrets[name] = chosen.literal
		}
	}
	return intent, secrets
}

// passedToTemplate tells whether the provision template may use an input. An instance that keeps an older template may use any.
func (in *input) passedToTemplate(name string) bool {
	return in.keepsTemplate || in.usedByTemplate(name)
}

// usedByTemplate tells whether the provision template of the pak uses an input.
func (in *input) usedByTemplate(name string) bool {
	_, declared := in.module.Variables[name]
	_, used := in.module.Undeclared[name]
	return declared || used
}

// later are inputs that the errand evaluates from its own configuration.
type later struct {
	names []string
	// inputs are the variables, constants the published names that their expressions read.
	inputs    map[string]bool
	constants map[string]any
}

// postpone finds the inputs that depend on the configuration or the environment.
func postpone(in *input, r *prepared) (later, error) {
	found := later{inputs: map[string]bool{}, constants: map[string]any{}}
	action := &in.Service.Provision
	for _, name := range action.InputNames() {
		origin := r.scope.Origins[name]
		if !origin.CallsAny(vars.OfOperator()...) {
			continue
		}
		if origin.CallsAny(brokerpak.Generators()...) {
			return found, fmt.Errorf("%s: input %q depends on the configuration and is generated, so neither the manifest nor the errand can "+
				"make it: use two inputs", origin.Pos, name)
		}
		if at := in.bosh.Mentions(name); len(at) > 0 && r.scope.Failed[name] != nil {
			return found, fmt.Errorf("%s: ((%s)): %w", at[0], name, r.scope.Failed[name])
		}
		found.names = append(found.names, name)
		if err := found.reads(in, r, action.ExpressionOf(name, origin.Layer == vars.DefaultLayer)); err != nil {
			return found, err
		}
	}
	return found, nil
}

// reads notes what the expression of a later input reads.
func (l *later) reads(in *input, r *prepared, template *expr.Template) error {
	for _, call := range template.Calls() {
		if _, own := functions(in)[call.Name]; own {
			return fmt.Errorf("%s: %s() in the expression of an input that depends on the configuration cannot be evaluated by the errand %s: "+
				"use two inputs", call.Pos, call.Name, record.ApplyErrand)
		}
	}
	published := constants(&r.record, in.GlobalLabels, in.Plan.Properties)
	for _, reference := range template.References() {
		for name := range reference.Names() {
			if item, known := published[name]; known {
				if strings.HasPrefix(name, "uaa_client") || name == planProperties {
					return fmt.Errorf("%s: %s cannot be part of an input that depends on the configuration, because it may hold secrets: use two inputs",
						reference.Pos, name)
				}
				l.constants[name] = item
			}
			l.inputs[name] = true
		}
	}
	return nil
}
