// Package manifestgen makes the BOSH manifest of a service instance from its brokerpak: variables, ops files, interpolation,
// completion from the broker's input, secrets, and the record from which the next call makes the same manifest again.
//
// The manifest's text is this package's own, because the SDK's struct drops what it does not know; but it always decodes with
// that struct, since the broker compares manifests through it before every update.
package manifestgen

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
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
	// CheckParameters validates the parameters as sent, before anything is merged.
	CheckParameters func(service *brokerpak.Service, plan map[string]any, parameters map[string]any, update bool) error
	// CheckValues validates the resolved variables.
	CheckValues vars.Check
	// CheckManifest validates the finished manifest's structure.
	CheckManifest func(manifest map[string]any) error
	// Provision applies the provision template of a service that has one.
	Provision func(ctx context.Context, p Provisioning) (*Provisioned, error)
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
	// PreviousSecrets maps references with their parentheses to values; nil when the broker sent none.
	PreviousSecrets map[string]string
	// Parameters are the user's; nil when the request has none.
	Parameters map[string]any
	// Body is the whole request; empty, but not nil, in the broker's check for pending changes.
	Body map[string]any
	// UAAClient are the fields of the instance's UAA client; nil when there is none.
	UAAClient map[string]any
}

// Result is what the broker gets.
type Result struct {
	// Manifest is the YAML text.
	Manifest string
	// Secrets are the values of the manifest's ((odb_secret:NAME)) references.
	Secrets map[string]any
	// Configs are BOSH configs by type.
	Configs map[string]string
	// Labels are the instance's metadata labels.
	Labels map[string]any
}

// generation is the work on one request.
type generation struct {
	*Generator
	Request
	bosh     *brokerpak.Bosh
	previous *record.Record // nil on create and for manifests of other adapters
	record   record.Record
	scope    *vars.Scope
	secrets  map[string]decision
	// provisioned is what the provision template gave; nil where the service has none.
	provisioned *Provisioned
	// variables are what ((NAME)) stands for in the templates.
	variables documentVariables
	old       *oldManifest
	carried   instance.Carried // values of a foreign previous manifest; nil where there is none
	earlier   map[string]any   // the parameters of earlier requests
	found     map[string]any   // values of user inputs that an import found
}

// Generate makes the manifest. The error is a *fault.UserError when the user can mend it, and fault.ErrNotImplemented when
// the service has neither a BOSH manifest nor a provision template.
func (g *Generator) Generate(ctx context.Context, request Request) (*Result, error) {
	bosh := request.Service.Provision.Bosh
	if bosh == nil {
		if !hasTemplate(request.Service) {
			return nil, fmt.Errorf("service %q has neither a provision.bosh section nor a provision template: %w",
				request.Service.Name, fault.ErrNotImplemented)
		}
		bosh = provisionOnly(request.Service)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &generation{Generator: g, Request: request, bosh: bosh}
	if err := w.prepare(ctx); err != nil {
		return nil, err
	}
	return w.render()
}

// prepare reads the previous manifest, resolves the variables and secrets, and provisions once nothing else can be refused.
func (w *generation) prepare(ctx context.Context) error {
	if w.Secure == nil && len(w.bosh.Secrets) > 0 {
		return fmt.Errorf("service %q has secrets: set secure_manifests in the adapter's configuration to what the broker's "+
			"enable_secure_manifests says", w.Service.Name)
	}
	if err := w.resolveVariables(); err != nil {
		return err
	}
	if err := w.secretsAndRules(); err != nil {
		return err
	}
	if err := w.provision(ctx); err != nil {
		return err
	}
	var err error
	w.variables, err = w.templateVariables()
	return err
}

// secretsAndRules works out the secrets, and refuses what the definition's rules do not admit.
func (w *generation) secretsAndRules() error {
	w.secrets = map[string]decision{}
	if err := w.resolveSecrets(w.bosh.Secrets); err != nil {
		return err
	}
	return w.checkRequirements()
}

// resolveVariables checks the request and computes the variables.
func (w *generation) resolveVariables() error {
	if err := w.readPrevious(); err != nil {
		return err
	}
	if err := w.checkRequest(); err != nil {
		return err
	}
	if err := w.CheckParameters(w.Service, w.Plan.Properties, w.Parameters, len(w.PreviousManifest) > 0); err != nil {
		return err
	}
	return w.resolve()
}

// Variables returns the variables of a request. It fails as Generate would, and makes no manifest.
func (g *Generator) Variables(request Request) (*vars.Scope, error) {
	w := &generation{Generator: g, Request: request, bosh: request.Service.Provision.Bosh}
	if w.bosh == nil {
		w.bosh = &brokerpak.Bosh{}
	}
	if err := w.resolveVariables(); err != nil {
		return nil, err
	}
	return w.scope, nil
}

// checkRequest refuses what would become a reference to a credential, or would not come out as it is.
func (w *generation) checkRequest() error {
	if strings.ContainsAny(w.Deployment.DeploymentName, "()"+maskRunes) {
		return fmt.Errorf("the deployment name %q must not hold parentheses", w.Deployment.DeploymentName)
	}
	for _, name := range value.Keys(w.Parameters) {
		if err := checkReserved(name, map[string]any{name: w.Parameters[name]}, true); err != nil {
			return err
		}
	}
	return nil
}

// checkRequirements refuses what the definition's rules do not admit.
func (w *generation) checkRequirements() error {
	if err := w.checkReleases(); err != nil {
		return err
	}
	if err := w.checkScaleIn(); err != nil {
		return err
	}
	return w.requireChecks()
}

// render makes the texts of the result.
func (w *generation) render() (*Result, error) {
	manifest, used, err := w.manifest()
	if err != nil {
		return nil, err
	}
	configs, err := w.configs()
	if err != nil {
		return nil, err
	}
	labels, err := w.labels()
	if err != nil {
		return nil, err
	}
	if err := w.recordOutputs(); err != nil {
		return nil, err
	}
	if outputs := w.outputReferences(); len(outputs) > 0 {
		manifest[record.OutputsKey] = outputs
		used = references(manifest)
	}
	w.finishRecord(used)
	manifest[record.Key] = w.record.Encode()
	text, err := encodeManifest(manifest)
	if err != nil {
		return nil, err
	}
	if err := w.checkResult(manifest, text); err != nil {
		return nil, err
	}
	return &Result{Manifest: text, Secrets: w.returnedSecrets(used), Configs: configs, Labels: labels}, nil
}
