package workspace

import (
	"errors"
	"fmt"

	"service-adapter/internal/engine/opentofu"
	"service-adapter/internal/engine/templates"
)

// ErrNewerState reports that the installation's OpenTofu is older than the one that reserved or applied the workspace.
var ErrNewerState = errors.New("the state was written by a newer OpenTofu")

// A guard is what this run knows of the guard in the state of a workspace, the resource that holds the caller's record
// and the nonce of the owner, after it has created or read that resource. It also contains a record that the next apply
// will store, if any, and whether this run has reserved the workspace or taken it over. The zero guard means that no
// guard has been read or created, or that the state contains none.
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

// newerStateError returns an error that wraps ErrNewerState and names writtenBy, the version of OpenTofu that wrote the
// state, such as "1.10.6", and the version of the installation i. It does not compare the versions, and never returns
// nil.
func newerStateError(writtenBy string, i opentofu.Installation) error {
	return fmt.Errorf("%w: it was written by OpenTofu %s, and this is OpenTofu %s", ErrNewerState, writtenBy, i.Version)
}

// requireReserved returns nil if this run has created or read the guard, and the OpenTofu i is not older than the one
// that wrote the guard. A version that is not valid counts as not older. It returns a plain error if the workspace is
// not reserved or its guard has not been read, and an error that wraps ErrNewerState if the OpenTofu is older. It
// reads no state.
func (g *guard) requireReserved(i opentofu.Installation) error {
	if g.nonce == "" {
		return errors.New("it is not reserved")
	}
	return g.requireNotOlder(i)
}

// nextRecord returns the record that the next apply stores in the guard: the record of SetRecord if one is pending,
// otherwise the record that the state contains. It returns nil if none is pending and the guard has not been read.
func (g *guard) nextRecord() []byte {
	if g.pendingRecord != nil {
		return g.pendingRecord
	}
	return g.record
}

// variables returns the variables for a run of the variant templates.Apply, which consists of the template p and the
// guard, in a new map. It contains the variables that the template declares or uses without declaring them: with the
// value in vars, or null if the variable is missing in vars and has no default. Other entries of vars are left out, and
// vars may be nil. It also contains the guard's nonce and the record that the next apply stores, under the names
// templates.NonceVariable and templates.RecordVariable.
func (g *guard) variables(p *templates.Prepared, vars map[string]any) map[string]any {
	all := p.DeclaredVariables(vars)
	all[templates.RecordVariable], all[templates.NonceVariable] = string(g.nextRecord()), g.nonce
	return all
}

// forgetGuard discards all that this Workspace knows of the guard and of the state in the backend, because the guard is
// deleted or belongs to another run. It also discards a record of SetRecord that is not stored yet. It changes no
// stored state.
func (w *Workspace) forgetGuard() { w.guard, w.lastRead, w.tracked = guard{}, snapshot{}, nil }
