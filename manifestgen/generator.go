// Package manifestgen generates the BOSH manifest of a service instance from its brokerpak.
//
// A call to [Generator.Generate] has four stages. Each has a type for its result, which no later stage changes:
//
//  1. newInputs validates the request and reads the deployed manifest (inputs).
//  2. decide resolves the variables (resolution), and decides on the sizes of instance groups, on the value of every
//     secret and on the errands (decisions). applyTemplate then runs OpenTofu, if the service has a provision template,
//     and returns new decisions that include its outputs.
//  3. render applies ops files, interpolates the variables and completes the template with the broker's releases,
//     stemcells and instance groups (manifest).
//  4. newRecord returns the record, from which the next call reproduces the same manifest. respond adds it to the
//     manifest and writes the text.
//
// The package handles manifests as trees and writes the YAML text itself, because the SDK's struct drops keys that it
// does not declare. The text must still decode with that struct: the broker uses it to compare manifests before every
// update.
package manifestgen

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/fault"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A Generator generates manifests, according to the settings of the broker and the operator in its fields. It holds no
// state between calls. CheckManifest and Logger must be set, and Provision for services with a provision template, so
// the zero value cannot be used. The zero value of any other field means that the feature is turned off or that the
// operator has not configured it: with a nil Secure, it is not known whether the broker stores secrets, and requests
// that involve secrets fail.
type Generator struct {
	// Secure is the broker's enable_secure_manifests: whether the broker stores secrets in CredHub. Nil means that the
	// operator has not configured it; requests that involve secrets then fail.
	Secure *bool
	// NoConfigs is the broker's disable_bosh_configs: the broker rejects BOSH configs.
	NoConfigs bool
	// AllowedReferences are the absolute CredHub paths that manifests may refer to.
	AllowedReferences []string
	// GlobalLabels are added to the published variable request.default_labels.
	GlobalLabels map[string]string
	// Environment holds the operator's configuration and environment variables that expressions may read.
	Environment vars.Environment
	// Unchecked skips the validation of parameters and variables, for requests that are made up, as by a linter.
	Unchecked bool
	// CheckManifest validates the structure of the finished manifest. It must not be nil.
	CheckManifest func(manifest map[string]any) error
	// Errands configures the errands that apply and destroy provision templates, for plans that have these errands.
	Errands Errands
	// Provision applies the provision template of a service. It is called only if the service has a template and no
	// errand of the plan applies it. If check is true, the broker only compares manifests: Provision must apply
	// nothing, and its result is ignored in favour of the outputs recorded in the deployed manifest.
	Provision func(ctx context.Context, request provision.Request, check bool) (*provision.Result, error)
	// Logger receives warnings. It must not be nil.
	Logger *slog.Logger
}

// A Request is one generate-manifest call of the broker, together with the service and plan of the pak that it refers
// to and the record in the deployed manifest. Pak and Service must not be nil, and Deployment needs a stemcell, so the
// zero value is not valid.
//
// A nil Body means that the broker sends no request, as on an upgrade. If Body is empty but not nil and there is a
// PreviousManifest, the broker only checks for pending changes. PreviousManifest is empty on create. Any other field
// that is empty or nil means that the broker, the operator or the deployed instance does not provide it.
type Request struct {
	Pak     *brokerpak.Pak
	Service *brokerpak.Service
	// Plan is the pak's plan, overridden by the plan properties of the broker.
	Plan brokerpak.Plan
	// ServiceID is the ID of the service offering in the broker's catalog.
	ServiceID string
	// Defaults are the operator's defaults for the inputs of the provision action. Later maps override earlier ones.
	Defaults []map[string]any

	// Deployment names the deployment and lists its releases and stemcells.
	Deployment serviceadapter.ServiceDeployment
	// BrokerPlan is the plan as the broker sends it.
	BrokerPlan serviceadapter.Plan
	// PreviousPlan is the plan of the deployed instance. It is nil if the broker sends none, as on create.
	PreviousPlan *serviceadapter.Plan
	// PreviousProperties are the plan properties of PreviousPlan.
	PreviousProperties map[string]any
	// PreviousManifest is the deployed manifest. It is empty on create.
	PreviousManifest string
	// Record is the record stored in PreviousManifest. It is nil if that manifest has none, for example because another
	// adapter generated it.
	Record *record.InstanceRecord
	// PreviousSecrets maps references, including their parentheses, to values. It is nil if the broker sent none.
	PreviousSecrets map[string]string
	// Parameters are the user's parameters of this request. They are nil if the request has none.
	Parameters map[string]any
	// Body is the whole request. It is empty, but not nil, when the broker checks for pending changes. It is nil if the
	// broker sends no request, as on an upgrade.
	Body map[string]any
	// UAAClient holds the fields of the instance's UAA client. It is nil if there is none.
	UAAClient map[string]any
}

