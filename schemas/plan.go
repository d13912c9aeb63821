package schemas

import (
	"fmt"
	"slices"

	"service-adapter/brokerpak"
)

// draft04 is the value of `$schema` that the broker requires, to the letter.
const draft04 = "http://json-schema.org/draft-04/schema#"

// Supplied contains the values that the operator and the plan provide for inputs that the user omits, in one map for
// the provision action and one for the bind action, by the name of the input. The defaults in the service definition
// are not in it. The value Hidden{} means that users must not read the supplied value. Null means that the default in
// the definition does not apply. A nil map contains no values.
type Supplied struct {
	Provision map[string]any
	Bind      map[string]any
}

// Hidden is a placeholder in Supplied for a value that the operator or the plan provides and that users must not read,
// such as a secret. It has no content.
type Hidden struct{}

// ForPlan returns three draft-04 JSON schemas of a plan: for the parameters of creating an instance, of updating it and
// of creating a binding. properties are the properties of the plan. Inputs that the user cannot set because properties
// contains them (see brokerpak.Action.PlanOwned) are left out of the first two schemas. The update schema also lacks
// inputs that must not change after creation, and the create schema also contains the import inputs. Parameters without
// an input are allowed only if the user may set an additional input. Of the constraints that draft-04 does not have,
// const and exclusive limits are rewritten, propertyNames is left out, and contains, if, then and else stay unchanged.
//
// The schemas for creating an instance and for creating a binding show the supplied values as defaults, in place of
// those of the definition, and do not require their inputs; a Hidden value is only mentioned in the description of its
// input. The default of an input that a computed input always overwrites is left out. The update schema shows no
// defaults and requires no input. For a service without a bind section, the third schema allows no parameters.
//
// ForPlan returns nil schemas and an error, which contains the position in the definition, if the constraints of an
// input are invalid or contain a $ref. It does not examine the parts of constraints that the schemas lack or contain
// unchanged, such as propertyNames and if.
func ForPlan(
	service *brokerpak.Service, properties map[string]any, supplied Supplied,
) (create, update, bind map[string]any, err error) {
	open := slices.DeleteFunc(lastOfEachName(service.Provision.UserInputs), func(v brokerpak.Variable) bool {
		return service.Provision.PlanOwned(properties, v.Name)
	})
	changeable := slices.DeleteFunc(slices.Clone(open), func(v brokerpak.Variable) bool { return v.ProhibitUpdate })
	bound := section{
		action: &service.Bind, inputs: lastOfEachName(service.Bind.UserInputs), supplied: supplied.Bind,
		ofPlan: brokerpak.Names(service.Bind.PlanInputs),
	}
	created := section{action: &service.Provision, inputs: open, supplied: supplied.Provision}
	updated := section{action: &service.Provision, inputs: changeable, supplied: supplied.Provision, update: true}
	for _, requested := range []struct {
		purpose string
		schema  *map[string]any
		section
	}{
		{"creating instances", &create, created},
		{"updating instances", &update, updated},
		{"bindings", &bind, bound},
	} {
		if *requested.schema, err = requested.section.schema(); err != nil {
			return nil, nil, nil, fmt.Errorf("generating the schema for %s of %q: %w",
				requested.purpose, service.Name, err)
		}
	}
	addImports(create, service.Provision.ImportInputs)
	return create, update, bind, nil
}

// A section holds the data from which one of the three schemas of a plan is generated: the schema for creating an
// instance, for updating it, or for creating a binding. The data are the action, the inputs that the user may set, the
// supplied values, the names of the plan inputs, which only the section for a binding has, and whether the schema is
// for an update. The zero section is not usable.
type section struct {
	action   *brokerpak.Action
	inputs   []brokerpak.Variable // the inputs that the user may set
	supplied map[string]any       // that part of Supplied which belongs to the action
	ofPlan   []string             // the names of the plan inputs, which only a binding has
	update   bool                 // whether the schema is for updating an instance
}

