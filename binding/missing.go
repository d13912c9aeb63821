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
// state of the instance cannot be read.
//
// Instances that an errand provisions are not checked, because their manifests are written before the errand runs.
// Without an instance in the request, or without a record in its manifest, checkInstanceState returns nil.
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
			"without a backup, remove by hand what the binding and the instance created, "+
			"and then run cf purge-service-instance", r.BindingID, id)
	case err != nil:
		return fmt.Errorf("checking the state of instance %q: %w", id, err)
	}
	return nil
}
