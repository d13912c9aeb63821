package session

import (
	"service-adapter/brokerpak"
	"service-adapter/internal/hclfile"
)

// maskInputs registers the secrets among the values of inputs for masking: those that the action declares secret, and
// those that redact recognises by name or content. Each set maps names of inputs to values.
func (s *Session) maskInputs(action *brokerpak.Action, sets ...map[string]any) {
	declared := SecretInputs(action)
	for _, values := range sets {
		s.Secrets.AddValues(values, declared...)
	}
}

// SecretInputs returns the names of the inputs that an action declares secret: inputs that are values of secrets of the
// manifest, variables that the template declares as sensitive, and its EphemeralInputs. The names are in no particular
// order, and some may be "". Variables in files that cannot be parsed are left out.
func SecretInputs(action *brokerpak.Action) []string {
	var names []string
	if action.Bosh != nil {
		for _, secret := range action.Bosh.Secrets {
			names = append(names, secret.Input)
		}
	}
	module, _ := hclfile.Inspect(action.Templates) // pak validate reports faults of the files
	for name, variable := range module.Variables {
		if variable.Sensitive {
			names = append(names, name)
		}
	}
	return append(names, action.EphemeralInputs()...)
}
