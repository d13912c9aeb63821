package manifestgen

import (
	"slices"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/internal/record"
)

// decisions is the result of the second stage of Generator.Generate: the resolved variables, the sized plan, and the
// decisions about errands and secrets, from which the manifest is rendered. The field template contains the outputs of
// the provision template that are not sensitive, after generate-manifest has applied it; it is nil before that, and if
// generate-manifest applies no template. The field errandProperties is nil if the plan has no errands of this adapter.
// Only decide and withOutputs return decisions, and no later stage changes them.
type decisions struct {
	*resolution
	// plan is the broker's plan, with the instance groups sized as the definition demands.
	plan *serviceadapter.Plan
	// errand are the decisions about a template that an errand applies. They are zero unless an errand applies it.
	errand errandDecisions
	// errandProperties are the operator's properties of the errands' jobs, evaluated for the instance. They are nil if
	// the plan has no errands of this adapter.
	errandProperties map[string]any
	// definedSecrets are the secrets that the manifest template may use: those of the definition, and the secret inputs
	// of a template that an errand applies.
	definedSecrets definedSecrets
	// secrets are the decisions about definedSecrets and about the sensitive outputs of the template.
	secrets secretDecisions
	// template is the result of the provision template, without its sensitive outputs. It is nil before the template is
	// applied, and if generate-manifest applies none.
	template *record.Template
}

// definedSecrets are the secrets of the definition, followed by the secret inputs of a template that an errand applies.
// The list is empty if the service has neither.
type definedSecrets []brokerpak.Secret

// ofInput returns the first secret whose value is exactly the input of this name, as a pointer into the list. It
// returns nil if there is none, and always for the name "".
func (d definedSecrets) ofInput(name string) *brokerpak.Secret {
	at := slices.IndexFunc(d, func(secret brokerpak.Secret) bool { return name != "" && secret.Input == name })
	if at < 0 {
		return nil
	}
	return &d[at]
}

// decide performs the second stage of Generator.Generate: it resolves the variables, sizes the instance groups,
// evaluates the properties of errands and decides the value of every secret. imported contains the values of inputs
// that Generator.Provision passes back, for example after an import, and is nil if there are none; see resolve.
//
// decide may create random passwords. It logs a warning for each failed check that the deployed instance fails as well,
// and for each secret that stays in CredHub although the broker stores none (see keepStored). It has no other side
// effects and does not run OpenTofu. A secret whose value is lost is not an error here; see decideSecret.
//
// decide returns nil and an error in these cases, of which those with (U) are or contain a *fault.UserError:
//
//   - A parameter is invalid, or an expression fails because of one (U).
//   - A plan property or another value does not fit its input (*schemas.ValueError), or an expression cannot be
//     evaluated for another reason.
//   - The record would contain a plan property that is the value of a secret; see checkPlanSecrets.
//   - A group would have more instances than the definition allows, or the plan lacks a group that a required group is
//     declared like (U). An expression for the size of a group gives a value of another type or a negative number.
//   - An input cannot be evaluated by the errand of the plan or become a secret for it; see decideErrand.
//   - Errands.Check rejects the properties of the errands (U).
//   - The entry of a secret in another adapter's manifest cannot be carried over.
//   - BOSH would take the literal value of a secret for a reference (U only if it is a parameter of this request).
//   - A version violates a rule of the definition, a group would lose instances although the definition forbids it, or
//     a check whose audience is the user is false (U). A check for the operator is false, or the constraint in a rule
//     is not valid.
//   - The deployed manifest is needed and cannot be read.
func decide(in *inputs, imported map[string]any) (*decisions, error) {
	resolved, err := resolve(in, imported)
	if err != nil {
		return nil, err
	}
	plan := in.BrokerPlan
	if plan.InstanceGroups, err = sizedGroups(in, resolved.scope); err != nil {
		return nil, err
	}
	errand, err := decideErrand(resolved)
	if err != nil {
		return nil, err
	}
	properties, err := errandProperties(resolved, errand.inputs)
	if err != nil {
		return nil, err
	}
	defined := slices.Concat(in.bosh.Secrets, errand.secrets)
	secrets, err := decideSecrets(in, defined, definedCandidates(resolved, errand.generated))
	if err != nil {
		return nil, err
	}
	if err := checkVersions(in.bosh.Requires, in.Deployment, in.previous); err != nil {
		return nil, err
	}
	// The checks of the definition come first, because their messages explain a smaller size better.
	if err := checkConditions(resolved); err != nil {
		return nil, err
	}
	if err := checkScaleIn(resolved, &plan); err != nil {
		return nil, err
	}
	return &decisions{
		resolution: resolved, plan: &plan, errand: errand, errandProperties: properties,
		definedSecrets: defined, secrets: secrets,
	}, nil
}
