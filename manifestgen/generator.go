// Package manifestgen makes the BOSH manifest of a service instance from its brokerpak: variables, ops files, interpolation,
// completion from the broker's input, secrets, and the record from which the next call makes the same manifest again.
//
// The manifest's text is this package's own, because the SDK's struct drops what it does not know; but it always decodes with
// that struct, since the broker compares manifests through it before every update.
package manifestgen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/provision"
	"service-adapter/internal/record"
)

// Generator makes manifests. It holds no state between calls.
type Generator struct {
	// Secure tells whether the broker stores secrets (its enable_secure_manifests); nil: the operator has not said, and paks
	// with secrets are refused.
	Secure *bool
	// NoConfigs tells that the broker refuses BOSH configs (its disable_bosh_configs).
	NoConfigs bool
	// AllowedReferences are absolute CredHub paths that manifests may refer to.
	AllowedReferences []string
	// GlobalLabels are part of request.default_labels.
	GlobalLabels map[string]string
	// Environment is what expressions may read of the operator's world.
	Environment vars.Environment
	// Unchecked takes parameters and variables as they are, because they are made up.
	Unchecked bool
	// CheckManifest validates the finished manifest's structure.
	CheckManifest func(manifest map[string]any) error
	// Errands are those that apply and destroy provision templates, where a plan has them.
	Errands Errands
	// Provision applies the provision template of a service that has one, unless an errand does. In a check it changes nothing, because the
	// broker only compares, and gives no result: the outputs are those that the manifest remembers.
	Provision func(ctx context.Context, request provision.Request, check bool) (*provision.Result, error)
	Logger    *slog.Logger
}

// Request is one generate-manifest call.
type Request struct {
	Pak     *brokerpak.Pak
	Service *brokerpak.Service
	// Plan is the pak's plan with the broker's properties laid over it.
	Plan brokerpak.Plan
	// ServiceID is the id of the service offering in the broker's catalog.
	ServiceID string
	// Defaults are the operator's for the provision action, general ones first.
	Defaults []map[string]any

	Deployment   serviceadapter.ServiceDeployment
	BrokerPlan   serviceadapter.Plan
	PreviousPlan *serviceadapter.Plan
	// PreviousProperties are the plan properties of PreviousPlan.
	PreviousProperties map[string]any
	// PreviousManifest is the deployed manifest; empty on create.
	PreviousManifest string
	// Record is what PreviousManifest remembers; nil where it has no record.
	Record *record.Record
	// PreviousSecrets maps references with their parentheses to values; nil when the broker sent none.
	PreviousSecrets map[string]string
	// Parameters are the user's; nil when the request has none.
	Parameters map[string]any
	// Body is the whole request; empty, but not nil, in the broker's check for pending changes.
	Body map[string]any
	// UAAClient are the fields of the instance's UAA client; nil when there is none.
	UAAClient map[string]any
}

// input is what all steps of a call start from. No step changes it, but that preparing finds out which inputs are secrets of bosh, and how
// large the groups of the plan are.
type input struct {
	*Generator
	Request
	bosh   *brokerpak.Bosh
	before *previous
	// module is the provision template, and keepsTemplate tells that the instance keeps another one, where an errand applies it.
	module        *hclfile.Module
	keepsTemplate bool
	// versions say by what an errand makes the instance.
	versions record.Versions
	// errands are the plan's errands of this adapter; applies and destroys tell which there are. Where none applies, generate-manifest does.
	errands           []serviceadapter.Errand
	applies, destroys bool
	// deployed computes the variables of the deployed instance, once.
	deployed func() (*vars.Scope, error)
	// plan is the broker's with the instance groups as the definition sizes them.
	plan *serviceadapter.Plan
}

// instanceID is the id of the instance.
func (in *input) instanceID() string { return instance.ID(in.Deployment.DeploymentName) }

// instance is which instance the manifest is for.
func (in *input) instance(p *prepared) record.Instance {
	return record.Instance{
		InstanceID: in.instanceID(), Deployment: in.Deployment.DeploymentName, Service: in.Service.Name, ServiceID: in.ServiceID,
		Plan: in.Plan.Name, PlanID: p.record.PlanID,
	}
}

// pendingCheck tells that the broker compares the result with the deployed manifest and deploys nothing. Secrets then stay as they
// are: a new value is applied by the update that follows, and would block that update if the check saw it.
func (in *input) pendingCheck() bool {
	return in.Body != nil && len(in.Body) == 0 && in.before.exists()
}

// storesSecrets tells whether the broker stores secrets. Where the operator has not said, no manifest with secrets is made.
func (in *input) storesSecrets() bool { return in.Secure != nil && *in.Secure }

