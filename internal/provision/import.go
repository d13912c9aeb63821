package provision

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/fault"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/lifecycle"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/tofu"
	"service-adapter/internal/value"
)

// imports are the resources that the request imports, address → id; nil where it has no value of an import input, and where the instance
// is known. It needs all of them or none.
func (r *Request) imports() (map[string]string, error) {
	imported := map[string]string{}
	var missing []string
	for _, input := range r.Service.Provision.ImportInputs {
		if id := value.Text(r.Inputs[input.Name]); id != "" {
			imported[input.Resource] = id
		} else {
			missing = append(missing, input.Name)
		}
	}
	switch {
	case r.Known || len(imported) == 0:
		return nil, nil
	case len(missing) > 0:
		return nil, fault.Userf("must provide values for all import parameters: %s", strings.Join(missing, ", "))
	}
	return imported, nil
}

// take takes the resources that exist into the reserved state, writes main.tf anew from them, and returns that template when to apply
// it would destroy nothing.
func (w *run) take(ctx context.Context, prepared *tofu.Prepared) (*tofu.Prepared, error) {
	for _, address := range value.Keys(w.wanted.Imported) {
		if err := w.space.Import(ctx, prepared, w.wanted.Inputs, address, w.wanted.Imported[address]); err != nil {
			return prepared, err
		}
	}
	shown, err := w.space.Show(ctx, prepared)
	if err != nil {
		return prepared, err
	}
	if err := w.regenerate(ctx, prepared, shown); err != nil {
		return prepared, err
	}
	regenerated, err := w.prepare(ctx, w.wanted)
	if err != nil {
		return prepared, err
	}
	if err := w.wanted.StoreWith(w.space); err != nil {
		return regenerated, err
	}
	plan, err := w.space.Plan(ctx, regenerated, w.wanted.Inputs, false)
	var destroyed []string
	for _, change := range plan {
		if change.Action == tfjson.Destroy || change.Action == tfjson.Replace {
			destroyed = append(destroyed, change.Address)
		}
	}
	if len(destroyed) > 0 {
		err = fault.Userf("the plan would destroy %s; the import is cancelled", strings.Join(destroyed, ", "))
	}
	return regenerated, err
}

// regenerate replaces main.tf, and the inputs by what the resources have.
func (w *run) regenerate(ctx context.Context, prepared *tofu.Prepared, shown []byte) error {
	schemas, err := w.space.Schemas(ctx, prepared)
	if err != nil {
		return err
	}
	action := &w.Service.Provision
	written, err := hclfile.Regenerate(hclfile.Regeneration{
		Files: action.Templates, Resources: value.Keys(w.wanted.Imported), State: shown, Schemas: schemas,
		Delete: action.ImportParametersToDelete, Add: action.ImportParametersToAdd, Mappings: action.ImportParameterMappings,
	})
	if err != nil {
		return err
	}
	for _, warning := range written.Warnings {
		w.Logger.Warn("importing", "instance", w.InstanceID, "warning", warning)
	}
	w.wanted.Templates = maps.Clone(action.Templates)
	w.wanted.Templates[hclfile.RegeneratedFile] = written.Main
	return w.find(shown, written)
}

// find gives the inputs the values that the imported resources have. Those of user inputs count as parameters of the instance from now
// on. A sensitive value, and one of something else than a user input, stays in the record of the state, for where the input has none.
func (w *run) find(shown []byte, written *hclfile.Regenerated) error {
	parameters, kept := map[string]any{}, map[string]any{}
	for name, item := range written.Values {
		isUserInput := slices.ContainsFunc(w.Service.Provision.UserInputs, func(v brokerpak.Variable) bool { return v.Name == name })
		if isUserInput && !slices.Contains(written.Sensitive, name) {
			parameters[name] = item
		} else {
			kept[name] = item
		}
	}
	if err := w.attributes(shown, parameters, kept); err != nil {
		return err
	}
	w.wanted.Found, w.wanted.Parameters = kept, parameters
	return w.recall(nil)
}

// recall lets the values that an import found count as parameters, and forgotten inputs have the values of the state.
func (w *run) recall(inputs map[string]any) error {
	found := maps.Clone(w.wanted.Parameters)
	for _, name := range w.Forgotten {
		if item, known := inputs[name]; known {
			found = value.Merge(found, map[string]any{name: item})
		}
	}
	if len(found) == 0 {
		return nil
	}
	var err error
	w.Inputs, w.Generated, err = w.Resolve(found)
	return err
}

// attributes reads the tf_attribute of each user input, unless the input that tf_attribute_skip names is true.
func (w *run) attributes(shown []byte, parameters, kept map[string]any) error {
	state, err := tfjson.DecodeState(shown)
	if err != nil {
		return err
	}
	var missing []string
	for _, input := range w.Service.Provision.UserInputs {
		if input.TFAttribute == "" || value.Text(w.Inputs[input.TFAttributeSkip]) == "true" {
			continue
		}
		item, sensitive, err := state.Attribute(input.TFAttribute)
		switch {
		case err != nil:
			return err
		case item == nil:
			missing = append(missing, input.Name)
		case sensitive:
			kept[input.Name] = item
		default:
			parameters[input.Name] = item
		}
	}
	if len(missing) > 0 {
		return errors.New("cannot find required import values for fields: " + strings.Join(missing, ", "))
	}
	return nil
}

// undoImport forgets what an unfinished import took over, and destroys what was made beside it. It forgets whatever the state says of
// how far the apply had got: afterwards nothing that existed before can be destroyed.
func (w *run) undoImport(ctx context.Context, record *lifecycle.Record) error {
	if err := w.space.Forget(ctx, w.installation, value.Keys(record.Imported)...); err != nil {
		return err
	}
	state, err := w.space.State(ctx, w.installation)
	if err != nil || state == nil {
		return err
	}
	return w.Destroy(ctx, lifecycle.Destruction{Space: w.space, State: state, Record: record, Inputs: record.Inputs})
}
