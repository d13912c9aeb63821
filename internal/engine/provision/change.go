package provision

import (
	"context"
	"maps"
	"slices"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/fault"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
)

// applyChanges applies the desired record to an existing instance if there is a reason to, such as an unfinished last
// run, another template or other values; see reasons. That an older OpenTofu wrote the state is a reason only if
// AllowUpgrade is set. state and record are the stored ones and must not be nil. Without a reason applyChanges
// returns the stored outputs, and Changed is false in the result.
//
// Before it determines the reasons, applyChanges changes op, so that op is changed even if nothing is applied. Unless
// the request has MustExist, it resolves the inputs again, in place of op.Inputs and op.Generated, if the instance
// keeps values of the stored record; see resolveWithImported. It then completes op.desired and adds providers to
// op.installation; see prepareChange.
//
// workCtx ends before the time of the rollback, and fullCtx after it. If no apply was ever complete, applyChanges
// finishes the creation within workCtx. If that fails, it tries to undo the creation within fullCtx or, in an errand,
// to record the failure in the state. If an apply was ever complete, this is an update, which has no rollback and may
// use fullCtx: the changes of a failed update remain, and in an errand, the failure of an apply is recorded in the
// state. If an older OpenTofu wrote the state of such an instance and AllowUpgrade is set, applyChanges applies the
// record with each OpenTofu of the upgrade path.
//
// The error is a *fault.UserError if a request without MustExist imports other resources than the stored instance. It
// is also an error if Request.Resolve fails, if the record of the last complete apply cannot be decoded or the
// template cannot be prepared, if there is a reason and an apply was ever complete, but an older OpenTofu wrote the
// state and AllowUpgrade is not set, or if the apply fails; see finish for the last one. The result is nil after an
// error.
func (op *operation) applyChanges(
	workCtx, fullCtx context.Context, state *statestore.State, record *lifecycle.StateRecord,
) (*Result, error) {
	if !op.MustExist && len(op.desired.Imported) > 0 && !maps.Equal(op.desired.Imported, record.Imported) {
		return nil, fault.Userf("the instance exists already, so it cannot import anything")
	}
	op.desired.ImportedParameters = record.ImportedParameters
	if !op.MustExist { // since the import, no manifest was deployed that could contain its values
		if err := op.resolveWithImported(record.Inputs); err != nil {
			return nil, err
		}
	}
	ctx, creating := fullCtx, state.Applied == nil
	if creating {
		ctx = workCtx
	}
	prepared, err := op.prepareChange(ctx, state, record)
	if err != nil {
		return nil, err
	}
	reasons, err := op.reasons(state, record)
	switch {
	case err != nil:
		return nil, err
	case len(reasons) == 0:
		return newResult(prepared, state.Outputs, false), nil
	case op.needsUpgrade(state):
		err = op.ApplyUpgrade(ctx, op.space, state, op.Pak, op.desired)
	default:
		err = op.ApplyNewRecord(ctx, op.space, prepared, op.desired, op.Pak)
	}
	return op.finish(ctx, fullCtx, prepared, creating, err)
}

// prepareChange completes op.desired for an existing instance and returns its prepared template: it copies the parts
// that the instance keeps from the stored state and record, which must not be nil, and then calls prepareDesired. For
// an errand, it also sets the outputs that bindings use until the apply is complete. It adds to op.installation the
// recorded providers and the executables that the pak lacks, and sets op.missing; see Manager.AddRecorded. It applies
// and stores no change.
//
// The instance keeps its creation time and the GUIDs of its owner that the request lacks. After a complete apply, it
// also keeps its imported resources with their values and, unless UseInstalledTemplate or AllowUpgrade is set, its
// template. With one of these settings, it still keeps the main.tf that an import generated, because the pak does not
// contain the imported resources. The kept template is that of the last complete apply, because one that was never
// applied completely may be defective. Without a complete apply, the template is that of the installed pak.
//
// prepareChange returns an error if the record of the last complete apply cannot be decoded or if the template cannot
// be prepared; op.desired is not complete then. Providers that no pak has are an error only if the template needs them.
func (op *operation) prepareChange(
	ctx context.Context, state *statestore.State, record *lifecycle.StateRecord,
) (*templates.Prepared, error) {
	op.desired.CreatedAt, op.desired.Owner = record.CreatedAt, op.desired.Or(record.Owner)
	if op.Errand {
		op.desired.Outputs = record.Outputs
		if state.Complete {
			op.desired.Outputs = state.Outputs
		}
	}
	// Resources in the state may need a provider that the installed pak no longer bundles.
	op.missing = op.AddRecorded(ctx, &op.installation, record)
	op.desired.SetInstallation(op.Pak, op.installation)
	if state.Applied != nil {
		lastApplied, err := lifecycle.DecodeRecord(state.Applied)
		if err != nil {
			return nil, err
		}
		op.desired.Imported, op.desired.ImportedValues = lastApplied.Imported, lastApplied.ImportedValues
		switch {
		case !op.UseInstalledTemplate && !op.AllowUpgrade:
			op.desired.Templates, op.desired.Declared = lastApplied.Templates, lastApplied.Declared
		case len(lastApplied.Imported) > 0:
			op.desired.Templates = maps.Clone(op.desired.Templates)
			op.desired.Templates[hclfile.RegeneratedFile] = lastApplied.Templates[hclfile.RegeneratedFile]
		}
	}
	return op.prepareDesired(ctx)
}

// equalInputs reports whether two records have the same templates, the same declared inputs in the same order, and
// equal StoredInputs, which lack the ephemeral inputs of their record. Nil StoredInputs differ from empty ones. It
// ignores all other fields, such as the versions of the pak and of OpenTofu. Neither record may be nil.
func equalInputs(a, b *lifecycle.StateRecord) bool {
	return maps.Equal(a.Templates, b.Templates) && slices.Equal(a.Declared, b.Declared) &&
		string(value.MustJSON(a.StoredInputs())) == string(value.MustJSON(b.StoredInputs()))
}
