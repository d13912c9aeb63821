package manifestgen

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"service-adapter/internal/fault"
)

// credentialPath is an absolute path in CredHub.
var credentialPath = regexp.MustCompile(`^(/[A-Za-z0-9_-]+)+$`)

// isReference tells whether a name is that of a reference of the definition.
func (w *generation) isReference(name string) bool {
	for _, reference := range w.bosh.References {
		if reference.Name == name {
			return true
		}
	}
	return false
}

// carryReferences gives the inputs that name credentials the paths that the manifest of another adapter has.
func (w *generation) carryReferences(parameters map[string]any) {
	for _, reference := range w.bosh.References {
		text, _ := w.carried[reference.Name].(string)
		if reference.Input != "" && isReference(text) {
			parameters[reference.Input] = strings.Trim(text, "()")
		}
	}
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
		if !credentialPath.MatchString(path) || !slices.Contains(w.AllowedReferences, path) {
			err := fmt.Errorf("reference %q: the operator must allow the path %q with allowed_references", reference.Name, path)
			if _, requested := w.Parameters[reference.Input]; requested {
				return &fault.UserError{Message: fmt.Sprintf("parameter %q must be the path of a credential that the operator allows", reference.Input), Err: err}
			}
			return err
		}
		values[reference.Name] = masked("(("+path+"))", false)
	}
	return nil
}
