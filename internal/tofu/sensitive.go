package tofu

import (
	"service-adapter/internal/statestore"
)

// hide masks from now on what a state holds of secrets: outputs that are, as their names or looks say, and the attributes that the
// template or a provider marks as sensitive, such as a password that was generated.
func (w *Workspace) hide(state *statestore.State) {
	if state == nil {
		return
	}
	w.mask.AddValues(state.Outputs)
	w.mask.Add(state.SensitiveValues())
}
