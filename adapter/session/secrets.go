package session

import (
	"service-adapter/brokerpak"
	"service-adapter/internal/hclfile"
)

// maskInputs registers secrets among the values of an action's inputs with the session, so that they are masked in its
// output: the inputs that the action declares secret (see SecretInputs), and values that package redact recognises by
// name or content. Each of the sets maps names of inputs to values, and may be nil.
func (s *Session) maskInputs(action *brokerpak.Action, sets ...map[string]any) {
	declared := SecretInputs(action)
	for _, values := range sets {
		s.Secrets.AddValues(values, declared...)
	}
}

// SecretInputs returns the names of the inputs that an action declares secret: inputs that supply the value of a secret
// in the BOSH manifest, variables that the template declares as sensitive, and the action's EphemeralInputs. The names
// are in no particular order and may repeat, and some may be "". Variables in template files that cannot be parsed are
// left out. The result is nil if there are no such inputs.
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
