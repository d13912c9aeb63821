package binding

import (
	"context"
	"errors"
	"fmt"

	"service-adapter/internal/engine/lifecycle"
)

// checkInstanceState returns an error if the manifest of the instance records that generate-manifest applied the
// provision template, and the state backend has no state of the instance. Such a backend probably lost the state of the
// binding as well, so the missing state does not prove that the binding does not exist. It is also an error if the
// backend does not show whether the state exists, for example because it cannot be reached or the state is locked. A
// state that exists but cannot be read or decoded is not an error.
//
// Instances that an errand provisions are not checked, because their manifests are written before the errand runs.
// checkInstanceState returns nil without reading a state if the request has no Instance, or if the manifest has no
// record or its record names no template.
func (b *Binder) checkInstanceState(ctx context.Context, r *Request) error {
	if r.Instance == nil || r.Instance.Record == nil || r.Instance.Record.Template == nil {
		return nil
	}
	id := r.Instance.InstanceID()
	_, err := b.Lookup(ctx, lifecycle.Instance, id)
	switch {
	case errors.Is(err, lifecycle.ErrNotStored):
		return fmt.Errorf("the state backend has no state of binding %q, and none of its instance %q "+
			"although the instance's manifest records one: restore the states from a backup, "+
			"or correct `state` of the configuration if it names another backend, and unbind again; "+
			"without a backup, remove by hand the resources of the binding and of the instance, "+
			"and then run cf purge-service-instance", r.BindingID, id)
	case err != nil:
		return fmt.Errorf("checking the state of instance %q: %w", id, err)
	}
	return nil
}
