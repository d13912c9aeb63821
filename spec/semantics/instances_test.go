package semantics_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"sync"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
	"service-adapter/schemas"
)

// instance is the service instance of a case.
type instance struct {
	recorded
	pak     *brokerpak.Pak
	service *brokerpak.Service
	getenv  func(string) (string, bool)
	// manifest is the deployed one, "" before.
	manifest string
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

// request provisions or updates the instance as generate-manifest does.
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
	defaults, err := i.operatorDefaults()
	if err != nil {
		return err
	}
	requested, _ := body["parameters"].(map[string]any)
	result, err := all.generator(i).Generate(ctx, manifestgen.Request{
		Pak: i.pak, Service: i.service, Plan: *plan, ServiceID: i.service.ID, Defaults: defaults,
		Deployment: serviceadapter.ServiceDeployment{
			DeploymentName: "service-instance_" + i.instanceID(),
			Releases:       serviceadapter.ServiceReleases{{Name: "none", Version: "1", Jobs: []string{"none"}}},
			Stemcells:      []serviceadapter.Stemcell{{OS: "none", Version: "1"}},
		},
		PreviousManifest: i.manifest, Parameters: requested, Body: body,
	})
	if err != nil {
		return err
	}
	i.manifest = result.Manifest
	return nil
}

// generator makes the manifests of a case. What its provision template gives is worked out once for equal inputs.
func (all *instances) generator(i *instance) *manifestgen.Generator {
	secure := false // so that the record has everything
	return &manifestgen.Generator{
		Secure: &secure, Environment: vars.Environment{Env: i.getenv}, Logger: slog.New(slog.DiscardHandler),
		CheckParameters: func(service *brokerpak.Service, plan, parameters map[string]any, update bool) error {
			return schemas.CheckParameters(schemas.Request{Action: &service.Provision, Plan: plan, Parameters: parameters, Update: update})
		},
		CheckValues: schemas.CheckValues, CheckManifest: schemas.CheckManifest,
		Provision: func(ctx context.Context, p manifestgen.Provisioning) (*manifestgen.Provisioned, error) {
			outputs, err := all.apply(ctx, &p.Service.Provision, p.Inputs)
			if err != nil {
				return nil, err
			}
			return &manifestgen.Provisioned{Outputs: maps.Clone(outputs), Changed: true}, nil
		},
	}
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
