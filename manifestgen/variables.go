package manifestgen

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/vars"
)

// variables maps the names of template variables to their masked values (see masked). A nil value becomes null; a
// reference to a name that is not in the map is left to BOSH. The type implements template.Variables of the BOSH
// library. Names are not dotted: the library itself descends into a variable for ((NAME.KEY)).
type variables map[string]any

// Get returns the value of a variable and whether it exists. The library leaves ((NAME)) unchanged if it does not, so
// that BOSH can resolve it. The error is always nil.
func (v variables) Get(definition template.VariableDefinition) (any, bool, error) {
	item, ok := v[definition.Name]
	return item, ok, nil
}

// List returns nil. The library calls it only with options that this package does not use.
func (v variables) List() ([]template.VariableDefinition, error) { return nil, nil }

// set adds a variable, even if it returns an error. The fromRequest argument says that the value contains input from
// the user. It returns an error if a manifest cannot contain the value, which is a *fault.UserError if fromRequest is
// true; see checkReserved.
func (v variables) set(name string, item any, fromRequest bool) error {
	v[name] = masked(item, fromRequest)
	return checkReserved(name, item, fromRequest)
}

// templateVariables returns the variables of the manifest template: the inputs, which are null if they have no value;
// the outputs of the provision template, unless an input of the same name has a value; the references; and the secrets.
// Inputs that are the value of a secret, and inputs that only an errand can evaluate, are omitted. It returns an error
// if a value cannot be part of a manifest (see checkReserved), or if credentialPath rejects the path of a reference.
func templateVariables(d *decisions) (variables, error) {
	result := variables{}
	for _, name := range d.Service.Provision.InputNames() {
		result[name] = nil
	}
	for name, item := range d.scope.Values {
		err := result.set(name, asDeployed(d.resolution, name, item), d.scope.Origins[name].FromRequest)
		if err != nil {
			return nil, err
		}
	}
	for name := range d.scope.Unresolved {
		delete(result, name)
	}
	for _, secret := range d.definedSecrets {
		delete(result, secret.Input)
	}
	if d.template != nil {
		if err := result.setOutputs(d.Service.Provision.Outputs, d.template.Outputs); err != nil {
			return nil, err
		}
	}
	for _, reference := range d.bosh.References {
		path, err := credentialPath(d.resolution, reference)
		if err != nil {
			return nil, err
		}
		result[reference.Name] = nil
		if path != "" {
			text, _ := masked("(("+path+"))", false).(string)
			result[reference.Name] = credentialReference(text)
		}
	}
	for name, secret := range d.secrets {
		if secret.reference != "" {
			result[name] = masked(secret.reference, false)
			continue
		}
		if err := checkReserved(name, secret.literal, false); err != nil {
			return nil, err
		}
		result[name] = masked(secret.literal, true)
	}
	return result, nil
}

// setOutputs adds the outputs of the provision template, and null for declared outputs that have no value. A variable
// that already has a value is not replaced. Outputs are treated like input from the user, because a provider may return
// what the user sent. It returns a *fault.UserError if a manifest cannot contain a value; see checkReserved.
func (v variables) setOutputs(declared []brokerpak.Variable, outputs map[string]any) error {
	for _, output := range declared {
		if _, exists := v[output.Name]; !exists {
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

// asDeployed returns the value that the template gets for an input. Normally this is the resolved value. If the value
// is a scalar and a parameter of an earlier request that this request leaves unchanged, it is the parameter with the
// type in which it was sent: the declared type of the input may have changed, and a number in place of a string would
// show up as a pending change.
func asDeployed(r *resolution, name string, item any) any {
	switch item.(type) {
	case map[string]any, []any:
		return item // the template may refer to parts of the value
	}
	original, recorded := r.received.Parameters[name]
	if recorded && r.scope.DependsOnDeployed(name) && r.scope.Origins[name].Layer == vars.ParameterLayer {
		return original
	}
	return item
}

// pathForm matches an absolute path in CredHub.
var pathForm = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)

// credentialPath evaluates the path of a reference to an existing credential in CredHub. It returns "" if the instance
// uses none, because the path is empty. It returns an error if the expression fails, or if the path is malformed or not
// allowed by the operator, because BOSH would resolve any path in a manifest; in the second case, the error is a
// *fault.UserError if the path is a parameter of this or an earlier request. A path to a part of an allowed credential
// is allowed.
func credentialPath(r *resolution, reference brokerpak.Reference) (string, error) {
	path, err := r.scope.Text("references."+reference.Name, reference.Path)
	if err != nil {
		return "", fmt.Errorf("evaluating reference %q: %w", reference.Name, err)
	}
	if path == "" || pathForm.MatchString(path) && (r.allowed(path) || r.allowed(vars.Credential(path))) {
		return path, nil
	}
	err = fmt.Errorf("reference %q: %s", reference.Name, r.allowanceHint(fmt.Sprintf("the path %q", path), path))
	if _, requested := r.Parameters[reference.Input]; requested {
		return "", &fault.UserError{
			Message: fmt.Sprintf("parameter %q must be the path of a credential that the operator allows",
				reference.Input),
			Err: err,
		}
	}
	if r.previous.record.Parameters[reference.Input] != nil {
		return "", &fault.UserError{
			Message: fmt.Sprintf("parameter %q is the path of a credential that the operator does not allow any more; "+
				"set it to another one, or to null", reference.Input),
			Err: err,
		}
	}
	return "", err
}

// allowed reports whether the manifest may refer to an absolute path in CredHub. While the broker checks for pending
// changes, the paths of the deployed manifest are allowed as well: the update itself fails, unless it removes the
// reference.
func (in *inputs) allowed(path string) bool {
	return slices.Contains(in.AllowedReferences, path) || in.pendingCheck() && in.previous.refersTo(path)
}

// allowanceHint returns the hint for a path that is not allowed. It names the setting that the operator must change,
// and the operations that are blocked until then. The subject is the path's name in that sentence.
func (in *inputs) allowanceHint(subject, path string) string {
	text := "the operator must allow " + subject + " with allowed_references"
	if in.previous.refersTo(path) {
		text += " again, because the instance was deployed with it: until then it cannot be updated or upgraded, " +
			"unless it drops the reference"
	}
	return text
}