// secretsAllowed refuses what needs the operator's word about secrets.
func (g *Generator) secretsAllowed(what string) error {
	if g.Secure != nil {
		return nil
	}
	return fmt.Errorf("%s: set secure_manifests in the adapter's configuration to what the broker's enable_secure_manifests says", what)
}

// prepared is what is known before anything is rendered. The first three are what a request resolves to.
type prepared struct {
	// scope has the variables.
	scope *vars.Scope
	// record is what the manifest will remember, as far as the request tells.
	record record.Record
	// earlier are the parameters of earlier requests; for a manifest of another adapter those that carry_over names.
	earlier map[string]any
	secrets decisions
	// later and generated are the inputs that an errand evaluates, and those that are generated and secret, where one applies the template.
	later     later
	generated map[string]bool
}

// Generate makes what the broker gets: the manifest as YAML, the values of its ((odb_secret:NAME)) references, BOSH configs by type, and the
// instance's metadata labels. The error is a *fault.UserError when the user can mend it, and fault.ErrNotImplemented when
// the service has neither a BOSH manifest nor a provision template.
func (g *Generator) Generate(ctx context.Context, request Request) (*serviceadapter.MarshalledGenerateManifest, error) {
	bosh := request.Service.Provision.Bosh
	if bosh == nil && !hasTemplate(request.Service) {
		return nil, fmt.Errorf("service %q has neither a provision.bosh section nor a provision template: %w",
			request.Service.Name, fault.ErrNotImplemented)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if bosh != nil && len(bosh.Secrets) > 0 {
		if err := g.secretsAllowed(fmt.Sprintf("service %q has secrets", request.Service.Name)); err != nil {
			return nil, err
		}
	}
	in, err := g.read(request)
	if err != nil {
		return nil, err
	}
	p, err := prepare(in, nil)
	if err != nil {
		return nil, err
	}
	if !in.applies {
		if p, err = applyTemplate(ctx, in, p); err != nil {
			return nil, err
		}
	}
	variables, err := templateVariables(in, p)
	if err != nil {
		return nil, err
	}
	return render(in, p, variables)
}

// Variables returns the variables of a request. It fails as Generate would, and makes no manifest.
func (g *Generator) Variables(request Request) (*vars.Scope, error) {
	in, err := g.read(request)
	if err != nil {
		return nil, err
	}
	p, err := resolve(in, nil)
	if err != nil {
		return nil, err
	}
	return p.scope, nil
}

// read checks a request and reads the previous manifest.
func (g *Generator) read(request Request) (*input, error) {
	in := &input{Generator: g, Request: request, bosh: request.Service.Provision.Bosh}
	if in.bosh == nil {
		in.bosh = provisionOnly(request.Service)
	}
	var err error
	if in.before, err = readPrevious(in.bosh, request); err != nil {
		return nil, err
	}
	in.module, _ = hclfile.Inspect(in.Service.Provision.Templates) // OpenTofu reports what is wrong with it
	in.applies = in.hasErrand(in.BrokerPlan.LifecycleErrands.PostDeploy, record.ApplyErrand)
	in.destroys = in.hasErrand(in.BrokerPlan.LifecycleErrands.PreDelete, record.DestroyErrand)
	err = errors.Join(checkErrands(in), checkRequest(in))
	in.Parameters = in.Service.Provision.Gather(in.Parameters)
	if err != nil || !in.applies {
		return in, err
	}
	if in.versions, err = versions(in); err != nil {
		return nil, err
	}
	in.keepsTemplate = in.versions.Template != brokerpak.Digest(in.Service.Provision.Templates)
	return in, withParameterSecrets(in)
}

// prepare resolves the variables, decides about the secrets, and refuses what the definition's rules do not admit. Found are values of
// user inputs that an import found.
func prepare(in *input, found map[string]any) (*prepared, error) {
	p, err := resolve(in, found)
	if err != nil {
		return nil, err
	}
	in.deployed = sync.OnceValues(func() (*vars.Scope, error) { return deployedScope(in, p) })
	plan := in.BrokerPlan
	if plan.InstanceGroups, err = size(in, p.scope); err != nil {
		return nil, err
	}
	in.plan = &plan
	if in.applies {
		if err := prepareIntent(in, p); err != nil {
			return nil, err
		}
	}
	p.secrets, err = decideSecrets(in, in.bosh.Secrets, func(secret brokerpak.Secret, before record.Secret) (candidate, error) {
		return supplied(in, p, secret, before)
	})
	if err != nil {
		return nil, err
	}
	if err := checkVersions(in.bosh.Requires, in.Deployment, in.before); err != nil {
		return nil, err
	}
	if err := checkScaleIn(in); err != nil {
		return nil, err
	}
	return p, checkConditions(in, p)
}
