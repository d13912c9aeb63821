package provision

import (
	"context"
	"maps"
	"slices"

	"service-adapter/internal/fault"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
)

// update changes an instance where it is not as it shall be. A creation that was never finished is finished, or undone where that
// fails. What an update changed before it failed stays: an update has no rollback, and all of the budget.
func (w *run) update(working, all context.Context, state *statestore.State, record *lifecycle.Record) (*Result, error) {
	if !w.Known && len(w.wanted.Imported) > 0 && !maps.Equal(w.wanted.Imported, record.Imported) {
		return nil, fault.Userf("the instance exists already, so it cannot import anything")
	}
	w.wanted.Parameters = record.Parameters
	if !w.Known { // no manifest was deployed since the import, which could remember them
		if err := w.recall(record.Inputs); err != nil {
			return nil, err
		}
	}
	ctx, creating := all, state.Applied == nil
	if creating {
		ctx = working
	}
	prepared, err := w.inherit(ctx, state, record)
	if err != nil {
		return nil, err
	}
	// What was never complete has nothing that an upgrade would have to keep.
	older := opentofu.Older(state.TofuVersion, w.installation.Version) && !creating
	switch {
	case older && w.Upgrades:
		err = w.Upgrade(ctx, w.space, state, w.Pak, w.wanted)
	case state.Complete && same(record, w.wanted):
		return newResult(prepared, state.Outputs, false), nil
	case older:
		return nil, w.mustUpgrade(state)
	default:
		err = w.wanted.Apply(ctx, w.space, w.installation, prepared, w.Pak)
	}
	return w.finish(ctx, all, prepared, creating, err)
}

// inherit gives the wanted record what the instance keeps: its template, unless the operator wants that of the installed pak, and in any
// case the main.tf that an import wrote, because the pak does not know the imported resources. What it keeps is that of the last apply
// that was complete: it does not keep what never worked.
func (w *run) inherit(ctx context.Context, state *statestore.State, record *lifecycle.Record) (*tofu.Prepared, error) {
	w.wanted.CreatedAt, w.wanted.Owner = record.CreatedAt, w.wanted.Or(record.Owner)
	if w.Errand {
		w.wanted.Outputs = record.Outputs
		if state.Complete {
			w.wanted.Outputs = state.Outputs
		}
	}
	// Resources of the state may need a provider that the installed pak does not bundle any more.
	w.missing = w.AddProviders(ctx, &w.installation, record)
	w.wanted.MadeBy(w.Pak, w.installation)
	if state.Applied != nil {
		kept, err := lifecycle.DecodeRecord(state.Applied)
		if err != nil {
			return nil, err
		}
		w.wanted.Imported, w.wanted.Found = kept.Imported, kept.Found
		switch {
		case !w.Updates && !w.Upgrades:
			w.wanted.Templates, w.wanted.Declared = kept.Templates, kept.Declared
		case len(kept.Imported) > 0:
			w.wanted.Templates = maps.Clone(w.wanted.Templates)
			w.wanted.Templates[hclfile.RegeneratedFile] = kept.Templates[hclfile.RegeneratedFile]
		}
	}
	return w.prepare(ctx, w.wanted)
}

// same tells whether two records describe the same instance. What made it does not count.
func same(a, b *lifecycle.Record) bool {
	return maps.Equal(a.Templates, b.Templates) && slices.Equal(a.Declared, b.Declared) &&
		string(value.MustJSON(a.Inputs)) == string(value.MustJSON(b.Inputs))
}
