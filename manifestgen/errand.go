package manifestgen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/fault"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// Errands configures the lifecycle errands apply-instance and destroy-instance, which apply and destroy the provision
// template of an instance on a VM of its deployment. It has no effect on plans without these errands.
type Errands struct {
	// Properties are the properties of the errands' jobs. Texts in them may contain expressions about the instance. A
	// plan with these errands needs a state.type other than "local" in them.
	Properties map[string]any
	// Limit is the default of the property errand_limit. It is "" for none.
	Limit string
	// Check returns an error if the errands of an instance cannot work with these properties, whose expressions are
	// evaluated. configKeys are the keys of `config` that the errands read. A nil Check accepts everything.
	Check func(service string, properties map[string]any, configKeys []string) error
	// UseInstalledTemplate lets existing instances use the provision template of the installed pak. AllowUpgrade lets
	// them use its template and its OpenTofu version.
	UseInstalledTemplate, AllowUpgrade bool
}

// ownErrands returns the errand with this name in one of the plan's lists, as a list of one element, if the errand
// belongs to this adapter. It belongs to the service instead if the definition has a group or job of the same name.
// ownErrands returns nil if the list has no such errand or if the errand belongs to the service.
func ownErrands(bosh *brokerpak.Bosh, list []serviceadapter.Errand, name string) []serviceadapter.Errand {
	at := slices.IndexFunc(list, func(errand serviceadapter.Errand) bool { return errand.Name == name })
	if at < 0 || bosh.HasGroupOrJob(name) {
		return nil
	}
	return list[at : at+1]
}

// checkErrands returns an error for the first reason why errands of this adapter in the plan cannot work, or nil. The
// reasons are: an errand is placed on several instances or on a whole group; the state backend of Errands.Properties is
// local or missing; the plan has apply-instance, but not destroy-instance, or the service has no provision template;
// the manifest needs outputs of the template, which do not exist before the errand runs; or a parameter imports an
// existing resource. All errors are *fault.UserErrors; except for such a parameter, the operator must correct the plan
// or the configuration.
func checkErrands(in *inputs) error {
	if len(in.errands) == 0 {
		return nil
	}
	for _, errand := range in.errands {
		if len(errand.Instances) > 1 || len(errand.Instances) == 1 && !strings.Contains(errand.Instances[0], "/") {
			return fault.Operatorf("the plan's lifecycle errand %q must run on exactly one instance, "+
				"as in instances: [GROUP/0]", errand.Name)
		}
	}
	settings, _ := in.Errands.Properties["state"].(map[string]any)
	if cmp.Or(value.Text(settings["type"]), "local") == "local" {
		return fault.Operatorf("the plan has lifecycle errands of the service adapter, " +
			"so errand_properties of its configuration must have a state.type " +
			"that an errand's VM can reach, such as pg: what is local is gone with the VM")
	}
	if !in.appliesByErrand {
		return nil
	}
	if !hasTemplate(in.Service) {
		return fault.Operatorf("the plan has the lifecycle errand %q, but the service has no provision template",
			record.ApplyErrand)
	}
	if !in.destroysByErrand {
		return fault.Operatorf("the plan has %q in lifecycle_errands.post_deploy, so it must have %q in pre_delete: "+
			"no other step destroys the resources of the instance", record.ApplyErrand, record.DestroyErrand)
	}
	if what, at := in.Service.Provision.FindOutputUse(in.module.Outputs); what != "" {
		return fault.Operatorf("the plan has the lifecycle errand %q, but the service's manifest needs the output %s "+
			"of the provision template (%s), which an errand makes only after the deployment: "+
			"take the errand from the plan", record.ApplyErrand, what, at)
	}
	for _, imported := range in.Service.Provision.ImportInputs {
		if value.Text(in.Parameters[imported.Name]) != "" {
			return fault.Userf("parameter %q imports an existing resource, "+
				"which is not possible in a plan with the lifecycle errand %s", imported.Name, record.ApplyErrand)
		}
	}
	return nil
}

