package manifestgen

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"service-adapter/brokerpak"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// resolution contains the resolved variables of a request in a scope, and the parts of the record that they are
// computed from. It is a part of decisions, the result of the second stage of Generator.Generate. resolve returns it;
// decisions.withOutputs makes a copy whose scope also contains the outputs of the template. publishedNames creates an
// incomplete one, without variables, only to list the names that expressions may use.
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

// resolve merges the parameters of this request with those of earlier requests and resolves the variables of the
// provision action in a new scope. For an instance that another adapter deployed, the values that carry_over reads from
// its manifest are the parameters of earlier requests.
//
// imported contains values of inputs, by name, that Generator.Provision passes back: those that an import read from
// existing resources, and those that the OpenTofu state has for an instance that an errand built (see
// unavailableInputs). It is nil if there are none. Imported values of generated inputs count as values that were
// generated earlier, those of inputs without an expression as parameters (see splitImported). They take precedence over
// the record, and the parameters of this request take precedence over them.
//
// If an errand applies the provision template, an input that needs a value of the configuration or the environment that
// the operator has not set causes no error; scope.Unresolved then contains it. If any other variable cannot be
// resolved, resolve returns nil and an error. The error is or contains a *fault.UserError if a parameter is invalid or
// an expression fails because of one, and a *schemas.ValueError if a value of the plan, the operator or the definition
// does not fit its input; an expression that fails for other reasons is another error. If the record would contain a
// plan property that is the value of a secret (see checkPlanSecrets), the error is returned together with the
// resolution, which must not be used.
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
		Deployed:   unchangedParameters(r.earlierParameters, imported, in.Parameters, parameters),
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

// instance returns the identity of the service instance, by which the provision template and its errands refer to it:
// the ID and the deployment of the instance, and the names and IDs of its service and plan.
func (r *resolution) instance() record.Instance {
	return record.Instance{
		InstanceID: r.instanceID(), Deployment: r.identity.Deployment,
		Service: r.identity.Service, ServiceID: r.identity.ServiceID,
		Plan: r.identity.Plan, PlanID: r.identity.PlanID,
	}
}

// splitImported separates imported, which maps the names of inputs to the values that resolve receives, by the kind
// of the inputs. A computed input has an expression if its value is a string, even one without ${...}. Default
// expressions of user inputs do not matter.
//
// others contains the values for all names that are not those of computed inputs with an expression: the names of
// other inputs, also of computed inputs whose value is not a string, and names that no input has. generated contains
// the values of computed inputs whose expression is one function call, which reads no variables, with constant text
// around it. Such a value without that text counts as the result of the call, which is named as in "rand.base64#1"; a
// value that lacks the text is dropped. The values of computed inputs with any other expression are dropped, because
// they are computed again. Neither map is nil, even if imported is.
func splitImported(in *inputs, imported map[string]any) (generated vars.Generated, others map[string]any) {
	generated, others = vars.Generated{}, map[string]any{}
	for name, item := range imported {
		template := in.Service.Provision.ExpressionOf(name, false)
		if template == nil {
			others[name] = item
			continue
		}
		calls := template.Calls()
		before, after, isCall := template.SingleCall()
		if !isCall || len(calls) != 1 || len(template.References()) > 0 {
			continue
		}
		if before+after != "" {
			text, hasBefore := strings.CutPrefix(value.Text(item), before)
			text, hasAfter := strings.CutSuffix(text, after)
			if !hasBefore || !hasAfter {
				continue
			}
			item = text
		}
		generated[name] = map[string]any{calls[0].Name + "#1": item}
	}
	return generated, others
}

// stickyValues returns the entries of values, which are values by input, that belong to sticky inputs of the provision
// action: inputs that keep their value until a request changes it. It omits inputs that are keys of requested, the
// parameters of a request, even if they are set to null; requested may be nil. It also omits inputs that are the value
// of a secret and ephemeral inputs, because their values are not recorded. The result is a new map and never nil.
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

// identityOf returns the identity in the record of the new manifest: the pak with its version, the deployment, the
// service and the plan. The ID of the plan is plan_id in the body of the request; the broker does not send it on
// upgrades. It is then read from the record of the deployed manifest, or else from the plan of the pak, and is "" if
// all of these lack it.
func identityOf(in *inputs) record.Identity {
	planID, _ := in.Body["plan_id"].(string)
	return record.Identity{
		Pak: in.Pak.Manifest.Name, PakVersion: in.Pak.Manifest.Version, Deployment: in.Deployment.DeploymentName,
		Service: in.Service.Name, ServiceID: in.ServiceID, Plan: in.Plan.Name,
		PlanID: cmp.Or(planID, in.previous.record.PlanID, in.Plan.ID),
	}
}

