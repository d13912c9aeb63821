package manifestgen

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"service-adapter/brokerpak"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// resolution contains the variables of a request, and the parts of the record that they are resolved from. It is the
// first part of decisions, the result of the second stage of Generator.Generate. Only resolve sets the fields;
// decisions.withOutputs makes a copy whose scope also contains the outputs of the template.
type resolution struct {
	*inputs
	// identity and received are parts of the record of the new manifest.
	identity record.Identity
	received record.Received
	// earlierParameters are the parameters of earlier requests. For an instance that another adapter deployed they are
	// the values that carry_over reads from its manifest.
	earlierParameters map[string]any
	// scope holds the resolved variables.
	scope *vars.Scope
	// sticky are the values of sticky inputs, for the record.
	sticky map[string]any
	// deployedScope computes the variables of the deployed instance on its first call; see resolveDeployed.
	deployedScope func() (*vars.Scope, error)
}

// resolve merges the parameters of this request with earlier ones and resolves the variables. The imported values are
// values of user inputs that an import read from existing resources; they count as parameters of earlier requests, and
// are nil if nothing was imported. It returns an error if a variable cannot be resolved (see vars.Provision.Resolve for
// the types), or if checkPlanSecrets does.
func resolve(in *inputs, imported map[string]any) (*resolution, error) {
	r := &resolution{inputs: in, earlierParameters: value.Merge(in.previous.record.Parameters)}
	if in.previous.carried != nil {
		r.earlierParameters = in.previous.carried.Parameters(in.bosh)
	}
	importedCalls, imported := splitImported(in, imported)
	carried := vars.Generated(value.Merge(in.previous.record.Generated, importedCalls))
	existing := value.Merge(r.earlierParameters, imported)
	parameters := vars.MergeParameters(in.Service.Provision.UserInputs, existing, in.Parameters)
	r.identity, r.received = identityOf(in), receivedData(in, parameters)
	r.scope = vars.NewScope(vars.Options{
		Constants:   constants(r.identity, r.received, in.GlobalLabels, in.Plan.Properties),
		Environment: in.Environment, Functions: functions(in),
		Carried: carried, GuardReferences: true, TolerateUnset: in.appliesByErrand,
	})
	provision := vars.Provision{
		Service: in.Service, Plan: in.Plan, Defaults: in.Defaults,
		Parameters: withSecretParameters(parameters, r.received.SecretParameters),
		Deployed:   unchangedParameters(r.earlierParameters, imported, in.Parameters),
		Secrets:    slices.Concat(value.Keys(r.received.SecretParameters), in.ephemeral),
		Sticky:     stickyValues(in, in.previous.record.Sticky, in.Parameters),
		Unchecked:  in.Unchecked,
	}
	if err := provision.Resolve(r.scope); err != nil {
		return nil, err
	}
	r.sticky = stickyValues(in, r.scope.Values, nil)
	r.deployedScope = sync.OnceValues(func() (*vars.Scope, error) { return resolveDeployed(r) })
	return r, checkPlanSecrets(in, r.received.PlanProperties)
}

// instance returns the identity of the service instance: its ID, deployment, service and plan.
func (r *resolution) instance() record.Instance {
	return record.Instance{
		InstanceID: r.instanceID(), Deployment: r.identity.Deployment,
		Service: r.identity.Service, ServiceID: r.identity.ServiceID,
		Plan: r.identity.Plan, PlanID: r.identity.PlanID,
	}
}

// splitImported separates imported values by the kind of their inputs. It returns the values of generated inputs as
// results of the generating call, and those of inputs that are not computed by an expression as they are. A computed
// input counts as generated if its expression consists of a single call and reads no variables. The values of other
// computed inputs are dropped. Neither map is nil.
func splitImported(in *inputs, imported map[string]any) (generated vars.Generated, others map[string]any) {
	generated, others = vars.Generated{}, map[string]any{}
	for name, item := range imported {
		template := in.Service.Provision.ExpressionOf(name, false)
		if template == nil {
			others[name] = item
			continue
		}
		if calls := template.Calls(); len(calls) == 1 && len(template.References()) == 0 {
			generated[name] = map[string]any{calls[0].Name + "#1": item}
		}
	}
	return generated, others
}

// stickyValues selects, from values by input, those of sticky inputs, which keep the value of the first request. It
// omits inputs that are set by the requested parameters, even to null, and inputs that are the value of a secret or
// ephemeral, because their values are not recorded. The result is never nil.
func stickyValues(in *inputs, values, requested map[string]any) map[string]any {
	sticky := map[string]any{}
	for _, variable := range slices.Concat(in.Service.Provision.PlanInputs, in.Service.Provision.UserInputs) {
		item, exists := values[variable.Name]
		_, changed := requested[variable.Name]
		if exists && variable.Sticky && !changed && in.bosh.SecretOf(variable.Name) == nil {
			sticky[variable.Name] = item
		}
	}
	maps.DeleteFunc(sticky, func(name string, _ any) bool { return in.isEphemeral(name) })
	return sticky
}

// identityOf returns the identity in the record of the new manifest. The broker does not send the ID of the plan on
// upgrades; it is then read from the record of the deployed manifest, or else from the plan of the pak.
func identityOf(in *inputs) record.Identity {
	planID, _ := in.Body["plan_id"].(string)
	return record.Identity{
		Pak: in.Pak.Manifest.Name, PakVersion: in.Pak.Manifest.Version, Deployment: in.Deployment.DeploymentName,
		Service: in.Service.Name, ServiceID: in.ServiceID, Plan: in.Plan.Name,
		PlanID: cmp.Or(planID, in.previous.record.PlanID, in.Plan.ID),
	}
}