// errandGroup returns the plan's instance group for the errands of this adapter: the group with lifecycle errand whose
// name is not in serviceGroups, the names of the service's groups. It returns nil if there is none or if the plan has
// no errands of this adapter, and a *fault.UserError if there are several.
func errandGroup(in *inputs, serviceGroups []string) (*serviceadapter.InstanceGroup, error) {
	if len(in.errands) == 0 {
		return nil, nil
	}
	var result *serviceadapter.InstanceGroup
	for i := range in.BrokerPlan.InstanceGroups {
		group := &in.BrokerPlan.InstanceGroups[i]
		if group.Lifecycle != "errand" || slices.Contains(serviceGroups, group.Name) {
			continue
		}
		if result != nil {
			return nil, fault.Operatorf("the plan has two instance groups of lifecycle errand "+
				"that the service does not know, %q and %q; its errands need one", result.Name, group.Name)
		}
		result = group
	}
	return result, nil
}

// addErrandGroup returns the groups with the instance group for the errands of this adapter appended, which has the
// jobs of the errands that the plan does not place on another instance. group is the result of errandGroup. If group is
// nil, the groups are returned unchanged. The alias is the group's stemcell. It returns a *fault.UserError if an errand
// needs the group and group is nil, or if no errand needs the group.
func addErrandGroup(in *inputs, groups []any, group *serviceadapter.InstanceGroup, alias string) ([]any, error) {
	var jobs []any
	for _, errand := range in.errands {
		if len(errand.Instances) > 0 {
			continue
		}
		if group == nil {
			return nil, fault.Operatorf("the plan's lifecycle errand %q has no instance group: "+
				"give the plan an instance group with lifecycle: errand, or the errand instances: [GROUP/0]",
				errand.Name)
		}
		jobs = append(jobs, map[string]any{"name": errand.Name})
	}
	if group == nil {
		return groups, nil
	}
	if jobs == nil {
		return nil, fault.Operatorf("the plan has an instance group %q of lifecycle errand, "+
			"but places its errands elsewhere", group.Name)
	}
	entry := map[string]any{"name": group.Name, "jobs": jobs}
	fillGroup(entry, group, alias, in.previous)
	return append(groups, entry), nil
}

// configureErrands sets, in the tree of the manifest, the properties of the jobs of this adapter's errands: those of
// the operator, the instance ID for destroy-instance, and the intent and its secrets for apply-instance. The jobs are
// recognised by their names in all instance groups. All properties that such a job has already are replaced. The tree
// is changed in place. Nothing changes if the plan has no such errands.
func configureErrands(d *decisions, tree map[string]any) {
	ownProperties := map[string]map[string]any{}
	if d.destroysByErrand {
		ownProperties[record.DestroyErrand] = map[string]any{"instance_id": d.instanceID()}
	}
	if d.appliesByErrand {
		intent, secrets := errandIntent(d)
		ownProperties[record.ApplyErrand] = map[string]any{"intent": intent.Encode(), "secrets": secrets}
	}
	for _, group := range value.Mappings(tree["instance_groups"]) {
		for name, job := range byName(group["jobs"]) {
			if ownProperties[name] != nil {
				job["properties"] = value.Merge(value.CloneMap(d.errandProperties), ownProperties[name])
			}
		}
	}
}

// errandProperties returns the operator's properties of the errands' jobs, with their expressions evaluated for the
// instance, after Errands.Check accepted them. They are nil if the plan has no errands of this adapter. The check runs
// before OpenTofu creates anything for the instance. Its keys are those that the given inputs, which the errand
// evaluates, read from the configuration, and the environment variables that the pak requires, because errands take
// these from the configuration as well. errandProperties returns an error if an expression cannot be parsed or
// evaluated, and a *fault.UserError if the check fails.
func errandProperties(r *resolution, inputs errandInputs) (map[string]any, error) {
	if len(r.errands) == 0 {
		return nil, nil
	}
	properties, err := evaluateErrandProperties(r)
	if err != nil || r.Errands.Check == nil {
		return properties, err
	}
	keys := slices.Clone(r.Pak.Manifest.RequiredEnv)
	for _, name := range inputs.names {
		byDefault := r.scope.Origins[name].Layer == vars.DefaultLayer
		keys = append(keys, r.Service.Provision.ExpressionOf(name, byDefault).ConfigKeys()...)
	}
	if err := r.Errands.Check(r.Service.Name, properties, keys); err != nil {
		return nil, fault.Operatorf("%v", err)
	}
	return properties, nil
}

