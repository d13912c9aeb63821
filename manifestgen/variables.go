package manifestgen

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// readPrevious finds what the previous manifest remembers.
func (w *generation) readPrevious() error {
	w.old = &oldManifest{text: w.PreviousManifest}
	if len(w.PreviousManifest) == 0 {
		return nil
	}
	previous, err := record.FromManifest(w.PreviousManifest)
	if err != nil {
		return err
	}
	if previous != nil {
		w.previous = previous
		return nil
	}
	tree, err := w.old.yamlTree()
	if err != nil {
		return err
	}
	if root, _ := tree.(map[any]any); len(root) == 0 {
		return errors.New("reading the previous manifest: it is no BOSH manifest")
	}
	if w.carried, err = instance.CarryOver(w.bosh, w.old.find); err != nil {
		return err
	}
	for _, name := range value.Keys(w.carried) {
		if !w.isSecret(name) && !w.isReference(name) && vars.HasReference(w.carried[name]) {
			return fmt.Errorf("carry_over of %q: the previous manifest has a reference there; make the input a secret", name)
		}
	}
	return nil
}

// resolve merges parameters and computes the variables.
func (w *generation) resolve() error {
	earlier := w.record // empty
	if w.previous != nil {
		earlier = *w.previous
	}
	w.record = record.Record{
		Pak: w.Pak.Manifest.Name, PakVersion: w.Pak.Manifest.Version, Deployment: w.Deployment.DeploymentName,
		Service: w.Service.Name, ServiceID: w.ServiceID, Plan: w.Plan.Name, PlanID: w.planID(earlier),
		OrganizationGUID: firstText(w.contextText("organization_guid"), w.bodyText("organization_guid"), earlier.OrganizationGUID),
		SpaceGUID:        firstText(w.contextText("space_guid"), w.bodyText("space_guid"), earlier.SpaceGUID),
		Context:          w.context(earlier),
		UAAClient:        w.uaaClient(earlier),
	}
	action := &w.Service.Provision
	w.earlier = w.earlierParameters(earlier)
	before := value.CloneMap(w.earlier)
	maps.Copy(before, w.found)
	parameters := vars.MergeParameters(action.UserInputs, before, w.Parameters)
	w.splitSecretParameters(earlier, parameters)
	w.scope = vars.NewScope(vars.Options{
		Constants: w.constants(), Environment: w.Environment,
		Functions: w.functions(),
		Carried:   vars.Generated(earlier.Generated), GuardReferences: true,
	})
	provision := vars.Provision{
		Service: w.Service, Plan: w.Plan, Defaults: w.Defaults, Parameters: parameters,
		Deployed: w.keptParameters(), Secrets: w.secretInputs(), Check: w.checkValues,
	}
	if err := provision.Resolve(w.scope); err != nil {
		return err
	}
	w.record.PlanProperties = pick(w.Plan.Properties, &w.Service.Bind, "request.plan_properties", inputNames(w.Service.Bind.PlanInputs))
	for _, secret := range w.bosh.Secrets {
		if _, clear := w.record.PlanProperties[secret.Input]; clear && *w.Secure {
			return fmt.Errorf("plan property %q is the value of secret %q, so the bind action cannot read it from the plan; "+
				"it can read the secret with manifest.get", secret.Input, secret.Name)
		}
	}
	return nil
}

// checkValues validates the variables. A secret's input whose value stays in CredHub counts as given.
func (w *generation) checkValues(inputs []brokerpak.Variable, values map[string]any, subject func(input string) string) error {
	var present []brokerpak.Variable
	for _, input := range inputs {
		if _, kept := w.record.SecretParameters[input.Name]; kept && values[input.Name] == nil {
			continue
		}
		present = append(present, input)
	}
	return w.CheckValues(present, values, subject)
}