// Generate returns the response to a generate-manifest call: the manifest as YAML, the values of its
// ((odb_secret:NAME)) references, BOSH configs by type, and the metadata labels of the instance. If the service has a
// provision template that no errand applies, Generate also calls g.Provision to apply it. While the broker only checks
// for pending changes, Generate calls g.Provision with check set, which applies nothing, and uses the recorded outputs.
// A failed check, an unknown instance group and an errand without a job are only logged as warnings if the deployed
// instance has the same fault, as far as Generate can determine that; see checkConditions, checkGroups and
// colocateErrands.
//
// If Generate fails, it returns nil and an error. The error is or contains a *fault.UserError if the user's parameters
// are invalid, and for most violations that the operator must correct in the plan or the deployment. Most mistakes in
// the definition or the adapter's configuration, such as secrets without a setting whether the broker stores them, and
// plan properties that do not fit their inputs, are other errors. Errors of g.Provision are returned unchanged. The
// error wraps fault.ErrNotImplemented if the service has neither a provision.bosh section nor a provision template, and
// is the context's error if the context has ended before the call.
//
// If Generate fails after the template has been applied, the resources of the template remain.
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
		if err := g.requireSecretsSetting(fmt.Sprintf("service %q has secrets", request.Service.Name)); err != nil {
			return nil, err
		}
	}
	in, err := g.newInputs(request)
	if err != nil {
		return nil, err
	}
	decided, err := decide(in, nil)
	if err != nil {
		return nil, err
	}
	if hasTemplate(in.Service) && !in.appliesByErrand {
		if decided, err = applyTemplate(ctx, decided); err != nil {
			return nil, err
		}
	}
	rendered, err := render(decided)
	if err != nil {
		return nil, err
	}
	remembered, err := newRecord(decided, rendered.references)
	if err != nil {
		return nil, err
	}
	return respond(decided, rendered, remembered)
}

// Variables returns a scope with the resolved variables of a request, without generating a manifest. It does not
// apply the provision template, does not decide about secrets, does not evaluate the checks of the definition, and
// has no side effects. Like Generate, it returns nil and an error if the request is invalid, if a variable cannot be
// resolved, or if the record would contain a plan property that is the value of a secret. If an errand applies the
// provision template, an input that needs a configuration value or environment variable that is not set causes no
// error; it is in Unresolved of the scope. Unlike Generate, Variables accepts a service that has neither a
// provision.bosh section nor a provision template.
func (g *Generator) Variables(request Request) (*vars.Scope, error) {
	in, err := g.newInputs(request)
	if err != nil {
		return nil, err
	}
	resolved, err := resolve(in, nil)
	if err != nil {
		return nil, err
	}
	return resolved.scope, nil
}

// respond returns the response to the broker: the text of the manifest, the values of secrets that the broker must
// store, the BOSH configs and the labels. rendered is the manifest without the record, which is not changed;
// remembered is the record, which respond adds under record.Key. respond returns nil and an error if the manifest
// cannot be written as YAML or is invalid; see validateManifest. A manifest whose text equals the deployed one is
// not validated again.
func respond(
	d *decisions, rendered *manifest, remembered record.InstanceRecord,
) (*serviceadapter.MarshalledGenerateManifest, error) {
	tree := value.Merge(rendered.tree, map[string]any{record.Key: remembered.Encode()})
	text, err := encodeManifest(tree)
	if err != nil {
		return nil, err
	}
	if text != d.previous.text { // the deployed manifest was validated, and BOSH accepted it
		if err := validateManifest(d.CheckManifest, tree, text); err != nil {
			return nil, fmt.Errorf("checking the manifest of service %q: %w", d.Service.Name, err)
		}
	}
	return &serviceadapter.MarshalledGenerateManifest{
		Manifest: text, ODBManagedSecrets: d.secrets.valuesToStore(rendered.references),
		Configs: rendered.configs, Labels: rendered.labels,
	}, nil
}
