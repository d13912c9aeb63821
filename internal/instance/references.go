package instance

import (
	"cmp"
	"fmt"

	"service-adapter/internal/fault"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// resolve returns a copy of item, a value from the manifest, with all references in its strings, such as ((password)),
// replaced by the values of the secrets. References may be parts of strings. The keys of maps are not changed. The path
// is that of the value in the manifest, for errors. If a reference has no value, resolve returns the first error of
// secret, a *fault.UserError or one that wraps the error of Resolve, and the value must not be used.
func (v *View) resolve(item any, path string) (any, error) {
	return value.Map(item, func(scalar any) (any, error) {
		text, ok := scalar.(string)
		if !ok {
			return scalar, nil
		}
		var failed error
		resolved := vars.Reference.ReplaceAllStringFunc(text, func(reference string) string {
			secret, err := v.secret(reference, path)
			failed = cmp.Or(failed, err)
			return secret
		})
		return resolved, failed
	})
}

// secret returns the value of a reference, which includes its parentheses, as in "((name))". path is the path in the
// manifest of the value that contains the reference; it is only part of errors. If Resolve is set, secret calls it
// instead of reading Secrets, and wraps its error. Otherwise, if the broker did not send the value, secret returns ""
// and a *fault.UserError for the operator, because a credential with an unresolved reference would be useless.
func (v *View) secret(reference, path string) (string, error) {
	if v.Resolve != nil {
		secret, err := v.Resolve(reference)
		if err != nil {
			return "", fmt.Errorf("the manifest has a reference at %q: %w", path, err)
		}
		return secret, nil
	}
	secret, ok := v.Secrets[reference]
	if !ok {
		return "", &fault.UserError{
			Message:  "the broker sent no value for " + reference,
			Operator: true,
			Err:      fmt.Errorf("the manifest contains it at %q; is enable_secure_manifests on?", path),
		}
	}
	return secret, nil
}