// earlierParameters are the user's parameters of earlier requests; for a manifest of another adapter those that carry_over
// names.
func (w *generation) earlierParameters(earlier record.Record) map[string]any {
	if w.carried == nil {
		return orEmpty(value.CloneMap(earlier.Parameters))
	}
	return w.carried.Parameters(w.bosh)
}

// keptParameters names the parameters that the deployed instance has already and that this request leaves as they are.
func (w *generation) keptParameters() []string {
	var names []string
	for name, item := range w.earlier {
		requested, sent := w.Parameters[name]
		_, found := w.found[name]
		if !found && (!sent || reflect.DeepEqual(requested, item)) {
			names = append(names, name)
		}
	}
	return names
}

// splitSecretParameters moves parameters that are values of secrets out of what the record remembers. Those of earlier requests
// then are null, which counts as set, so that no default takes their place.
func (w *generation) splitSecretParameters(earlier record.Record, parameters map[string]any) {
	w.record.Parameters = value.CloneMap(parameters)
	w.record.SecretParameters = map[string]string{}
	for _, secret := range w.bosh.Secrets {
		if secret.Input == "" {
			continue
		}
		_, requested := w.Parameters[secret.Input]
		_, kept := earlier.SecretParameters[secret.Input]
		kept = (kept || w.carries(secret)) && !requested
		given := parameters[secret.Input] != nil
		if given || kept {
			w.record.SecretParameters[secret.Input] = secret.Name
			delete(w.record.Parameters, secret.Input)
		}
		if kept && !given {
			parameters[secret.Input] = nil
		}
	}
}

// carries tells whether the manifest of another adapter had the value of a secret that is a parameter.
func (w *generation) carries(secret brokerpak.Secret) bool {
	isParameter := slices.ContainsFunc(w.Service.Provision.UserInputs, func(v brokerpak.Variable) bool { return v.Name == secret.Input })
	return isParameter && (w.carried[secret.Name] != nil || w.carried[secret.Input] != nil)
}

func (w *generation) secretInputs() []string {
	var names []string
	for _, secret := range w.bosh.Secrets {
		if secret.Input != "" {
			names = append(names, secret.Input)
		}
	}
	return names
}

// isSecret tells whether a name is that of a secret, or of the input that is its value.
func (w *generation) isSecret(name string) bool {
	return slices.ContainsFunc(w.bosh.Secrets, func(s brokerpak.Secret) bool { return s.Name == name || s.Input == name })
}

// constants are the published names of a provision call, and those of BOSH.
func (w *generation) constants() map[string]any {
	constants := map[string]any{
		"request.service_id":                        w.record.ServiceID,
		"request.plan_id":                           w.record.PlanID,
		"request.instance_id":                       instance.ID(w.Deployment.DeploymentName),
		"request.context":                           orEmpty(w.record.Context),
		"request.x_broker_api_originating_identity": map[string]any{}, // the broker does not pass it on
		"bosh.deployment":                           w.Deployment.DeploymentName,
		"uaa_client":                                orEmpty(w.record.UAAClient),
	}
	constants[defaultLabels] = w.defaultLabels()
	for _, field := range uaaFields {
		constants["uaa_client."+field] = w.record.UAAClient[field]
	}
	return constants
}

// uaaFields are the fields of a UAA client as the broker sends it.
var uaaFields = []string{ //nolint:gochecknoglobals // a constant table
	"allowpublic", "authorities", "authorized_grant_types", "client_id", "client_secret", "name", "redirect_uri",
	"resource_ids", "scopes",
}

func (w *generation) functions() map[string]expr.Function {
	return instance.ProvisionFunctions(&w.BrokerPlan, w.Plan.Properties, w.releaseVersions())
}

// releaseVersions are the versions of the deployment's releases.
func (w *generation) releaseVersions() map[string]string {
	versions := map[string]string{}
	for _, release := range w.Deployment.Releases {
		versions[release.Name] = release.Version
	}
	return versions
}

