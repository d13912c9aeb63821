package manifestgen

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"service-adapter/internal/fault"
)

// credentialPath is an absolute path in CredHub.
var credentialPath = regexp.MustCompile(`^(/[A-Za-z0-9._-]+)+$`)

// isReference tells whether a name is that of a reference of the definition.
func (w *generation) isReference(name string) bool {
	for _, reference := range w.bosh.References {
		if reference.Name == name {
			return true
		}
	}
	return false
}

// referenceVariables sets the variables that stand for credentials which CredHub has already. Only paths that the operator allows
// may stand there: BOSH resolves any.
func (w *generation) referenceVariables(values map[string]any) error {
	for _, reference := range w.bosh.References {
		path, err := w.scope.Text("references."+reference.Name, reference.Path)
		if err != nil {
			return fmt.Errorf("evaluating reference %q: %w", reference.Name, err)
		}
		values[reference.Name] = nil
		if path == "" {
			continue
		}
		if !credentialPath.MatchString(path) || !w.allowed(path) {
			err := fmt.Errorf("reference %q: %s", reference.Name, w.mustAllow(fmt.Sprintf("the path %q", path), path))
			if _, requested := w.Parameters[reference.Input]; requested {
				return &fault.UserError{Message: fmt.Sprintf("parameter %q must be the path of a credential that the operator allows", reference.Input), Err: err}
			}
			if w.previous != nil && w.previous.Parameters[reference.Input] != nil {
				return &fault.UserError{Message: fmt.Sprintf("parameter %q is the path of a credential that the operator does not allow any more; "+
					"set it to another one, or to null", reference.Input), Err: err}
			}
			return err
		}
		values[reference.Name] = masked("(("+path+"))", false)
	}
	return nil
}

// allowed tells whether the manifest may refer to an absolute path. What is deployed may stay while the broker only compares: the update
// itself is refused, unless it takes the reference away.
func (w *generation) allowed(path string) bool {
	return slices.Contains(w.AllowedReferences, path) || w.pendingCheck() && w.deployed(path)
}

// deployed tells whether the deployed manifest refers to a path.
func (w *generation) deployed(path string) bool {
	return strings.Contains(w.PreviousManifest, "(("+path+"))") || strings.Contains(w.PreviousManifest, "(("+path+".")
}

// mustAllow says what is to be done about a path that is not allowed; what names it in the sentence.
func (w *generation) mustAllow(what, path string) string {
	text := "the operator must allow " + what + " with allowed_references"
	if w.deployed(path) {
		text += " again, because the instance was deployed with it: until then it cannot be updated or upgraded, unless it drops the reference"
	}
	return text
}
