package tofu

import (
	"service-adapter/internal/statestore"
)

// hide masks from now on what a state holds of secrets: outputs that are, as their names or looks say, and the attributes that the
// template or a provider marks as sensitive, such as a password that was generated.
func (s *session) hide(state *statestore.State) {
	if state == nil {
		return
	}
	s.mask.AddValues(state.Outputs)
	s.mask.Add(state.SensitiveValues())
}