// receivedData returns the received data in the record of the new manifest, from this request and from the record of
// the deployed manifest; what the request contains takes precedence. The parameters are the merged ones; those that are
// the value of a secret are listed by name in SecretParameters instead of being recorded, and ephemeral ones are left
// out. Of the request's context and the UAA client, it keeps only the entries that expressions of the provision action
// read, and of the plan properties those that expressions of the bind action read and its plan inputs. The owner has no
// app.
func receivedData(in *inputs, parameters map[string]any) record.Received {
	action, earlier := &in.Service.Provision, in.previous.record.Received
	context, _ := in.Body["context"].(map[string]any) // an upgrade may send an empty one
	context = vars.WithoutAnnotations(value.Merge(earlier.Context, context))
	owner := record.OwnerOf(in.Body).Or(earlier.Owner)
	owner.App = "" // an instance belongs to a space, only its bindings belong to apps
	bind := &in.Service.Bind
	received := record.Received{
		Parameters: maps.Clone(parameters), SecretParameters: secretParameters(in, parameters),
		Context: usedEntries(context, action, "request.context", nil), Owner: owner,
		UAAClient: usedEntries(mergedClient(in, earlier.UAAClient), action, "uaa_client", nil),
		PlanProperties: usedEntries(in.Plan.Properties, bind, "request.plan_properties",
			brokerpak.Names(bind.PlanInputs)),
	}
	maps.DeleteFunc(received.Parameters, func(name string, _ any) bool { return received.SecretParameters[name] != "" })
	in.withoutEphemeral(&received)
	return received
}

// secretParameters returns the names of the parameters that are the value of a secret, with the name of the secret. The
// parameters are the merged ones. A parameter of an earlier request is included, although its value is not available,
// unless this request sets it to null. The map is never nil.
func secretParameters(in *inputs, parameters map[string]any) map[string]string {
	names := map[string]string{}
	for _, secret := range in.bosh.Secrets {
		if secret.Input == "" {
			continue
		}
		_, requested := in.Parameters[secret.Input]
		_, kept := in.previous.record.SecretParameters[secret.Input]
		if parameters[secret.Input] != nil || !requested && (kept || carriesSecretParameter(in, secret)) {
			names[secret.Input] = secret.Name
		}
	}
	return names
}

// carriesSecretParameter reports whether the value of the secret is a parameter and is in the carried values of another
// adapter's manifest, under the name of the secret or of the input. It is false if there are no carried values.
func carriesSecretParameter(in *inputs, secret brokerpak.Secret) bool {
	isParameter := slices.Contains(brokerpak.Names(in.Service.Provision.UserInputs), secret.Input)
	return isParameter && (in.previous.carried[secret.Name] != nil || in.previous.carried[secret.Input] != nil)
}

// withSecretParameters returns a copy of the parameters, which must not be nil, extended by the secret parameters of
// earlier requests, whose values are not available. They are set to null: this counts as set, so that they do not get
// their default. The keys of secrets are the parameters' names.
func withSecretParameters(parameters map[string]any, secrets map[string]string) map[string]any {
	all := maps.Clone(parameters)
	for name := range secrets {
		all[name] = parameters[name]
	}
	return all
}

// unchangedParameters returns the names of the earlier parameters that neither this request nor an import changes, in
// no particular order, and nil if there are none. A parameter that the request sends again with an equal value is
// unchanged.
func unchangedParameters(earlier, imported, requested map[string]any) []string {
	var names []string
	for name, item := range earlier {
		wanted, sent := requested[name]
		if _, isImported := imported[name]; !isImported && (!sent || reflect.DeepEqual(wanted, item)) {
			names = append(names, name)
		}
	}
	return names
}

// mergedClient returns the fields of the UAA client: recorded ones, those of another adapter's manifest, and those of
// the request, in increasing precedence. The broker sends the client's secret only once and later sends an empty field,
// so empty fields never replace recorded ones. earlier are the recorded fields, which are not changed.
func mergedClient(in *inputs, earlier map[string]any) map[string]any {
	merged := value.Merge(earlier, in.previous.carried.UAAClient())
	for name, item := range in.UAAClient {
		if item != nil && item != "" {
			merged[name] = item
		}
	}
	return merged
}

// usedEntries returns a copy of the map with only the entries that the expressions of an action read through a map
// variable, such as "request.context", and the entries whose names are in named, which may be nil. If an expression
// needs the whole map, all entries are kept. The copy is never nil.
func usedEntries(all map[string]any, action *brokerpak.Action, variable string, named []string) map[string]any {
	keys, whole := action.KeysRead(variable)
	picked := value.Merge(all)
	maps.DeleteFunc(picked, func(key string, _ any) bool {
		return !whole && !slices.Contains(keys, key) && !slices.Contains(named, key)
	})
	return picked
}

// checkPlanSecrets returns an error if one of the properties, which the record keeps in clear text for the bind action,
// is the value of a secret and the broker stores secrets.
func checkPlanSecrets(in *inputs, properties map[string]any) error {
	for _, secret := range in.bosh.Secrets {
		if _, clear := properties[secret.Input]; clear && in.storesSecrets() {
			return fmt.Errorf("plan property %q is the value of secret %q, "+
				"so the bind action cannot read it from the plan; "+
				"it can read the secret with manifest.get", secret.Input, secret.Name)
		}
	}
	return nil
}
