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

// importedResources returns the resources that the request imports: the import id, such as "i-1234", by the address of
// the resource in the template, such as "aws_instance.main". The ids are the values of the import inputs of the service
// definition; an empty text counts as no value. It returns nil if no import input has a value, and if MustExist is set,
// because only a new instance can import. The error is a *fault.UserError that names the missing inputs if only some of
// the import inputs have a value; the map is nil then.
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

// importResources imports the resources that op.desired names into the reserved state, with the prepared template of
// the pak, and generates main.tf from their attributes. It sets the template and the values of op.desired accordingly,
// and assigns that record to the workspace, which stores it with the next apply. It may replace op.Inputs and
// op.Generated; see adoptValues. It returns the prepared generated template. It runs no apply.
//
// The error is a *fault.UserError if an apply of the generated template would destroy or replace a resource. It is also
// an error if OpenTofu fails to import, show or plan, if main.tf cannot be generated, if an attribute that an input
// needs is missing, if Request.Resolve rejects the values, if the generated template cannot be prepared, or if the
// record cannot be encoded. After an error, the resources that were imported before stay in the state, and op.desired
// may have been changed. The returned template is never nil: after an error it is the parameter prepared or the
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

// regenerateTemplate replaces main.tf in op.desired by one that describes the imported resources, leaves the other
// files as they are in the service definition, and then calls adoptValues, which gives the inputs the values of these
// resources. prepared is the template of the pak, whose providers describe the attributes. shown is the state as "tofu
// show -json" prints it. Warnings of the generator are logged.
//
// regenerateTemplate returns an error if the schemas of the providers cannot be read or if main.tf cannot be generated;
// op.desired is unchanged then. It also returns the errors of adoptValues: if the state cannot be decoded, if an
// attribute that an input needs is missing, or if Request.Resolve fails.
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

// adoptValues stores the values of the imported resources in op.desired, and then calls resolveWithImported, which
// resolves the inputs of the request again with the ImportedParameters if there are any. written is the result of
// generating main.tf, with the values by input. shown is the state as "tofu show -json" prints it, from which the
// attributes that tf_attribute names are read.
//
// The values of user inputs become parameters of the instance (ImportedParameters). Values that the state marks as
// sensitive, and values of other inputs, are stored only as ImportedValues, and are used for inputs without any other
// value. If an input has a value in written and an attribute, and both are sensitive or both are not, that of the
// attribute is used. If only one of them is sensitive, the one that is not sensitive is used.
//
// adoptValues returns an error, and leaves op.desired unchanged, if readAttributes fails, for example because such an
// attribute has no value. It also returns an error if Request.Resolve fails.
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

// resolveWithImported replaces the Inputs and Generated of the operation's request by calling Request.Resolve with
// additional parameters: the ImportedParameters of op.desired, and the values in recordedInputs of the inputs that
// Request.KeepRecorded names, which take precedence over the ImportedParameters. recordedInputs are the inputs of the
// stored record, and may be nil. If there are no additional parameters of either kind, resolveWithImported does not
// call Resolve, changes nothing and returns nil. Otherwise it returns the error of Resolve. After an error, Inputs
// and Generated have been replaced as well and must not be used.
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

// readAttributes reads the attributes of the imported resources that the tf_attribute of user inputs names, such as
// "aws_db_instance.main.port". It adds each value, by the name of the input, to the map kept if the state marks any
// part of the attribute as sensitive, and otherwise to the map parameters; the declaration of the input does not
// matter. Both maps must not be nil. readAttributes skips an input without tf_attribute, and one whose
// tf_attribute_skip names an input that is true, or the text "true", in op.Inputs. shown is the state as "tofu show
// -json" prints it.
//
// readAttributes returns an error that names the inputs whose attributes do not exist or are null. It returns another
// error if the state is not valid, if a tf_attribute does not have the form TYPE.NAME.ATTRIBUTE, if it is ambiguous
// because the resource has several objects or because it lacks the index into a list of several elements, or if a
// value contains an integer of more than 64 bits or a number beyond float64. The rounding of a fraction to float64 is
// not an error. After an error the maps may contain some of the values.
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
// record and removes the workspace. record is the one of that import. undoImport drops them regardless of the progress
// that the state shows, so that resources that existed before the instance can never be destroyed. Ephemeral inputs get
// their values from the request. It returns nil if the workspace no longer exists. It returns an error if the imported
// resources cannot be dropped or the state cannot be read, after which no resource is destroyed, and the errors of
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
		if item, exists := op.Inputs[name]; exists {
			inputs = value.Merge(inputs, map[string]any{name: item})
		}
	}
	return op.Destroy(ctx, lifecycle.Destruction{Space: op.space, State: state, Record: record, Inputs: inputs})
}