// receivedData returns the part of the new manifest's record that contains data from requests, because the broker does
// not send it again. It combines the data of this request with that in the record of the deployed manifest; the data of
// this request takes precedence. parameters are the merged parameters of all requests. They are recorded, except those
// that are the value of a secret, which are listed by name in SecretParameters, and ephemeral ones.
//
// Of the request's context, without annotations, and of the UAA client (see mergedClient), the result contains only the
// entries that expressions of the provision action read. Of the plan's properties, which are those of this request, it
// contains those that are plan inputs of the bind action or that its expressions read, but not those that only
// ephemeral inputs of the bind action need. The owner is the organization and the space, without an app. The arguments
// are not changed.
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

// secretParameters returns the names of the parameters that are the value of a secret, with the names of the secrets as
// values. parameters are the merged parameters of all requests; one that is missing or null in them is not included,
// with one exception: a secret parameter of an earlier request, whose value this call does not have, is included if the
// record lists it or if carry_over read it from the manifest of another adapter, unless this request itself sets it to
// null. The map is never nil.
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

// carriesSecretParameter reports whether the value of the secret is a user input of the provision action, and
// carry_over read a value for it from the manifest of another adapter, under the name of the secret or of the input. It
// is false if the deployed manifest is not that of another adapter, and on create.
func carriesSecretParameter(in *inputs, secret brokerpak.Secret) bool {
	isParameter := slices.Contains(brokerpak.Names(in.Service.Provision.UserInputs), secret.Input)
	return isParameter && (in.previous.carried[secret.Name] != nil || in.previous.carried[secret.Input] != nil)
}

// withSecretParameters returns a copy of parameters, in which every key of secrets is set. secrets maps the names of
// secret parameters to the names of their secrets. A secret parameter that parameters contains keeps its value. One
// that is missing was set by an earlier request, and its value is not available; it is set to nil, so that it counts
// as set and does not get its default. parameters must not be nil; it is not changed.
func withSecretParameters(parameters map[string]any, secrets map[string]string) map[string]any {
	all := maps.Clone(parameters)
	for name := range secrets {
		all[name] = parameters[name]
	}
	return all
}

// unchangedParameters returns the names of those parameters of earlier requests that this request leaves unchanged.
// earlier and requested are the parameters of the earlier requests and of this request, imported the values that
// resolve receives from an import or from the OpenTofu state; all of them are by name and may be nil. A parameter that
// the request sends again with an equal value is unchanged; a parameter that was imported counts as changed, even if
// the value is equal. merged are the parameters that result from all three; a parameter that is not among them, because
// a null resets it, counts as changed. The order is random. The result is nil if there are none.
func unchangedParameters(earlier, imported, requested, merged map[string]any) []string {
	var names []string
	for name, item := range earlier {
		wanted, sent := requested[name]
		_, isImported := imported[name]
		_, isSet := merged[name]
		if isSet && !isImported && (!sent || reflect.DeepEqual(wanted, item)) {
			names = append(names, name)
		}
	}
	return names
}

// mergedClient returns the fields of the UAA client, such as client_id, by name without a prefix. They are taken from
// the request, otherwise from the values that carry_over reads from another adapter's manifest, otherwise from earlier,
// the recorded fields. A field of the request that is null or "" counts as missing, because the broker sends the
// client's secret only once and an empty field later. The result is a new map, never nil; earlier is not changed.
func mergedClient(in *inputs, earlier map[string]any) map[string]any {
	merged := value.Merge(earlier, in.previous.carried.UAAClient())
	for name, item := range in.UAAClient {
		if item != nil && item != "" {
			merged[name] = item
		}
	}
	return merged
}

// usedEntries returns a copy of the map all with only the entries that are needed: those that the expressions of the
// action read through the map variable of this name, such as "request.context", and those whose keys are in named,
// which may be nil. If an expression reads the whole variable or computes the key, all entries are kept. The copy is
// never nil; the values are not copied.
func usedEntries(all map[string]any, action *brokerpak.Action, variable string, named []string) map[string]any {
	keys, whole := action.KeysRead(variable)
	picked := value.Merge(all)
	maps.DeleteFunc(picked, func(key string, _ any) bool {
		return !whole && !slices.Contains(keys, key) && !slices.Contains(named, key)
	})
	return picked
}

// checkPlanSecrets returns an error if the broker stores secrets and a plan property has the name of an input that is
// the value of a secret. properties are the plan properties, by name, that the record contains in clear text for the
// bind action; their values are not compared. The secrets are those of the definition and, if an errand applies the
// template, those of parameterSecrets. The error names the first such secret and is not a *fault.UserError. The result
// is nil if there is no such property, and if the broker stores no secrets.
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
