package manifestgen

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// inputs is the first stage: a validated request, together with what follows from it, from the deployed manifest and
// from the installed pak. Only newInputs sets its fields.
type inputs struct {
	*Generator
	// Request is the request. Its parameters are grouped by input; see brokerpak.Action.InputValues.
	Request
	// previous is the deployed instance. It is never nil; see deployedInstance.exists.
	previous *deployedInstance
	// module describes the provision template of the pak. It has no variables or outputs if there is no template.
	module *hclfile.Module
	// bosh is the service's provision.bosh section, or emptyDeployment if it has none. If an errand applies the
	// template, bosh is a copy that has the template's secret parameters as further secrets.
	bosh *brokerpak.Bosh
	// errands are the plan's lifecycle errands that belong to this adapter.
	errands []serviceadapter.Errand
	// appliesByErrand and destroysByErrand report whether errands contains apply-instance and destroy-instance. Without
	// apply-instance, generate-manifest applies the template itself.
	appliesByErrand, destroysByErrand bool
	// versions identifies the pak, template and OpenTofu version that the errand must use. It is zero unless an errand
	// applies the template.
	versions record.Versions
	// keepsTemplate reports that an errand applies the template and that the instance keeps an older template than the
	// one in the pak.
	keepsTemplate bool
	// ephemeral are the inputs whose values must not be stored; see brokerpak.Action.EphemeralInputs.
	ephemeral []string
}

// newInputs validates a request and combines it with the deployed manifest and the errands of the plan. It selects the
// versions that an errand must use, and adds the secret parameters of its template to the secrets. The request and the
// pak are not changed.
//
// The error is or contains a *fault.UserError if a parameter is not allowed or the plan's errands cannot work (see
// checkErrands). Other errors mean that the deployed manifest of another adapter cannot be read, that the deployment's
// name is invalid, that the definition or the configuration does not permit the errands, or that checkEphemeral returns
// one.
func (g *Generator) newInputs(request Request) (*inputs, error) {
	in := &inputs{Generator: g, Request: request, bosh: request.Service.Provision.Bosh}
	if in.bosh == nil {
		in.bosh = emptyDeployment(request.Service)
	}
	var err error
	if in.previous, err = readPrevious(in.bosh, request); err != nil {
		return nil, err
	}
	in.module, _ = hclfile.Inspect(in.Service.Provision.Templates) // OpenTofu reports errors in the template
	applying := ownErrands(in.bosh, in.BrokerPlan.LifecycleErrands.PostDeploy, record.ApplyErrand)
	destroying := ownErrands(in.bosh, in.BrokerPlan.LifecycleErrands.PreDelete, record.DestroyErrand)
	in.errands = slices.Concat(applying, destroying)
	in.appliesByErrand, in.destroysByErrand = len(applying) > 0, len(destroying) > 0
	in.ephemeral = in.Service.Provision.EphemeralInputs()
	if err := errors.Join(checkErrands(in), checkEphemeral(in), checkRequest(in)); err != nil {
		return nil, err
	}
	in.Parameters = in.Service.Provision.InputValues(in.Parameters)
	if !in.appliesByErrand {
		return in, nil
	}
	if in.versions, err = errandVersions(in); err != nil {
		return nil, err
	}
	in.keepsTemplate = in.versions.Template != brokerpak.Digest(in.Service.Provision.Templates)
	secretParameters, err := parameterSecrets(in)
	if err != nil {
		return nil, err
	}
	bosh := *in.bosh // the original belongs to the pak
	bosh.Secrets = slices.Concat(bosh.Secrets, secretParameters)
	in.bosh = &bosh
	return in, nil
}

// emptyDeployment returns the provision.bosh section that is used for a service without one. Its manifest template has
// no instance groups, and everything else in it is empty; it exists because the broker stores the instance's record in
// the manifest.
func emptyDeployment(service *brokerpak.Service) *brokerpak.Bosh {
	bosh := &brokerpak.Bosh{}
	bosh.Manifest = brokerpak.Document{Text: "instance_groups: []\n", Pos: diag.Pos{File: service.File}}
	return bosh
}

// hasTemplate reports whether the service has a provision template, which OpenTofu applies for each instance.
func hasTemplate(service *brokerpak.Service) bool { return len(service.Provision.Templates) > 0 }

// checkRequest returns an error if the deployment name contains parentheses or one of the characters that the adapter
// reserves, or if a parameter contains such a character or the key "<<"; see checkReserved. Unless Unchecked is set, it
// also validates the names of the parameters; see schemas.CheckParameters. The error is a *fault.UserError if a
// parameter is wrong, and another error for the deployment name. Values of the parameters are validated later.
func checkRequest(in *inputs) error {
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
	return schemas.CheckParameters(&in.Service.Provision, in.Plan.Properties, in.Parameters, in.previous.exists())
}

// instanceID returns the ID of the service instance, which is part of its deployment's name.
func (in *inputs) instanceID() string { return instance.ID(in.Deployment.DeploymentName) }

// pendingCheck reports whether the broker only compares the result with the deployed manifest and deploys nothing,
// which an empty body of the request shows. Secrets must then stay as they are: a new value is stored by the update
// that follows the check, and the check would reject that update if it saw the change already.
func (in *inputs) pendingCheck() bool {
	return in.Body != nil && len(in.Body) == 0 && in.previous.exists()
}

// storesSecrets reports whether the broker stores secrets. It is false if the operator has not configured it; see
// requireSecretsSetting.
func (in *inputs) storesSecrets() bool { return in.Secure != nil && *in.Secure }

// requireSecretsSetting returns an error if the operator has not configured whether the broker stores secrets. The
// reason explains, as the beginning of the error message, why the setting is needed.
func (g *Generator) requireSecretsSetting(reason string) error {
	if g.Secure != nil {
		return nil
	}
	return fmt.Errorf("%s: set secure_manifests in the adapter's configuration to what the broker's "+
		"enable_secure_manifests says", reason)
}

// usedByTemplate reports whether the pak's provision template declares the input as a variable or refers to it without
// a declaration.
func (in *inputs) usedByTemplate(name string) bool {
	_, declared := in.module.Variables[name]
	_, used := in.module.Undeclared[name]
	return declared || used
}

// passedToTemplate reports whether the errand passes an input to the provision template. If the instance keeps an older
// template, the variables of which are not available here, all inputs are passed.
func (in *inputs) passedToTemplate(name string) bool {
	return in.keepsTemplate || in.usedByTemplate(name)
}