// schema returns the draft-04 schema of the parameters of a request, with a property for each input of the section. The
// schema allows further parameters only if one of the inputs is an additional input, which has no property of its own.
// Unless it is for an update, it requires the required inputs that have no other source of a value than the user (see
// userMustGive). schema returns nil and an error with the position in the definition if a constraint of an input is
// invalid or contains a $ref.
func (s section) schema() (map[string]any, error) {
	further := brokerpak.AdditionalInput(s.inputs)
	named := slices.DeleteFunc(slices.Clone(s.inputs), func(v brokerpak.Variable) bool { return v.Additional })
	properties, err := propertiesOf(named, s.property, func(properties map[string]any) error {
		return compilePublished(object(properties))
	})
	if err != nil {
		return nil, err
	}
	var required []string
	for _, input := range s.inputs {
		if s.userMustGive(input) && !s.update {
			required = append(required, input.Name)
		}
	}
	schema := object(properties)
	schema["additionalProperties"] = further != nil
	if len(required) > 0 {
		slices.Sort(required)
		schema["required"] = required
	}
	return schema, nil
}

// property returns the schema of one input. The schema for an update shows no default, because an omitted input keeps
// its value. Null is added to its type and enum if the input is nullable and, so that users can reset the input, also
// if the input is not required or has another source of a value than the user (see userMustGive). The schemas for
// creation show the default that applies; see effective. Null is added to their types and enums only if the input is
// nullable. property returns an error, and a schema that must not be used, if the constraints of the input contain a
// $ref that the translator notices.
func (s section) property(input brokerpak.Variable) (map[string]any, error) {
	if !s.update {
		return described(s.effective(input), false)
	}
	null := !s.userMustGive(input)
	input.Default, input.DefaultExpr, input.HasDefault = nil, nil, false
	schema, err := described(input, null)
	delete(schema, "default")
	return schema, err
}

// effective returns a copy of an input whose default is the one that applies when the user omits the input: the
// supplied value, or else the default of the definition. The copy has no default if a computed input always overwrites
// the value, or if the supplied value is null. If the supplied value is Hidden and is not overwritten, the copy has no
// default either, and its description says that the operator sets the value. The original does not change.
func (s section) effective(input brokerpak.Variable) brokerpak.Variable {
	supplied, ok := s.supplied[input.Name]
	overwritten := func(c brokerpak.Variable) bool { return c.Name == input.Name && c.Overwrite }
	switch {
	case slices.ContainsFunc(s.action.ComputedInputs, overwritten):
		supplied = nil
	case !ok:
		return input
	case supplied == Hidden{}:
		supplied = nil
		input.Details += " (the operator sets it when it is left out)"
	}
	input.Default, input.DefaultExpr, input.HasDefault = supplied, nil, supplied != nil
	return input
}

// userMustGive reports whether the user must provide a value for an input, because the input is required and has no
// other source of a value: neither a supplied value (a supplied null counts as one) nor a default, and neither a
// computed input of its name nor, for bindings, a plan input of its name.
func (s section) userMustGive(input brokerpak.Variable) bool {
	_, supplied := s.supplied[input.Name]
	computed := slices.Contains(brokerpak.Names(s.action.ComputedInputs), input.Name)
	hasDefault := input.HasDefault || input.DefaultExpr != nil
	return input.Required && !supplied && !computed && !hasDefault && !slices.Contains(s.ofPlan, input.Name)
}

// addImports adds a property for each import input, a parameter that names an existing resource, to the properties of a
// schema, in place. A property that already exists with the name of an import input stays unchanged. The schema must
// have a map of properties, as the result of object has; otherwise addImports panics if there are import inputs.
func addImports(schema map[string]any, imports []brokerpak.Variable) {
	properties, _ := schema["properties"].(map[string]any)
	for _, input := range imports {
		if _, ok := properties[input.Name]; ok {
			continue
		}
		property := map[string]any{"title": title(input.Name), "description": input.Details}
		if input.Type != "" {
			property["type"] = input.Type
		}
		properties[input.Name] = property
	}
}

// object returns a new draft-04 schema of an object that allows only the named properties and requires none of them.
// properties maps the names to their schemas; the map becomes part of the result and is not copied.
func object(properties map[string]any) map[string]any {
	return map[string]any{
		"$schema":              draft04,
		"type":                 "object",
		"additionalProperties": false,
		"properties":           properties,
	}
}
