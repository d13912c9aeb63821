package manifestgen

import (
	"slices"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/brokerpak"
	"service-adapter/internal/record"
)

// decisions is the second stage: everything that must be known before the manifest is rendered. Only decide and
// withOutputs return decisions.
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
type definedSecrets []brokerpak.Secret

// ofInput returns the secret that has the input of this name as its value. It returns nil if there is none, and for the
// name "".
func (d definedSecrets) ofInput(name string) *brokerpak.Secret {
	at := slices.IndexFunc(d, func(secret brokerpak.Secret) bool { return name != "" && secret.Input == name })
	if at < 0 {
		return nil
	}
	return &d[at]
}

// decide resolves the variables, sizes the instance groups, evaluates the properties of errands and decides the value
// of every secret. The imported values are values of user inputs that an import read from existing resources; they are
// nil otherwise. Violations that are tolerated are logged as warnings; see checkConditions. decide changes nothing
// else, and does not run OpenTofu.
//
// It returns an error if an expression or a variable cannot be resolved, if a secret cannot get a value, if the errands
// cannot work, or if the request violates the definition's rules on versions, sizes or checks. An invalid parameter, a
// version that violates a constraint, a forbidden size, a failed check whose audience is the user, and errand
// properties that Errands.Check rejects are *fault.UserErrors. A plan property that does not fit its input is a
// *schemas.ValueError.
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
