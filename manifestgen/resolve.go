package manifestgen

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// resolve merges parameters and computes the variables. Found are values that the instance has: those of user inputs count as parameters
// of earlier requests.
func resolve(in *input, found map[string]any) (*prepared, error) {
	r := &prepared{record: in.before.record, earlier: value.Merge(in.before.record.Parameters)}
	if in.before.carried != nil {
		r.earlier = in.before.carried.Parameters(in.bosh)
	}
	sticky := stickyValues(in, r.record.Sticky, in.Parameters)
	carried := vars.Generated(value.Merge(r.record.Generated))
	found = carryFound(in, found, carried)
	parameters := vars.MergeParameters(in.Service.Provision.UserInputs, value.Merge(r.earlier, found), in.Parameters)
	r.record = startRecord(in, r.record, parameters)
	r.scope = vars.NewScope(vars.Options{
		Constants: constants(&r.record, in.GlobalLabels, in.Plan.Properties), Environment: in.Environment, Functions: functions(in),
		Carried: carried, GuardReferences: true, Later: in.applies,
	})
	provision := vars.Provision{
		Service: in.Service, Plan: in.Plan, Defaults: in.Defaults, Parameters: withSecrets(parameters, r.record.SecretParameters),
		Deployed: keptParameters(r.earlier, found, in.Parameters), Secrets: value.Keys(r.record.SecretParameters), Sticky: sticky,
		Unchecked: in.Unchecked,
	}
	if err := provision.Resolve(r.scope); err != nil {
		return nil, err
	}
	r.record.Sticky = stickyValues(in, r.scope.Values, nil)
	return r, checkPlanSecrets(in, r.record.PlanProperties)
}

// stickyValues are those of the sticky inputs but for the ones that are requested anew. A secret stays in CredHub.
func stickyValues(in *input, values, requested map[string]any) map[string]any {
	kept := map[string]any{}
	for _, variable := range slices.Concat(in.Service.Provision.PlanInputs, in.Service.Provision.UserInputs) {
		item, known := values[variable.Name]
		if _, changed := requested[variable.Name]; known && variable.Sticky && !changed && in.bosh.SecretOf(variable.Name) == nil {
			kept[variable.Name] = item
		}
	}
	return kept
}

// startRecord is the record after a request, as far as the request and the earlier record tell.
func startRecord(in *input, earlier record.Record, parameters map[string]any) record.Record {
	action := &in.Service.Provision
	sent, _ := in.Body["context"].(map[string]any) // an upgrade may send an empty one
	planID, _ := in.Body["plan_id"].(string)
	owner := record.OwnerOf(in.Body).Or(earlier.Owner)
	owner.App = "" // apps are bound to it
	r := record.Record{
		Pak: in.Pak.Manifest.Name, PakVersion: in.Pak.Manifest.Version, Deployment: in.Deployment.DeploymentName,
		Service: in.Service.Name, ServiceID: in.ServiceID, Plan: in.Plan.Name,
		PlanID:           cmp.Or(planID, earlier.PlanID, in.Plan.ID),
		Owner:            owner,
		Context:          pick(vars.WithoutAnnotations(value.Merge(earlier.Context, sent)), action, "request.context", nil),
		UAAClient:        pick(mergedClient(in, earlier.UAAClient), action, "uaa_client", nil),
		PlanProperties:   pick(in.Plan.Properties, &in.Service.Bind, "request.plan_properties", brokerpak.Names(in.Service.Bind.PlanInputs)),
		SecretParameters: map[string]string{}, Parameters: maps.Clone(parameters),
	}
	for _, secret := range in.bosh.Secrets {
		if secret.Input == "" {
			continue
		}
		_, requested := in.Parameters[secret.Input]
		_, kept := earlier.SecretParameters[secret.Input]
		if parameters[secret.Input] != nil || !requested && (kept || carries(in, secret)) {
			r.SecretParameters[secret.Input] = secret.Name
		}
	}
	maps.DeleteFunc(r.Parameters, func(name string, _ any) bool { return r.SecretParameters[name] != "" })
	return r
}

// carries tells whether the manifest of another adapter had the value of a secret that is a parameter.
func carries(in *input, secret brokerpak.Secret) bool {
	isParameter := slices.Contains(brokerpak.Names(in.Service.Provision.UserInputs), secret.Input)
	return isParameter && (in.before.carried[secret.Name] != nil || in.before.carried[secret.Input] != nil)
}

// withSecrets adds the parameters of earlier requests that are values of secrets. They are null, which counts as set, so that no
// default takes their place.
func withSecrets(parameters map[string]any, secrets map[string]string) map[string]any {
	all := maps.Clone(parameters)
	for name := range secrets {
		all[name] = parameters[name]
	}
	return all
}

// keptParameters names the parameters that the deployed instance has already and that this request leaves as they are.
func keptParameters(earlier, found, requested map[string]any) []string {
	var names []string
	for name, item := range earlier {
		wanted, sent := requested[name]
		if _, imported := found[name]; !imported && (!sent || reflect.DeepEqual(wanted, item)) {
			names = append(names, name)
		}
	}
	return names
}

// mergedClient is the UAA client. The broker sends the client's secret only once, later it is empty: an empty field never replaces a
// kept one.
func mergedClient(in *input, earlier map[string]any) map[string]any {
	merged := value.Merge(earlier, in.before.carried.UAAClient())
	for name, item := range in.UAAClient {
		if item != nil && item != "" {
			merged[name] = item
		}
	}
	return merged
}

// pick returns the entries that an action's expressions use through a map variable, and the named ones.
func pick(all map[string]any, action *brokerpak.Action, variable string, named []string) map[string]any {
	keys, whole := action.Uses(variable)
	picked := value.Merge(all)
	maps.DeleteFunc(picked, func(key string, _ any) bool {
		return !whole && !slices.Contains(keys, key) && !slices.Contains(named, key)
	})
	return picked
}

// checkPlanSecrets refuses a plan property that is kept for the bind action in clear and is the value of a secret.
func checkPlanSecrets(in *input, properties map[string]any) error {
	for _, secret := range in.bosh.Secrets {
		if _, clear := properties[secret.Input]; clear && in.storesSecrets() {
			return fmt.Errorf("plan property %q is the value of secret %q, so the bind action cannot read it from the plan; "+
				"it can read the secret with manifest.get", secret.Input, secret.Name)
		}
	}
	return nil
}

// checkRequest refuses what would become a reference to a credential, or would not come out as it is.
func checkRequest(in *input) error {
	if strings.ContainsAny(in.Deployment.DeploymentName, "()"+maskRunes) {
		return fmt.Errorf("the deployment name %q must not hold parentheses", in.Deployment.DeploymentName)
	}
	for _, name := range value.Keys(in.Parameters) {
		if err := checkReserved(name, map[string]any{name: in.Parameters[name]}, true); err != nil {
			return err
		}
	}
	if in.Unchecked {
		return nil
	}
	return schemas.CheckParameters(&in.Service.Provision, in.Plan.Properties, in.Parameters, in.before.exists())
}