// evaluateErrandProperties returns the operator's properties with their expressions evaluated for the instance, and
// with Errands.Limit as errand_limit if they lack it, as a new map. The expressions may read the IDs of the request,
// the deployment name, and credhub(NAME), which returns a reference. It returns an error if an expression cannot be
// parsed or evaluated.
func evaluateErrandProperties(r *resolution) (map[string]any, error) {
	scope := vars.NewScope(vars.Options{
		Constants: map[string]any{
			"request.instance_id": r.instanceID(), "request.service_id": r.ServiceID,
			"request.plan_id": r.identity.PlanID,
			"bosh.deployment": r.identity.Deployment,
		},
		Functions: map[string]expr.Function{
			"credhub": instance.FunctionOf(expr.String,
				func(name string) (any, error) { return "((" + name + "))", nil }),
		},
	})
	evaluated, err := value.Map(r.Errands.Properties, func(leaf any) (any, error) {
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
	if _, set := properties["errand_limit"]; !set && r.Errands.Limit != "" {
		properties["errand_limit"] = r.Errands.Limit
	}
	return properties, nil
}

// errandVersions returns the versions of the pak, template and OpenTofu with which the errand builds the instance. A
// new instance gets the installed ones. An existing one keeps its recorded versions, except that Errands.AllowUpgrade
// replaces the template and OpenTofu by the installed ones, and Errands.UseInstalledTemplate the template; if one of
// them changes, the pak is the installed one as well. An empty template or OpenTofu version means that the instance
// keeps the one it was built with, which is not recorded if no errand has built it yet. It returns an error if the pak
// has no default version of OpenTofu.
func errandVersions(in *inputs) (record.Versions, error) {
	tofu, err := in.Pak.Manifest.DefaultVersion()
	if err != nil {
		return record.Versions{}, err
	}
	installed := record.Versions{
		Pak: in.Pak.Manifest.Name, PakVersion: in.Pak.Manifest.Version,
		Template: brokerpak.Digest(in.Service.Provision.Templates), Tofu: tofu,
	}
	if !in.previous.exists() {
		return installed, nil
	}
	recorded := in.previous.record
	current := record.Versions{
		Pak: cmp.Or(recorded.Pak, installed.Pak), PakVersion: cmp.Or(recorded.PakVersion, installed.PakVersion),
	}
	if recorded.Errand != nil {
		current = *recorded.Errand
	}
	result := current
	if in.Errands.UseInstalledTemplate || in.Errands.AllowUpgrade {
		result.Template = installed.Template
	}
	if in.Errands.AllowUpgrade {
		result.Tofu = installed.Tofu
	}
	if result != current {
		result.Pak, result.PakVersion = installed.Pak, installed.PakVersion
	}
	return result, nil
}

// errandDecisions are the decisions about a provision template that an errand applies.
type errandDecisions struct {
	// inputs are the inputs that the errand evaluates.
	inputs errandInputs
	// secrets are the secret inputs of the template that are not secrets of inputs.bosh already.
	secrets []brokerpak.Secret
	// generated is the set of inputs whose values are generated and therefore secret.
	generated map[string]bool
}

// decideErrand decides which inputs the errand evaluates and which further inputs become secrets of the manifest. The
// result is zero if no errand applies the template. It returns an error if the definition has an input for which this
// is not possible; see findErrandInputs, valueSecrets and checkDerivedSecrets.
func decideErrand(r *resolution) (errandDecisions, error) {
	if !r.appliesByErrand {
		return errandDecisions{}, nil
	}
	inputs, err := findErrandInputs(r)
	if err != nil {
		return errandDecisions{}, err
	}
	secrets, generated, err := valueSecrets(r, inputs)
	if err != nil {
		return errandDecisions{}, err
	}
	return errandDecisions{inputs: inputs, secrets: secrets, generated: generated}, checkDerivedSecrets(r, generated)
}

// errandIntent returns the desired state for the errand and the values of its secrets by input. A secret's value is a
// reference, or the literal value if the broker stores no secrets; an empty value is in the intent instead. The intent
// also contains the inputs that are not secret and that the template or the inputs of the errand use. The map of
// secrets is never nil.
func errandIntent(d *decisions) (record.Intent, map[string]any) {
	intent := record.Intent{
		Instance: d.instance(), Owner: d.received.Owner, Versions: d.versions, Inputs: map[string]any{},
		Constants: d.errand.inputs.constants, EvaluatedByErrand: d.errand.inputs.names,
	}
	secrets := map[string]any{}
	for name, item := range d.scope.Values {
		if !d.errand.inputs.isNeeded(d.inputs, name) {
			continue
		}
		secret := d.definedSecrets.ofInput(name)
		if secret == nil {
			intent.Inputs[name] = item
			continue
		}
		switch chosen := d.secrets[secret.Name]; {
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
