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
// the names of the inputs. An input is secret if the template declares it ephemeral, if its value is generated, or if
// its name is that of a secret (redact.Named). A parameter is also secret if the record of the instance says so, or if
// the template declares it sensitive; the manifest contains other sensitive inputs in clear text. Apart from
// redact.Named, the form of the value does not matter: expressions must not read secret inputs, so authors must be able
// to predict which inputs are secret.

// parameterSecrets returns the secret ones among the user inputs that the template gets (see passedToTemplate), as
// secrets with the name of the input. They are in the order of the definition; the result is nil if there are none.
// newInputs calls parameterSecrets if an errand applies the template, and adds the result to the secrets of the
// definition. Inputs that are the value of a secret of the definition already are left out.
//
// An input is secret if the record lists it as a secret parameter, if the template declares its variable sensitive or
// ephemeral, or if redact.Named recognises the name or value of a parameter of this request or in the record. In the
// first two cases, it is secret even if no request sets it.
//
// parameterSecrets returns nil and an error if an expression reads such an input, because later requests do not have
// its value, or if the input cannot become a secret (see inputSecret).
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
			return nil, fmt.Errorf("%s: parameter %q is secret and stored only in CredHub, where later requests "+
				"cannot read it, so no expression may read it in a plan with the lifecycle errand %s",
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

// valueSecrets returns the secret inputs that the errand needs and that are not secrets of inputs.bosh yet, as secrets
// sorted by input name. Every variable that is set counts as an input here. The variables in r must have been resolved.
// needed describes the inputs that the errand evaluates; see errandInputs.isNeeded. An input is secret if its value
// depends on rand.base64, if redact.Named recognises its name or value, if the template declares its variable
// ephemeral, or if the deployed manifest already has a secret for it (see recordedSecret). The result generated is the
// set of all needed inputs that depend on rand.base64, including those that are secrets already; it is never nil
// without an error.
//
// valueSecrets returns an error if an expression other than that of an input reads a generated input that is not a
// secret yet, if an input that the errand evaluates reads a secret input, or if an input cannot become a secret (see
// inputSecret). The other results are then nil.
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

// recordedSecret reports whether the deployed manifest already has a secret for an input because an errand applied the
// template. name is the name of the input, which such a secret has as well. The result is true if the record of the
// manifest lists a secret of this name and an errand built the deployed instance. It is nevertheless false if the
// definition or parameterSecrets has a secret of this name, or one whose value is this input.
func (in *inputs) recordedSecret(name string) bool {
	_, recorded := in.previous.record.Secrets[name]
	return recorded && in.previous.record.Errand != nil && !in.bosh.HasSecret(name)
}

// inputSecret returns a secret that has the name of an input of the template, and the expression "${name}" as its
// value. It returns an error if the operator has not configured whether the broker stores secrets, if the input is
// an ephemeral variable of the template and the broker stores no secrets, if in.bosh already has a secret with that
// name or with the input as its value, or if the name cannot be part of an expression. The secret that is returned
// with an error must not be used.
func inputSecret(in *inputs, name string) (brokerpak.Secret, error) {
	const reason = "the provision template has secret inputs, which an errand reads from the manifest"
	if err := in.requireSecretsSetting(reason); err != nil {
		return brokerpak.Secret{}, err
	}
	if in.module.Variables[name].Ephemeral && !in.storesSecrets() {
		return brokerpak.Secret{}, fmt.Errorf("the variable %q of the provision template is ephemeral, and an errand "+
			"reads it from the manifest: enable secure manifests, so that the manifest contains only "+
			"a reference, or read it from the configuration of the errand", name)
	}
	if in.bosh.HasSecret(name) {
		return brokerpak.Secret{}, fmt.Errorf("service %q: the secret input %q of the provision template "+
			"has the name of another secret; rename one of them", in.Service.Name, name)
	}
	template, err := expr.Parse(expr.Source{Text: "${" + name + "}"})
	return brokerpak.Secret{Name: name, Input: name, Value: template}, err
}

// checkDerivedSecrets returns an error if an input that is generated now is computed from an input that an earlier
// request generated: normally only CredHub knows the value of the latter, so the former cannot be computed. It may be
// computed from it directly or through other inputs. A generated input was generated earlier if the record's secrets
// have an entry for it, even one with the value in clear text. generated is the set of inputs whose values are
// generated, now or by an earlier request, by name. The error has the position of the input. The result is nil if there
// is no such input.
func checkDerivedSecrets(r *resolution, generated map[string]bool) error {
	stored := r.previous.record.Secrets
	for _, name := range value.Keys(generated) {
		if _, isStored := stored[name]; isStored {
			continue
		}
		if source := storedSource(r, generated, name, map[string]bool{}); source != "" {
			return fmt.Errorf("%s: input %q is computed from %q, which an earlier request generated: its value "+
				"is stored only in CredHub", r.scope.Origins[name].Pos, name, source)
		}
	}
	return nil
}

// storedSource returns the name of an input that an earlier request generated and from which the input called name is
// computed, directly or through other inputs, or "" if there is none. generated is that of checkDerivedSecrets.
// visited contains the names of inputs that are not examined again, to which storedSource adds those that it examines.
func storedSource(r *resolution, generated map[string]bool, name string, visited map[string]bool) string {
	origin := r.scope.Origins[name]
	expression := r.Service.Provision.ExpressionOf(name, origin.Layer == vars.DefaultLayer)
	if visited[name] || expression == nil || origin.Layer != vars.DefaultLayer && origin.Layer != vars.ComputedLayer {
		return ""
	}
	visited[name] = true
	for _, reference := range expression.References() {
		for read := range reference.Names() {
			if _, isStored := r.previous.record.Secrets[read]; isStored && generated[read] {
				return read
			}
			if source := storedSource(r, generated, read, visited); source != "" {
				return source
			}
		}
	}
	return ""
}

// unavailableInputs returns the sorted names of the inputs that became secrets because an errand applied the template
// when the instance was last deployed, and whose values this request does not contain: parameters that it does not send
// again, and generated values. Normally only CredHub has these values, but inputs whose value the record contains are
// returned as well. The result is nil if there are none or no errand built the instance. Inputs that are secrets of the
// definition are not among them. Generator.Provision takes the values of these inputs from the OpenTofu state.
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
