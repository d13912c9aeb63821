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
// template of an instance on a VM of its deployment. It has no effect on plans without these errands. With the zero
// value, requests for plans with these errands fail, because the errands' properties must configure a state backend
// that is not local.
//
// Properties are the properties of the errands' jobs, in which texts may contain expressions about the instance.
// Limit is the default of the property errand_limit, or "" for none. Check returns an error if the errands of the
// named service cannot work with the evaluated properties, or with the keys of the configuration that they read; a
// nil Check accepts everything. If UseInstalledTemplate is true, existing instances use the provision template of the
// installed pak instead of the recorded one. If AllowUpgrade is true, they do so as well, and also use the default
// OpenTofu version of the installed pak, whatever UseInstalledTemplate is.
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

// ownErrands searches list, the plan's post_deploy or pre_delete errands, for the first errand with this name, and
// returns it as a list of one element, which is a part of list. It returns nil if the list has no such errand, or if
// an instance group of the manifest template, or one that an ops file adds to it, has this name or a job of this name
// (see brokerpak.Bosh.HasGroupOrJob): the errand then belongs to the service instead of this adapter.
func ownErrands(bosh *brokerpak.Bosh, list []serviceadapter.Errand, name string) []serviceadapter.Errand {
	at := slices.IndexFunc(list, func(errand serviceadapter.Errand) bool { return errand.Name == name })
	if at < 0 || bosh.HasGroupOrJob(name) {
		return nil
	}
	return list[at : at+1]
}

// checkErrands returns a *fault.UserError for the first reason why errands of this adapter in the plan cannot work. It
// returns nil if there is none, and if the plan has no errands of this adapter. These reasons apply to every errand:
//
//   - The plan places the errand on several instances, or on a whole group instead of one instance such as "GROUP/0".
//   - The property state.type in Errands.Properties is missing, empty or "local".
//
// If the plan has apply-instance, there are further reasons:
//
//   - The service has no provision template.
//   - The plan lacks destroy-instance.
//   - The manifest needs outputs of the template, which do not exist before the errand runs.
//   - A parameter of this request imports an existing resource; null and "" import none.
//
// The last one is an error for the user. In all other cases, the operator must correct the plan or the configuration.
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
			"that an errand's VM can reach, such as pg: the states of a local backend are deleted with the VM")
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
			"of the provision template (%s), which an errand creates only after the deployment: "+
			"remove the errand from the plan", record.ApplyErrand, what, at)
	}
	for _, imported := range in.Service.Provision.ImportInputs {
		if value.Text(in.Parameters[imported.Name]) != "" {
			return fault.Userf("parameter %q imports an existing resource, "+
				"which is not possible in a plan with the lifecycle errand %s", imported.Name, record.ApplyErrand)
		}
	}
	return nil
}

// errandGroup returns the plan's instance group on which the errands of this adapter run, as a pointer into the plan:
// the group with the lifecycle "errand" whose name is not among serviceGroups, the names of the groups in the manifest
// template. It returns nil and no error if the plan has no errands of this adapter, whatever its groups are, or has no
// such group. Otherwise it returns nil and a *fault.UserError if the plan has several such groups.
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
			return nil, fault.Operatorf("the plan has two instance groups with lifecycle: errand that are not groups "+
				"of the service, %q and %q; its errands need exactly one", result.Name, group.Name)
		}
		result = group
	}
	return result, nil
}

// addErrandGroup returns groups, the instance groups of the manifest, with the group for the errands of this adapter
// appended. This group has the values of group, the result of errandGroup, the stemcell alias, and the jobs of those
// errands for which the plan names no instance; see colocateErrands for the others. If group is nil and no errand needs
// it, groups is returned unchanged. addErrandGroup returns a *fault.UserError if an errand needs the group and group is
// nil, or if group is not nil and no errand needs it.
func addErrandGroup(in *inputs, groups []any, group *serviceadapter.InstanceGroup, alias string) ([]any, error) {
	var jobs []any
	for _, errand := range in.errands {
		if len(errand.Instances) > 0 {
			continue
		}
		if group == nil {
			return nil, fault.Operatorf("the plan's lifecycle errand %q has no instance group: add an instance group "+
				"with lifecycle: errand to the plan, or set instances: [GROUP/0] of the errand",
				errand.Name)
		}
		jobs = append(jobs, map[string]any{"name": errand.Name})
	}
	if group == nil {
		return groups, nil
	}
	if jobs == nil {
		return nil, fault.Operatorf("the plan has an instance group %q with lifecycle: errand, but runs its errands "+
			"on other groups", group.Name)
	}
	entry := map[string]any{"name": group.Name, "jobs": jobs}
	fillGroup(entry, group, alias, in.previous)
	return append(groups, entry), nil
}

// configureErrands sets, in place, the properties of the jobs of this adapter's errands in tree, the manifest: those of
// the operator, and the instance ID for destroy-instance or the desired state of the instance and its secrets for
// apply-instance, which replace properties of the operator with the same names. It recognises the jobs by the errands'
// names, in all instance groups, and replaces all properties that such a job already has. It changes nothing if the
// plan has no such errands or the manifest has no such jobs. It returns the lostErr of a secret input whose value is
// lost, a *fault.UserError, and then changes nothing.
func configureErrands(d *decisions, tree map[string]any) error {
	ownProperties := map[string]map[string]any{}
	if d.destroysByErrand {
		ownProperties[record.DestroyErrand] = map[string]any{"instance_id": d.instanceID()}
	}
	if d.appliesByErrand {
		intent, secrets, err := errandIntent(d)
		if err != nil {
			return err
		}
		ownProperties[record.ApplyErrand] = map[string]any{"intent": intent.Encode(), "secrets": secrets}
	}
	for _, group := range value.Mappings(tree["instance_groups"]) {
		for name, job := range byName(group["jobs"]) {
			if ownProperties[name] != nil {
				job["properties"] = value.Merge(value.CloneMap(d.errandProperties), ownProperties[name])
			}
		}
	}
	return nil
}

