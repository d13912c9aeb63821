package manifestgen

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/fault"
)

// variables are what ((NAME)) stands for in a template, as the BOSH library asks for it. It knows no dotted names: the library looks
// below a variable itself.
type variables map[string]any

// Get returns the value of ((name)); what is not found stays as it is, for BOSH.
func (v variables) Get(definition template.VariableDefinition) (any, bool, error) {
	item, ok := v[definition.Name]
	return item, ok, nil
}

// List returns nothing: it serves only options that are not used.
func (v variables) List() ([]template.VariableDefinition, error) { return nil, nil }

// set adds a variable unless its value cannot stand in a manifest.
func (v variables) set(name string, item any, fromRequest bool) error {
	v[name] = masked(item, fromRequest)
	return checkReserved(name, item, fromRequest)
}

// templateVariables are all variables, null for declared inputs that nobody set, the outputs of the provision template where no input
// has their name, the references and the secrets.
func templateVariables(in *input, p *prepared) (variables, error) {
	made := variables{}
	for _, name := range in.Service.Provision.InputNames() {
		made[name] = nil
	}
	for name, item := range p.scope.Values {
		if err := made.set(name, asDeployed(p, name, item), p.scope.Origins[name].FromRequest); err != nil {
			return nil, err
		}
	}
	for name := range p.scope.Failed {
		delete(made, name)
	}
	for _, secret := range in.bosh.Secrets {
		delete(made, secret.Input)
	}
	if p.record.Template != nil {
		if err := made.setOutputs(in.Service.Provision.Outputs, p.record.Template.Outputs); err != nil {
			return nil, err
		}
	}
	for _, reference := range in.bosh.References {
		path, err := credentialPath(in, p.scope, reference)
		if err != nil {
			return nil, err
		}
		made[reference.Name] = nil
		if path != "" {
			made[reference.Name] = stored(masked("(("+path+"))", false).(string)) //nolint:forcetypeassert // masked keeps a text a text
		}
	}
	for name, chosen := range p.secrets {
		if chosen.reference != "" {
			made[name] = masked(chosen.reference, false)
			continue
		}
		if err := checkReserved(name, chosen.literal, false); err != nil {
			return nil, err
		}
		made[name] = masked(chosen.literal, true)
	}
	return made, nil
}

// setOutputs adds outputs. What a provider answers may hold what a user sent.
func (v variables) setOutputs(declared []brokerpak.Variable, outputs map[string]any) error {
	for _, output := range declared {
		if _, input := v[output.Name]; !input {
			v[output.Name] = nil
		}
	}
	for name, item := range outputs {
		if v[name] != nil {
			continue
		}
		if err := v.set(name, item, true); err != nil {
			return err
		}
	}
	return nil
}

// asDeployed is a parameter of an earlier request as it was sent or found in the manifest, where its input has another type by now: a
// number in place of a text would be a pending change.
func asDeployed(p *prepared, name string, item any) any {
	switch item.(type) {
	case map[string]any, []any:
		return item // the template may look into it
	}
	sent, kept := p.record.Parameters[name]
	if kept && p.scope.Kept(name) && p.scope.Origins[name].Layer == vars.ParameterLayer {
		return sent
	}
	return item
}

// pathForm is the form of an absolute path in CredHub.
var pathForm = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)

// credentialPath is the path of a credential that CredHub has already; "" for none. Only paths that the operator allows may stand in
// a manifest: BOSH resolves any.
func credentialPath(in *input, scope *vars.Scope, reference brokerpak.Reference) (string, error) {
	path, err := scope.Text("references."+reference.Name, reference.Path)
	if err != nil {
		return "", fmt.Errorf("evaluating reference %q: %w", reference.Name, err)
	}
	if path == "" || pathForm.MatchString(path) && (in.allowed(path) || in.allowed(vars.Credential(path))) {
		return path, nil
	}
	err = fmt.Errorf("reference %q: %s", reference.Name, in.mustAllow(fmt.Sprintf("the path %q", path), path))
	if _, requested := in.Parameters[reference.Input]; requested {
		return "", &fault.UserError{Message: fmt.Sprintf("parameter %q must be the path of a credential that the operator allows", reference.Input), Err: err}
	}
	if in.before.record.Parameters[reference.Input] != nil {
		return "", &fault.UserError{Message: fmt.Sprintf("parameter %q is the path of a credential that the operator does not allow any more; "+
			"set it to another one, or to null", reference.Input), Err: err}
	}
	return "", err
}

// allowed tells whether the manifest may refer to an absolute path. What is deployed may stay while the broker only compares: the update
// itself is refused, unless it takes the reference away.
func (in *input) allowed(path string) bool {
	return slices.Contains(in.AllowedReferences, path) || in.pendingCheck() && in.before.refersTo(path)
}

// mustAllow says what is to be done about a path that is not allowed; what names it in the sentence.
func (in *input) mustAllow(what, path string) string {
	text := "the operator must allow " + what + " with allowed_references"
	if in.before.refersTo(path) {
		text += " again, because the instance was deployed with it: until then it cannot be updated or upgraded, unless it drops the reference"
	}
	return text
}
