package provision

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/templates"
	"service-adapter/internal/fault"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

// importedResources returns the resources that the request imports, address → id. It returns nil if no import input
// has a value, and if MustExist is set, because only a new instance can import. The error is a *fault.UserError if only
// some of the import inputs have a value.
func (r *Request) importedResources() (map[string]string, error) {
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
	case r.MustExist || len(imported) == 0:
		return nil, nil
	case len(missing) > 0:
		return nil, fault.Userf("must provide values for all import parameters: %s", strings.Join(missing, ", "))
	}
	return imported, nil
}

// importResources imports the resources that the desired record names into the reserved state, with the prepared
// template of the pak, and generates main.tf from their attributes. It sets the template and the values of the desired
// record accordingly, and assigns the record to the workspace. It returns the prepared generated template. It applies
// nothing.
//
// The error is a *fault.UserError if an apply of the generated template would destroy or replace a resource. Other
// errors are those of OpenTofu, of regenerateTemplate and of prepareDesired. Resources that were imported before an
// error stay in the state. The returned template is never nil: after an error it is the parameter prepared or the
// generated one, with which the import can be undone.
func (op *operation) importResources(ctx context.Context, prepared *templates.Prepared) (*templates.Prepared, error) {
	for _, address := range value.Keys(op.desired.Imported) {
		if err := op.space.Import(ctx, prepared, op.desired.Inputs, address, op.desired.Imported[address]); err != nil {
			return prepared, err
		}
	}
	shown, err := op.space.Show(ctx, prepared)
	if err != nil {
		return prepared, err
	}
	if err := op.regenerateTemplate(ctx, prepared, shown); err != nil {
		return prepared, err
	}
	regenerated, err := op.prepareDesired(ctx)
	if err != nil {
		return prepared, err
	}
	if err := op.desired.AssignTo(op.space, op.AdapterVersion); err != nil {
		return regenerated, err
	}
	plan, err := op.space.Plan(ctx, regenerated, op.desired.Inputs, false)
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

// regenerateTemplate replaces main.tf in the desired record by one that describes the imported resources, and then
// calls adoptValues. prepared is the template of the pak, whose providers describe the attributes. shown is the state
// as "tofu show -json" prints it. Warnings of the generator are logged. It returns an error if the schemas of the
// providers cannot be read or main.tf cannot be generated, and those of adoptValues.
func (op *operation) regenerateTemplate(ctx context.Context, prepared *templates.Prepared, shown []byte) error {
	schemas, err := op.space.Schemas(ctx, prepared)
	if err != nil {
		return err
	}
	action := &op.Service.Provision
	written, err := hclfile.Regenerate(hclfile.Regeneration{
		Files: action.Templates, Resources: value.Keys(op.desired.Imported), State: shown, Schemas: schemas,
		Delete: action.ImportParametersToDelete, Add: action.ImportParametersToAdd,
		Mappings: action.ImportParameterMappings,
	})
	if err != nil {
		return err
	}
	for _, warning := range written.Warnings {
		op.Logger.Warn("importing", "instance", op.InstanceID, "warning", warning)
	}
	op.desired.Templates = maps.Clone(action.Templates)
	op.desired.Templates[hclfile.RegeneratedFile] = written.Main
	return op.adoptValues(shown, written)
}

// adoptValues gives the inputs the values of the imported resources, and resolves the other inputs again. From then on,
// the values of user inputs are parameters of the instance. Sensitive values, and values of other inputs, are stored
// only in the desired record, where they are used for inputs without any other value. written is the result of
// generating main.tf, with the values of inputs. shown is the state as "tofu show -json" prints it. The errors are
// those of readAttributes and of Request.Resolve.
func (op *operation) adoptValues(shown []byte, written *hclfile.Regenerated) error {
	parameters, kept := map[string]any{}, map[string]any{}
	for name, item := range written.Values {
		isUserInput := slices.ContainsFunc(op.Service.Provision.UserInputs, func(v brokerpak.Variable) bool {
			return v.Name == name
		})
		if isUserInput && !slices.Contains(written.Sensitive, name) {
			parameters[name] = item
		} else {
			kept[name] = item
		}
	}
	if err := op.readAttributes(shown, parameters, kept); err != nil {
		return err
	}
	op.desired.ImportedValues, op.desired.ImportedParameters = kept, parameters
	return op.resolveWithImported(nil)
}

// resolveWithImported sets the Inputs and Generated of the request by resolving them again with additional parameters:
// the imported parameters of the desired record, and the values in recordedInputs of the inputs that
// Request.KeepRecorded names, which take precedence. recordedInputs are the inputs of the stored record, and may be
// nil. If there are no such values, resolveWithImported changes nothing. It returns the error of Request.Resolve.
func (op *operation) resolveWithImported(recordedInputs map[string]any) error {
	parameters := maps.Clone(op.desired.ImportedParameters)
	for _, name := range op.KeepRecorded {
		if item, exists := recordedInputs[name]; exists {
			parameters = value.Merge(parameters, map[string]any{name: item})
		}
	}
	if len(parameters) == 0 {
		return nil
	}
	var err error
	op.Inputs, op.Generated, err = op.Resolve(parameters)
	return err
}

// readAttributes reads the attributes of the imported resources that tf_attribute of the user inputs names. It adds
// each value to the map kept if it is sensitive, and otherwise to the map parameters, by input. It skips an input whose
// tf_attribute_skip names an input with the value true. shown is the state as "tofu show -json" prints it. It returns
// an error that names the inputs whose attributes have no value, and an error if a tf_attribute or the state is not
// valid.
func (op *operation) readAttributes(shown []byte, parameters, kept map[string]any) error {
	state, err := tfjson.DecodeState(shown)
	if err != nil {
		return err
	}
	var missing []string
	for _, input := range op.Service.Provision.UserInputs {
		if input.TFAttribute == "" || value.Text(op.Inputs[input.TFAttributeSkip]) == "true" {
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

// undoImport drops the imported resources of an unfinished import from the state, destroys all other resources of the
// record and removes the workspace. It does so regardless of the progress that the state shows, so that resources that
// existed before the instance can never be destroyed. It returns nil if the workspace no longer exists. It returns an
// error if the imported resources cannot be dropped, after which nothing is destroyed, and the errors of
// lifecycle.Manager.Destroy.
func (op *operation) undoImport(ctx context.Context, record *lifecycle.StateRecord) error {
	if err := op.space.Forget(ctx, op.installation, value.Keys(record.Imported)...); err != nil {
		return err
	}
	state, err := op.space.State(ctx, op.installation)
	if err != nil || state == nil {
		return err
	}
	inputs := maps.Clone(record.Inputs)
	for _, name := range record.MissingEphemeral(inputs) { // the request has their values
		if item, known := op.Inputs[name]; known {
			inputs = value.Merge(inputs, map[string]any{name: item})
		}
	}
	return op.Destroy(ctx, lifecycle.Destruction{Space: op.space, State: state, Record: record, Inputs: inputs})
}