// errandProperties returns the operator's properties of the errands' jobs, with their expressions evaluated for the
// instance (see evaluateErrandProperties), after Errands.Check has accepted them. A nil Errands.Check accepts all
// properties. errandProperties returns nil and no error if the plan has no errands of this adapter.
//
// inputs are those that the errand itself evaluates. The check gets the name of the service, the properties, and the
// keys of the configuration that the errand needs: the environment variables that the pak requires, and the constant
// keys that the expressions of these inputs read with the function config, but not those of config.find.
//
// errandProperties returns nil and an error if an expression cannot be parsed or evaluated, and nil and a
// *fault.UserError for the operator if the check fails.
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

// evaluateErrandProperties returns Errands.Properties as a new map, in which all texts with an expression "${...}" are
// replaced by its value. If Errands.Limit is not empty and the properties lack errand_limit, even if the operator has
// configured no properties at all, it is added. The map is never nil unless there is an error; without properties and
// limit it is empty.
//
// The expressions may read request.instance_id, request.service_id, request.plan_id and bosh.deployment, and call the
// standard functions and credhub(NAME), which returns the reference "((NAME))". They cannot read the configuration, the
// environment or other variables. evaluateErrandProperties returns nil and an error if an expression cannot be parsed
// or evaluated.
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

// errandVersions returns the versions of the pak, the template and OpenTofu that the errand must use for the instance.
// The template's version is the digest of its files. A new instance gets the versions of the installed pak. A deployed
// instance keeps the versions in its record, with two exceptions: Errands.AllowUpgrade replaces those of the template
// and OpenTofu by the installed ones, and Errands.UseInstalledTemplate that of the template. If one of them changes, or
// if the record names no pak, the result identifies the installed pak.
//
// The template or OpenTofu version in the result may be "", which means that the instance keeps the one that it has.
// This happens if the instance was built without an errand, for example by generate-manifest before the plan had the
// errand, because its record then contains no versions for the errand. errandVersions returns an error if the installed
// pak has no default version of OpenTofu, even if the result does not depend on it.
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

// errandDecisions contains the decisions about a provision template that the errand apply-instance applies: the inputs
// that the errand evaluates itself, the secret inputs that become secrets of the manifest, and the inputs with
// generated values. The zero value means that no errand applies the template.
type errandDecisions struct {
	// inputs are the inputs that the errand evaluates.
	inputs errandInputs
	// secrets are the secret inputs of the template that are not secrets of inputs.bosh already.
	secrets []brokerpak.Secret
	// generated is the set of inputs whose values are generated and therefore secret.
	generated map[string]bool
}

// decideErrand decides which inputs the errand apply-instance evaluates and which further inputs become secrets of the
// manifest. It returns the zero value and no error if no errand of the plan applies the template. The decisions that
// are returned with an error must not be used. It returns an error in these cases:
//
//   - An input that depends on the configuration also depends on a generated value, the UAA client, plan properties, or
//     a function about the plan or the releases, or a document of provision.bosh contains it although its value cannot
//     be computed here; see findErrandInputs.
//   - An input that depends on the configuration reads a secret input, an expression other than that of an input reads
//     a generated input that is not a secret of the definition, or an input cannot become a secret of the manifest; see
//     valueSecrets.
//   - A new generated input is computed from one that an earlier request generated; see checkDerivedSecrets.
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

// errandIntent returns the desired state for the errand apply-instance, and the values of the secret inputs by input
// name. The desired state contains the identity, owner and versions of the instance, the inputs that the errand
// evaluates with the constants that they read, and the values of those inputs that are not secret and that the template
// or these expressions need. Every variable that is set counts as an input here.
//
// The value of a secret input is a reference, such as "((odb_secret:NAME))", or the literal value if the broker stores
// no secrets. A secret input whose literal value is nil or "" is in the desired state instead. If there is no error,
// the map of secrets is not nil. The error is the lostErr of the first secret input, by name, whose value is lost, so
// that the user must supply it again.
func errandIntent(d *decisions) (record.Intent, map[string]any, error) {
	intent := record.Intent{
		Instance: d.instance(), Owner: d.received.Owner, Versions: d.versions, Inputs: map[string]any{},
		Constants: d.errand.inputs.constants, EvaluatedByErrand: d.errand.inputs.names,
	}
	secrets := map[string]any{}
	for _, name := range value.Keys(d.scope.Values) {
		if !d.errand.inputs.isNeeded(d.inputs, name) {
			continue
		}
		secret := d.definedSecrets.ofInput(name)
		if secret == nil {
			intent.Inputs[name] = d.scope.Values[name]
			continue
		}
		switch chosen := d.secrets[secret.Name]; {
		case chosen.lostErr != nil:
			return record.Intent{}, nil, chosen.lostErr
		case chosen.reference != "":
			secrets[name] = chosen.reference
		case chosen.literal == nil || chosen.literal == "":
			intent.Inputs[name] = chosen.literal
		default:
			secrets[name] = chosen.literal
		}
	}
	return intent, secrets, nil
}
