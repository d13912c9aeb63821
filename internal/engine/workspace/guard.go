package workspace

import (
	"errors"
	"fmt"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
)

// ErrNewerState reports that the installation's OpenTofu is older than the one that reserved or applied the workspace.
var ErrNewerState = errors.New("the state was made by a newer OpenTofu")

// A guard is what this run knows of the guard in the state of a workspace, after it has created or read the guard.
type guard struct {
	record      []byte
	nonce       string // "" means that the workspace is not reserved, or that its guard has not been read
	tofuVersion string // the version of OpenTofu that wrote the guard

	// pendingRecord is the record of SetRecord, which the next Apply stores. nil keeps the stored record.
	pendingRecord []byte
	// owner states whether this run reserved the workspace or took it over, so that no other run can have removed it.
	owner bool
}

// requireNotOlder returns an error that wraps ErrNewerState if a newer OpenTofu wrote the guard, and nil if the guard
// has not been read or one of the versions is not valid. OpenTofu itself would accept the state, and replace the
// version in it by its own.
func (g *guard) requireNotOlder(i opentofu.Installation) error {
	if opentofu.Older(i.Version, g.tofuVersion) {
		return newerStateError(g.tofuVersion, i)
	}
	return nil
}

// newerStateError returns an error that wraps ErrNewerState and names madeBy, the version that wrote the state, and the
// version of the installation.
func newerStateError(madeBy string, i opentofu.Installation) error {
	return fmt.Errorf("%w: it was made by OpenTofu %s, and this is OpenTofu %s", ErrNewerState, madeBy, i.Version)
}

// requireReserved returns an error if the workspace is not reserved or its guard has not been read, and ErrNewerState
// if the OpenTofu is older than its state.
func (g *guard) requireReserved(i opentofu.Installation) error {
	if g.nonce == "" {
		return errors.New("it is not reserved")
	}
	return g.requireNotOlder(i)
}

// nextRecord returns the record that the next apply stores: that of SetRecord if there is one, otherwise the stored
// one, which is nil if the guard has not been read.
func (g *guard) nextRecord() []byte {
	if g.pendingRecord != nil {
		return g.pendingRecord
	}
	return g.record
}

// variables returns the variables for a run of the variant templates.Apply, in a new map: those of vars that the
// template declares or uses, null for such variables that are missing in vars and have no default, and the record, see
// nextRecord, and the nonce of the guard.
func (g *guard) variables(p *templates.Prepared, vars map[string]any) map[string]any {
	all := p.DeclaredVariables(vars)
	all[templates.RecordVariable], all[templates.NonceVariable] = string(g.nextRecord()), g.nonce
	return all
}

// forgetGuard discards all that is known of the guard and the state, because the guard is deleted or belongs to another
// run. It also discards a record of SetRecord that is not stored yet.
func (w *Workspace) forgetGuard() { w.guard, w.lastRead, w.tracked = guard{}, snapshot{}, nil }