// withPrevious adds the names that only rules and the update block may use: in a value they would differ between the broker's
// check for pending changes and the update itself.
func (w *generation) withPrevious() *vars.Scope { return w.scope.With(w.previousNames()) }

func (w *generation) previousNames() (map[string]any, map[string]expr.Function) {
	return map[string]any{
		"previous.exists":          len(w.PreviousManifest) > 0,
		"previous_plan.properties": orEmpty(w.PreviousProperties),
	}, instance.PlanFunctions("previous_plan", w.PreviousPlan)
}

func (w *generation) planID(earlier record.Record) string {
	return firstText(w.bodyText("plan_id"), earlier.PlanID, w.Plan.ID)
}

func (w *generation) bodyText(key string) string {
	text, _ := w.Body[key].(string)
	return text
}

func (w *generation) contextText(key string) string {
	sent, _ := w.Body["context"].(map[string]any)
	text, _ := sent[key].(string)
	return text
}

// context returns the keys of the request context that expressions use: as sent now, else as remembered. An upgrade may send an
// empty one.
func (w *generation) context(earlier record.Record) map[string]any {
	sent, ok := w.Body["context"].(map[string]any)
	if !ok {
		return pick(earlier.Context, &w.Service.Provision, "request.context", nil)
	}
	merged := value.CloneMap(earlier.Context)
	if merged == nil {
		merged = map[string]any{}
	}
	maps.Copy(merged, sent)
	for _, name := range vars.Annotations() {
		delete(merged, name)
	}
	return pick(merged, &w.Service.Provision, "request.context", nil)
}

// uaaClient keeps the fields that expressions use. The broker sends the client's secret only once, later it is empty: an empty
// field never replaces a kept one.
func (w *generation) uaaClient(earlier record.Record) map[string]any {
	merged := value.CloneMap(earlier.UAAClient)
	if merged == nil {
		merged = map[string]any{}
	}
	maps.Copy(merged, w.carried.UAAClient())
	for name, item := range w.UAAClient {
		if item != nil && item != "" {
			merged[name] = item
		}
	}
	return pick(merged, &w.Service.Provision, "uaa_client", nil)
}

// pick returns the entries that an action's expressions use through a map variable, and the named ones; nil when none.
func pick(all map[string]any, action *brokerpak.Action, variable string, named []string) map[string]any {
	keys, whole := action.Uses(variable)
	picked := map[string]any{}
	for key, item := range all {
		if whole || slices.Contains(keys, key) || slices.Contains(named, key) {
			picked[key] = item
		}
	}
	if len(picked) == 0 {
		return nil
	}
	return picked
}

func inputNames(inputs []brokerpak.Variable) []string {
	names := make([]string, len(inputs))
	for i, input := range inputs {
		names[i] = input.Name
	}
	return names
}

// finishRecord completes the record and drops what no expression uses, so that it holds no more of a request than it must.
func (w *generation) finishRecord(used []string) {
	w.record.Generated = w.generatedValues()
	if keys, whole := w.Service.Provision.Uses(defaultLabels); !whole && len(keys) == 0 {
		w.record.OrganizationGUID, w.record.SpaceGUID = "", ""
	}
	w.record.Secrets = w.rememberedSecrets(used)
	for _, secret := range w.bosh.Secrets {
		if field, ok := strings.CutPrefix(secret.Input, uaaPrefix); ok && *w.Secure {
			delete(w.record.UAAClient, field)
		}
	}
}

// generatedValues are those that this call used, and those of inputs that had another value this time: an input that is reset
// gets its first value again.
func (w *generation) generatedValues() map[string]map[string]any {
	generated := map[string]map[string]any(w.scope.Generated)
	if w.previous == nil {
		return generated
	}
	for _, name := range w.Service.Provision.InputNames() {
		if calls, ok := w.previous.Generated[name]; ok && generated[name] == nil {
			generated[name] = calls
		}
	}
	return generated
}

func orEmpty(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

func firstText(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
