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

// variables maps the names of template variables to their values, which are masked (see masked) so that the BOSH
// library does not interpolate them again. A nil value is inserted as null; a reference to a name that is not in the
// map is left to BOSH. A name with a dot has no effect, because the library selects a part of a variable for
// ((NAME.KEY)). A reference to an existing credential has a value of the type credentialReference. The type implements
// template.Variables of the library.
type variables map[string]any

// Get returns the value of the variable with the name in definition and reports whether the variable exists. A value
// of the type credentialReference is returned as a string. If the variable does not exist, the value is nil, and the
// library leaves ((NAME)) unchanged, so that BOSH can resolve it. The type and options of the definition are ignored.
// The error is always nil.
func (v variables) Get(definition template.VariableDefinition) (any, bool, error) {
	item, ok := v[definition.Name]
	if reference, isReference := item.(credentialReference); isReference {
		item = string(reference) // the library inserts only the type string into a longer text
	}
	return item, ok, nil
}

// List returns nil and no error, although variables may exist. It is only needed to implement template.Variables; the
// library calls it only with options that this package does not use.
func (v variables) List() ([]template.VariableDefinition, error) { return nil, nil }

// set adds a variable with a masked copy of item as its value, or replaces it, even if set returns an error.
// fromRequest states that the value contains input from the user, so that its parentheses must not form references; see
// masked. set returns an error if a manifest cannot contain the value, because it contains one of the reserved
// characters U+E0F0 to U+E0F3 or the key "<<". The error is a *fault.UserError if fromRequest is true.
func (v variables) set(name string, item any, fromRequest bool) error {
	v[name] = masked(item, fromRequest)
	return checkReserved(name, item, fromRequest)
}

// templateVariables returns the variables of the manifest template. These are:
//
//   - The resolved variables: all inputs, which are null if they have no value, and plan properties, plan overrides and
//     operator defaults that are not declared as inputs. Inputs that are the value of a secret, and inputs that only an
//     errand can evaluate, are omitted.
//   - The outputs of the provision template, if d contains its result; declared outputs without a value are null. An
//     output does not replace a variable with a value other than null.
//   - The references to existing credentials, which are null if their path is empty. They replace variables above.
//   - The secrets, which replace any other variable of their name.
//
// templateVariables returns nil and an error if a value contains one of the reserved characters or the key "<<" (see
// checkReserved), and if the path of a reference cannot be evaluated, is malformed or is not allowed (see
// credentialPath). For a value, the error is a *fault.UserError if it depends on the request or is an output, unless it
// is the value of a secret. For a path, it is or wraps one if a parameter is the cause.
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

// setOutputs adds the outputs of the provision template as variables, and null for the outputs in declared, those of
// the definition, that have no value. A variable that already has a value other than null is not replaced. Outputs are
// treated like input from the user, because a provider may return data that the user sent. setOutputs returns a
// *fault.UserError if a manifest cannot contain a value (see checkReserved); some outputs may then be added already.
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

// asDeployed returns the value that the manifest template gets for the input of this name. Normally this is item, the
// resolved value. If item is a scalar and was set by a parameter of an earlier request that this request leaves
// unchanged, the result is the parameter in the type in which the user sent it: the declared type of the input may have
// changed since, and a number in place of a string would be reported as a pending change. Lists and maps are always
// returned as resolved.
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

// credentialPath evaluates the path of reference, a reference of the definition to an existing credential in CredHub,
// and returns it without parentheses, such as "/shared/ca". It returns "" and no error if the path is empty, so that
// the instance uses no credential. The operator must allow the path or, for a part of a credential such as
// "/shared/ca.certificate", the credential, because BOSH would resolve any path in a manifest; see allowed.
//
// If the expression cannot be evaluated, the error wraps that of vars.Scope.Text. It is also an error if the path is
// not an absolute path of letters, digits, ".", "_" and "-", or is not allowed. For such a path, the error is a
// *fault.UserError if the reference's input is a parameter of this request or a recorded one of an earlier request, and
// another error otherwise.
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
			Message: fmt.Sprintf("parameter %q is the path of a credential that the operator no longer allows; set "+
				"it to another path, or to null", reference.Input),
			Err: err,
		}
	}
	return "", err
}

// allowed reports whether the manifest may refer to an absolute path in CredHub, without parentheses: whether the
// operator lists exactly this path in AllowedReferences. While the broker checks for pending changes, a path to which
// the deployed manifest refers is allowed as well, so that the check does not fail; the update itself then fails,
// unless it removes the reference.
func (in *inputs) allowed(path string) bool {
	return slices.Contains(in.AllowedReferences, path) || in.pendingCheck() && in.previous.refersTo(path)
}

// allowanceHint returns a clause for the error about a path in CredHub that is not allowed, such as "the operator must
// allow it with allowed_references". subject is the word or phrase for the path in that clause, such as "it". path is
// the absolute path without parentheses: if the deployed manifest refers to it, the clause adds that the instance
// cannot be updated or upgraded until the operator allows it again, unless its parameters no longer contain the
// reference.
func (in *inputs) allowanceHint(subject, path string) string {
	text := "the operator must allow " + subject + " with allowed_references"
	if in.previous.refersTo(path) {
		text += " again, because the instance was deployed with it: until then it cannot be updated or upgraded, " +
			"unless its parameters no longer contain the reference"
	}
	return text
}
