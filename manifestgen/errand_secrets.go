package manifestgen

import (
	"fmt"
	"slices"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/record"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
)

// Where an errand applies the provision template, its secret inputs are secrets of the manifest, each of the input's name.

// withParameterSecrets adds the inputs that are secret whatever their value: those that the template declares sensitive, and parameters
// whose names say so. They have to be known before parameters are recorded.
func withParameterSecrets(in *input) error {
	names := map[string]bool{}
	for name := range in.before.record.SecretParameters {
		names[name] = true
	}
	for name, variable := range in.module.Variables {
		names[name] = names[name] || variable.Sensitive
	}
	for _, set := range []map[string]any{in.before.record.Parameters, in.Parameters} {
		for name, item := range set {
			names[name] = names[name] || isSecret(name, item)
		}
	}
	for _, input := range in.Service.Provision.UserInputs {
		if !names[input.Name] || !in.passedToTemplate(input.Name) {
			continue
		}
		if at, read := in.Service.Provision.ReadBy(input.Name, true); read && in.bosh.SecretOf(input.Name) == nil {
			return fmt.Errorf("%s: parameter %q is secret, and only CredHub knows it when the next request comes, so no expression may read it "+
				"in a plan with the lifecycle errand %s", at, input.Name, record.ApplyErrand)
		}
		if err := in.addSecret(input.Name); err != nil {
			return err
		}
	}
	return nil
}

// withValueSecrets adds the inputs whose resolved values are secret: generated ones, and those whose names say so. It returns the
// generated ones.
func withValueSecrets(in *input, r *prepared) (generated map[string]bool, err error) {
	generated = map[string]bool{}
	for _, name := range value.Keys(r.scope.Values) {
		made := r.scope.Origins[name].CallsAny("rand.base64")
		if slices.Contains(r.later.names, name) || !in.passedToTemplate(name) && !r.later.inputs[name] || !made && !isSecret(name, r.scope.Values[name]) {
			continue
		}
		if made {
			generated[name] = true
			if at, read := in.Service.Provision.ReadBy(name, false); read && in.bosh.SecretOf(name) == nil {
				return nil, fmt.Errorf("%s: input %q is generated, so it is a secret in a plan with the lifecycle errand %s, and only inputs may be "+
					"made of it; make it an output of the provision template", at, name, record.ApplyErrand)
			}
		}
		if r.later.inputs[name] {
			return nil, fmt.Errorf("input %q is secret, so no input that depends on the configuration may be made of it in a plan with the "+
				"lifecycle errand %s", name, record.ApplyErrand)
		}
		if err := in.addSecret(name); err != nil {
			return nil, err
		}
	}
	return generated, nil
}

// isSecret tells whether a value is a secret, by its name and form.
func isSecret(name string, item any) bool {
	var found redact.Secrets
	found.AddValues(map[string]any{name: item})
	return found.Any()
}

// addSecret makes an input the value of a secret of its name.
func (in *input) addSecret(name string) error {
	if in.bosh.SecretOf(name) != nil {
		return nil
	}
	if err := in.secretsAllowed("the provision template has secret inputs, which an errand gets from the manifest"); err != nil {
		return err
	}
	if in.bosh.HasSecret(name) {
		return fmt.Errorf("service %q: the secret input %q of the provision template has the name of another secret; rename one of them",
			in.Service.Name, name)
	}
	template, err := expr.Parse(expr.Source{Text: "${" + name + "}"})
	if err != nil {
		return err
	}
	bosh := *in.bosh
	bosh.Secrets = append(slices.Clone(bosh.Secrets), brokerpak.Secret{Name: name, Input: name, Value: template})
	in.bosh = &bosh
	return nil
}

// checkDerived refuses a generated input that is new and is made of one whose value only CredHub has.
func checkDerived(in *input, r *prepared) error {
	stored := in.before.record.Secrets
	for _, name := range value.Keys(r.generated) {
		if _, had := stored[name]; had {
			continue
		}
		origin := r.scope.Origins[name]
		for _, reference := range in.Service.Provision.ExpressionOf(name, origin.Layer == vars.DefaultLayer).References() {
			if _, hidden := stored[reference.Name]; hidden && r.generated[reference.Name] {
				return fmt.Errorf("%s: input %q is made of %q, which was generated earlier: only CredHub knows its value by now", origin.Pos, name, reference.Name)
			}
		}
	}
	return nil
}

// forgotten names the inputs whose values were secrets while an errand applied the template, and that nobody gives now.
func forgotten(in *input, p *prepared) []string {
	if in.before.record.Errand == nil {
		return nil
	}
	var names []string
	for _, name := range value.Keys(in.before.record.Secrets) {
		_, parameter := in.before.record.SecretParameters[name]
		_, sent := in.Parameters[name]
		if in.bosh.SecretOf(name) == nil && (parameter && !sent || p.scope.Generated[name] != nil) {
			names = append(names, name)
		}
	}
	return names
}

// carryFound makes found values of inputs that one generating call gives the values of these calls, and returns the others.
func carryFound(in *input, found map[string]any, carried vars.Generated) (others map[string]any) {
	others = map[string]any{}
	for name, item := range found {
		template := in.Service.Provision.ExpressionOf(name, false)
		if template == nil {
			others[name] = item
			continue
		}
		if calls := template.Calls(); len(calls) == 1 && len(template.References()) == 0 {
			carried[name] = map[string]any{calls[0].Name + "#1": item}
		}
	}
	return others
}
