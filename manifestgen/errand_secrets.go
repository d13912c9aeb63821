package manifestgen

import (
	"fmt"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/record"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// If an errand applies the provision template, the secret inputs of the template become secrets of the manifest with
// the names of the inputs. An input is secret if the record of the instance says so, if the template declares it
// sensitive or ephemeral, if its value is generated, or if its name is that of a secret (redact.Named). The look of the
// value does not matter: expressions must not read secret inputs, so authors must be able to predict which inputs are
// secret.

// parameterSecrets returns the secret inputs that are parameters of the user, as secrets, in the order of the
// definition. An input is secret if the record lists it as one, if the template declares it sensitive, or if
// redact.Named recognises a parameter of this or an earlier request. Inputs that the template does not get, and those
// that are the value of a secret of the definition, are left out. newInputs adds the result to the secrets of the
// definition, because secret parameters must be known before the parameters are recorded. It returns an error if an
// expression reads such an input, whose value later requests do not have, or if inputSecret does.
func parameterSecrets(in *inputs) ([]brokerpak.Secret, error) {
	secretNames := map[string]bool{}
	for name := range in.previous.record.SecretParameters {
		secretNames[name] = true
	}
	for name, variable := range in.module.Variables {
		secretNames[name] = secretNames[name] || variable.Sensitive || variable.Ephemeral
	}
	for _, parameters := range []map[string]any{in.previous.record.Parameters, in.Parameters} {
		for name, item := range parameters {
			secretNames[name] = secretNames[name] || redact.Named(name, item)
		}
	}
	var secrets []brokerpak.Secret
	for _, name := range brokerpak.Names(in.Service.Provision.UserInputs) {
		if !secretNames[name] || !in.passedToTemplate(name) || definedSecrets(secrets).ofInput(name) != nil {
			continue
		}
		if in.bosh.SecretOf(name) != nil {
			continue
		}
		if at, isRead := in.Service.Provision.FindReader(name, true); isRead {
			return nil, fmt.Errorf("%s: parameter %q is secret, and only CredHub knows it "+
				"when the next request comes, so no expression may read it in a plan with the lifecycle errand %s",
				at, name, record.ApplyErrand)
		}
		secret, err := inputSecret(in, name)
		if err != nil {
			return nil, err
		}
		secrets = append(secrets, secret)
	}
	return secrets, nil
}

// valueSecrets returns the secret inputs that are not yet secrets of inputs.bosh, as secrets sorted by name, after the
// variables have been resolved, and the set of the inputs whose values are generated. needed describes the inputs of
// the errand; only inputs that the errand needs become secrets. An input is secret if its value is generated, if
// redact.Named recognises it, or if recordedSecret does. It returns an error if an expression other than an input's
// reads a generated input that is not a secret of inputs.bosh, if the errand needs a secret input to evaluate another
// one, or if inputSecret does.
func valueSecrets(
	r *resolution, needed errandInputs,
) (secrets []brokerpak.Secret, generated map[string]bool, err error) {
	generated = map[string]bool{}
	for _, name := range value.Keys(r.scope.Values) {
		isGenerated := r.scope.Origins[name].CallsAny("rand.base64")
		isSecret := isGenerated || redact.Named(name, r.scope.Values[name]) || r.recordedSecret(name) ||
			r.module.Variables[name].Ephemeral
		if !isSecret || !needed.isNeeded(r.inputs, name) {
			continue
		}
		isDefined := r.bosh.SecretOf(name) != nil
		if isGenerated {
			generated[name] = true
			if at, isRead := r.Service.Provision.FindReader(name, false); isRead && !isDefined {
				return nil, nil, fmt.Errorf("%s: input %q is generated, so it is a secret in a plan "+
					"with the lifecycle errand %s, and only other inputs may read it; "+
					"make it an output of the provision template",
					at, name, record.ApplyErrand)
			}
		}
		if needed.dependencies[name] {
			return nil, nil, fmt.Errorf("input %q is secret, so no input that depends on the configuration "+
				"may read it in a plan with the lifecycle errand %s", name, record.ApplyErrand)
		}
		if isDefined {
			continue
		}
		secret, err := inputSecret(r.inputs, name)
		if err != nil {
			return nil, nil, err
		}
		secrets = append(secrets, secret)
	}
	return secrets, generated, nil
}

// recordedSecret reports whether the deployed manifest has a secret for this input because an errand applies the
// template. A secret of the definition with the same name does not count.
func (in *inputs) recordedSecret(name string) bool {
	_, recorded := in.previous.record.Secrets[name]
	return recorded && in.previous.record.Errand != nil && !in.bosh.HasSecret(name)
}

// inputSecret returns a secret that has the name of an input of the template, and the input as its value. It returns an
// error if another secret has that name, if the operator has not configured whether the broker stores secrets, or if
// the name cannot be part of an expression, or if the input is an ephemeral variable and the broker stores no secrets.
func inputSecret(in *inputs, name string) (brokerpak.Secret, error) {
	const reason = "the provision template has secret inputs, which an errand gets from the manifest"
	if err := in.requireSecretsSetting(reason); err != nil {
		return brokerpak.Secret{}, err
	}
	if in.module.Variables[name].Ephemeral && !in.storesSecrets() {
		return brokerpak.Secret{}, fmt.Errorf("the variable %q of the provision template is ephemeral, "+
			"and an errand gets it from the manifest: enable secure manifests, so that the manifest contains only "+
			"a reference, or read it from the configuration of the errand", name)
	}
	if in.bosh.HasSecret(name) {
		return brokerpak.Secret{}, fmt.Errorf("service %q: the secret input %q of the provision template "+
			"has the name of another secret; rename one of them", in.Service.Name, name)
	}
	template, err := expr.Parse(expr.Source{Text: "${" + name + "}"})
	return brokerpak.Secret{Name: name, Input: name, Value: template}, err
}

// checkDerivedSecrets returns an error if one of the generated inputs has no stored value yet and its expression refers
// to a generated input that has one. Only CredHub knows that value, so the new input cannot be computed.
func checkDerivedSecrets(r *resolution, generated map[string]bool) error {
	stored := r.previous.record.Secrets
	for _, name := range value.Keys(generated) {
		if _, isStored := stored[name]; isStored {
			continue
		}
		origin := r.scope.Origins[name]
		expression := r.Service.Provision.ExpressionOf(name, origin.Layer == vars.DefaultLayer)
		for _, reference := range expression.References() {
			if _, isStored := stored[reference.Name]; isStored && generated[reference.Name] {
				return fmt.Errorf("%s: input %q is computed from %q, which was generated earlier: "+
					"only CredHub knows its value",
					origin.Pos, name, reference.Name)
			}
		}
	}
	return nil
}

// unavailableInputs returns the sorted names of inputs whose values are in CredHub because an errand used to apply the
// template, and which this request does not provide: parameters that are not sent again, and generated values. It
// returns nil if there are none. Provision takes their values from the OpenTofu state instead.
func unavailableInputs(r *resolution) []string {
	if r.previous.record.Errand == nil {
		return nil
	}
	var names []string
	for _, name := range value.Keys(r.previous.record.Secrets) {
		_, isParameter := r.previous.record.SecretParameters[name]
		_, isSent := r.Parameters[name]
		if r.bosh.SecretOf(name) == nil && (isParameter && !isSent || r.scope.Generated[name] != nil) {
			names = append(names, name)
		}
	}
	return names
}
