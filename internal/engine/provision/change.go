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

// applyChanges applies the desired record to an existing instance if there is a reason to; see reasons. state and
// record are the stored ones. workCtx ends before the time of the rollback, and fullCtx after it. Without a reason it
// returns the stored outputs. If no apply was ever complete, applyChanges finishes the creation, and undoes it if that
// fails, unless an errand applies. Changes of a failed update remain: an update has no rollback, and may use the whole
// budget.
//
// The error is a *fault.UserError if the request imports other resources than the stored instance. Other errors are
// those of resolving and preparing the desired record, of reasons, and of the apply.
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

// prepareChange copies from the stored state and record to the desired record the parts that the instance keeps, and
// then calls prepareDesired. For an errand, it also sets the outputs that bindings use until the apply is complete. It
// adds to the installation the recorded providers and the executables that the pak lacks; see Manager.AddRecorded.
// Providers that no pak has are an error only if the template needs them. It is also an error if the record of the last
// complete apply cannot be decoded.
//
// The instance keeps its creation time and, unless UseInstalledTemplate or AllowUpgrade is set, its template. It always
// keeps the main.tf that an import generated, because the pak does not contain the imported resources. The template is
// that of the last complete apply, because one that was never applied completely may be defective. Without a complete
// apply, the template is that of the installed pak.
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

// equalInputs reports whether two records have the same templates, declared inputs and stored values. It ignores all
// other fields, such as the versions of the pak and of OpenTofu.
func equalInputs(a, b *lifecycle.StateRecord) bool {
	return maps.Equal(a.Templates, b.Templates) && slices.Equal(a.Declared, b.Declared) &&
		string(value.MustJSON(a.StoredInputs())) == string(value.MustJSON(b.StoredInputs()))
}
