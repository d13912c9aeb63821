package semantics_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"sync"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// instance is the service instance of a case.
type instance struct {
	recorded
	service *brokerpak.Service
	getenv  func(string) (string, bool)

	exists     bool
	plan       brokerpak.Plan
	parameters map[string]any
	outputs    map[string]any
}

// instances provisions instances with the real OpenTofu, equal ones once.
type instances struct {
	engine *tofu.Engine
	tofu   tofu.Installation

	lock    sync.Mutex
	applied map[string]func() (map[string]any, error)
}

func stateDir(root string) string { return filepath.Join(root, "state") }
func cacheDir(root string) string { return filepath.Join(root, "cache") }

func newInstances(root string) (*instances, error) {
	engine, err := tofu.New(tofu.Options{CacheDir: cacheDir(root), Backend: tofu.Local(stateDir(root))})
	return &instances{
		engine: engine, tofu: tofu.Installation{Binary: tofuBinary(), Version: tofuVersion},
		applied: map[string]func() (map[string]any, error){},
	}, err
}

// request provisions or updates the instance: it resolves the variables as generate-manifest does and applies the template.
func (all *instances) request(ctx context.Context, i *instance, s step) error {
	body, err := value.DecodeObject([]byte(i.body(s)))
	if err != nil {
		return err
	}
	planID, _ := body["plan_id"].(string)
	plan := i.service.Plan(planID)
	if plan == nil {
		return fmt.Errorf("no plan %q", planID)
	}
	requested, _ := body["parameters"].(map[string]any)
	action := &i.service.Provision
	err = schemas.CheckParameters(schemas.Request{Action: action, Plan: plan.Properties, Parameters: requested, Update: s.Op == "update"})
	if err != nil {
		return err
	}
	defaults, err := i.operatorDefaults()
	if err != nil {
		return err
	}
	parameters := vars.MergeParameters(action.UserInputs, i.parameters, requested)
	scope := vars.NewScope(vars.Options{
		Constants: i.constants(body), Environment: vars.Environment{Env: i.getenv}, GuardReferences: true,
	})
	provision := vars.Provision{
		Service: i.service, Plan: *plan, Defaults: defaults, Parameters: parameters, Check: schemas.CheckValues,
	}
	if err := provision.Resolve(scope); err != nil {
		return err
	}
	outputs, err := all.apply(ctx, action, scope.Values)
	if err != nil {
		return err
	}
	i.exists, i.plan, i.parameters, i.outputs = true, *plan, parameters, outputs
	return nil
}

// operatorDefaults are GSB_PROVISION_DEFAULTS and those of the service.
func (i *instance) operatorDefaults() ([]map[string]any, error) {
	var all []map[string]any
	for _, name := range []string{"GSB_PROVISION_DEFAULTS", "GSB_SERVICE_" + i.service.EnvName() + "_PROVISION_DEFAULTS"} {
		text, ok := i.getenv(name)
		if !ok {
			continue
		}
		defaults, err := value.DecodeObject([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", name, err)
		}
		all = append(all, defaults)
	}
	return all, nil
}

var labelText = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)

// constants are the names that expressions of a provision action see.
func (i *instance) constants(body map[string]any) map[string]any {
	requestContext, _ := body["context"].(map[string]any)
	requestContext = value.CloneMap(requestContext)
	for _, name := range vars.Annotations() {
		delete(requestContext, name)
	}
	label := func(text any) string { return labelText.ReplaceAllString(value.Text(text), "_") }
	return map[string]any{
		"request.service_id": body["service_id"], "request.plan_id": body["plan_id"], "request.instance_id": i.instanceID(),
		"request.default_labels": map[string]any{
			"pcf-organization-guid": label(body["organization_guid"]), "pcf-space-guid": label(body["space_guid"]),
			"pcf-instance-id": label(i.instanceID()),
		},
		"request.context": requestContext,
		"request.x_broker_api_originating_identity": map[string]any{},
	}
}

// apply runs the template of an action and returns its outputs.
func (all *instances) apply(ctx context.Context, action *brokerpak.Action, variables map[string]any) (map[string]any, error) {
	template := tofu.Template{Files: action.Templates, Inputs: action.InputNames()}
	sum := sha256.Sum256(value.MustJSON([]any{texts(template.Files), variables}))
	key := hex.EncodeToString(sum[:])
	all.lock.Lock()
	run, ok := all.applied[key]
	if !ok {
		run = sync.OnceValues(func() (map[string]any, error) { return all.run(ctx, "i-"+key, template, variables) })
		all.applied[key] = run
	}
	all.lock.Unlock()
	return run()
}

func texts(files map[string]string) map[string]any {
	result := map[string]any{}
	for name, text := range files {
		result[name] = text
	}
	return result
}

func (all *instances) run(
	ctx context.Context, name string, template tofu.Template, variables map[string]any,
) (outputs map[string]any, err error) {
	prepared, err := all.engine.Prepare(ctx, all.tofu, template)
	if err != nil {
		return nil, err
	}
	space, err := all.engine.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, space.Close()) }()
	if err := space.Reserve(ctx, all.tofu, []byte("{}")); err != nil {
		return nil, err
	}
	if err := space.Apply(ctx, prepared, variables); err != nil {
		return nil, err
	}
	return space.Outputs(ctx, prepared)
}
