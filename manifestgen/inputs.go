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

// inputs is the result of the first stage of Generator.Generate: a validated request, together with facts that follow
// from it, from the deployed manifest and from the installed pak, such as the errands of the plan that belong to this
// adapter. newInputs returns it, and later stages do not change it. publishedNames creates an incomplete one, without a
// Generator and a request, only to list the names that expressions may use.
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

// newInputs performs the first stage of Generate: it validates a request and combines it with the deployed manifest and
// the errands of the plan. Its result contains the parameters grouped by input. If an errand applies the provision
// template, newInputs also selects the versions that the errand must use and adds the secret parameters of the template
// to the secrets. The request and the pak are not changed. It returns nil if it returns an error.
//
// The error is or contains a *fault.UserError if a parameter is not allowed (see checkRequest) or the plan's errands
// cannot work (see checkErrands). Other errors mean that the deployed manifest of another adapter cannot be read or
// carried over (see readPrevious), that the deployment's name is invalid, that the value of an ephemeral input would be
// needed later (see checkEphemeral), that the pak has no default OpenTofu version for an errand, or that a secret
// parameter cannot become a secret for the errand (see parameterSecrets). Syntax errors in the template are ignored
// here, because OpenTofu reports them.
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

// emptyDeployment returns a provision.bosh section for a service without one, which needs a manifest nevertheless,
// because the broker stores the instance's record in it. Its manifest template has an empty list of instance groups;
// all other parts of the section are empty. The service's file serves as the position of the template in errors. The
// result is never nil.
func emptyDeployment(service *brokerpak.Service) *brokerpak.Bosh {
	bosh := &brokerpak.Bosh{}
	bosh.Manifest = brokerpak.Document{Text: "instance_groups: []\n", Pos: diag.Pos{File: service.File}}
	return bosh
}

// hasTemplate reports whether the service has a provision template, which OpenTofu applies for each instance.
func hasTemplate(service *brokerpak.Service) bool { return len(service.Provision.Templates) > 0 }

// checkRequest checks the name of the deployment and the parameters of the request. It returns the first of these
// faults, and nil if there is none:
//
//   - The deployment's name contains a parenthesis or one of the characters U+E0F0 to U+E0F3, which the adapter
//     reserves. This is not a *fault.UserError; the other faults are.
//   - The name or value of a parameter contains one of the characters U+E0F0 to U+E0F3, or the key "<<" at any level.
//     Parentheses are allowed here.
//   - Unless Unchecked is set: the user must not set a parameter, because it is unknown, because the plan sets it, or,
//     for a deployed instance, because it cannot be changed or imports a resource; see schemas.CheckParameters, whose
//     error names several such parameters.
//
// The values of parameters are not validated further.
func checkRequest(in *inputs) error {
	if strings.ContainsAny(in.Deployment.DeploymentName, "()"+maskRunes) {
		return fmt.Errorf("the deployment name %q must not contain parentheses", in.Deployment.DeploymentName)
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

// instanceID returns the ID of the service instance, such as a GUID, which is the name of its deployment without the
// prefix "service-instance_". A deployment name without this prefix is returned unchanged.
func (in *inputs) instanceID() string { return instance.ID(in.Deployment.DeploymentName) }

// pendingCheck reports whether the broker only compares the result with the deployed manifest and deploys nothing. The
// sign is a request body that is empty but not nil, for a deployed instance; on create and on an upgrade, which has a
// nil body, the result is false. During the check, secrets must stay as they are: the update that follows the check
// stores a new value, and the check would reject that update if it saw the change already.
func (in *inputs) pendingCheck() bool {
	return in.Body != nil && len(in.Body) == 0 && in.previous.exists()
}

// storesSecrets reports whether the broker stores secrets in CredHub. It is false if the operator has turned that off
// or has not configured it; requireSecretsSetting distinguishes the two.
func (in *inputs) storesSecrets() bool { return in.Secure != nil && *in.Secure }

// requireSecretsSetting returns an error if the operator has not configured whether the broker stores secrets, and nil
// otherwise, also if the broker stores none. reason explains why the setting is needed, as the beginning of the error
// message: `service "x" has secrets`.
func (g *Generator) requireSecretsSetting(reason string) error {
	if g.Secure != nil {
		return nil
	}
	return fmt.Errorf("%s: set secure_manifests in the adapter's configuration to the value of the broker's "+
		"enable_secure_manifests", reason)
}

// usedByTemplate reports whether the pak's provision template uses the input of this name: whether it has a variable
// block of the name or refers to var.NAME without such a block. It is false for a service without a template.
func (in *inputs) usedByTemplate(name string) bool {
	_, declared := in.module.Variables[name]
	_, used := in.module.Undeclared[name]
	return declared || used
}

// passedToTemplate reports whether the errand passes the input of this name to the provision template. This is the case
// if the template of the pak uses the input. If the instance keeps an older template, whose variables are not available
// here, the result is true for every name.
func (in *inputs) passedToTemplate(name string) bool {
	return in.keepsTemplate || in.usedByTemplate(name)
}
