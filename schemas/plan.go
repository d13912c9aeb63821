package schemas

import (
	"fmt"
	"slices"

	"service-adapter/brokerpak"
)

// draft04 is the value of `$schema` that the broker requires, to the letter.
const draft04 = "http://json-schema.org/draft-04/schema#"

// Supplied contains the values that the operator and the plan provide for inputs that the user omits, by action and
// input. The defaults of the definition are not in it. A value may be Hidden. A null means that the input has no
// default, whatever the definition says. A nil map contains no values.
type Supplied struct {
	Provision map[string]any
	Bind      map[string]any
}

// Hidden represents a supplied value that users must not read.
type Hidden struct{}

// ForPlan returns the draft-04 JSON schemas of a plan for the parameters of creating an instance, updating it and
// creating a binding. properties are the properties of the plan: inputs of the provision action that a user cannot set
// because of them (see brokerpak.Action.PlanOwned) are left out of the first two schemas. The supplied values are the
// defaults in the schemas, in place of those of the definition, and their inputs are not required. The update schema
// also lacks inputs that must not change, and the create schema also contains the import inputs. Constraints that
// draft-04 cannot express are left out. ForPlan returns an error with the position in the definition if a constraint is
// invalid; the schemas are nil then.
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

// A section holds the data from which one of the three schemas of a plan is generated: that for creating an instance,
// for updating it, or for creating a binding. See ForPlan.
type section struct {
	action   *brokerpak.Action
	inputs   []brokerpak.Variable // the inputs that the user may set
	supplied map[string]any       // that part of Supplied which belongs to the action
	ofPlan   []string             // the inputs that always have the plan's value
	update   bool                 // whether the schema is for updating an instance
}

// schema returns the schema of the section. It allows further parameters only if the action has an additional input,
// and requires inputs only if it is not for an update. It returns an error with the position in the definition if a
// constraint of an input is invalid.
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

// property returns the schema of one input, or an error if its constraints contain a reference. In an update, an
// omitted input keeps its value, so the schema shows no default. A null resets the input to its supplied or default
// value, so the schema allows null unless only the user can provide a value.
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

// effective returns a copy of an input with the default that applies: the supplied value, else that of the definition.
// An input that is computed in any case or has a supplied null has no default, and a Hidden one is only mentioned in
// the description.
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

// userMustGive reports whether an input is required and gets a value only from the user: it has no supplied value and
// no default, and neither an expression nor the plan sets it.
func (s section) userMustGive(input brokerpak.Variable) bool {
	_, supplied := s.supplied[input.Name]
	computed := slices.Contains(brokerpak.Names(s.action.ComputedInputs), input.Name)
	hasDefault := input.HasDefault || input.DefaultExpr != nil
	return input.Required && !supplied && !computed && !hasDefault && !slices.Contains(s.ofPlan, input.Name)
}

// addImports adds the parameters that name existing resources to the properties of a schema, in place. Properties that
// exist already stay. The schema must have properties, as that of object has.
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

// object returns a draft-04 schema of an object with some properties and no others. The map of the properties is not
// copied.
func object(properties map[string]any) map[string]any {
	return map[string]any{
		"$schema":              draft04,
		"type":                 "object",
		"additionalProperties": false,
		"properties":           properties,
	}
}
