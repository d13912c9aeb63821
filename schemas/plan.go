package schemas

import (
	"fmt"
	"slices"

	"service-adapter/brokerpak"
)

// draft04 is what the broker wants to read in `$schema`, to the letter.
const draft04 = "http://json-schema.org/draft-04/schema#"

// Supplied are the values that inputs have when a user does not give them, by action, besides the defaults of the definition: those
// of the operator and of the plan.
type Supplied struct {
	Provision map[string]any
	Bind      map[string]any
}

// Hidden is a supplied value that users must not read.
type Hidden struct{}

// ForPlan returns the JSON schemas of a plan, draft-04, for the parameters of creating an instance, updating it and binding
// to it. Properties are the plan's: inputs that they set are left out. A constraint that draft-04 cannot express is left
// out, one that is wrong is an error that names its place in the definition.
func ForPlan(service *brokerpak.Service, properties map[string]any, supplied Supplied) (create, update, bind map[string]any, err error) {
	open := slices.DeleteFunc(lastOfEachName(service.Provision.UserInputs), func(v brokerpak.Variable) bool {
		return service.Provision.PlanOwned(properties, v.Name)
	})
	changeable := slices.DeleteFunc(slices.Clone(open), func(v brokerpak.Variable) bool { return v.ProhibitUpdate })
	bound := section{
		action: &service.Bind, inputs: lastOfEachName(service.Bind.UserInputs), supplied: supplied.Bind, ofPlan: brokerpak.Names(service.Bind.PlanInputs),
	}
	for _, wanted := range []struct {
		what   string
		schema *map[string]any
		section
	}{
		{"creating instances", &create, section{action: &service.Provision, inputs: open, supplied: supplied.Provision}},
		{"updating instances", &update, section{action: &service.Provision, inputs: changeable, supplied: supplied.Provision, update: true}},
		{"bindings", &bind, bound},
	} {
		if *wanted.schema, err = wanted.section.schema(); err != nil {
			return nil, nil, nil, fmt.Errorf("making the schema for %s of %q: %w", wanted.what, service.Name, err)
		}
	}
	addImports(create, service.Provision.ImportInputs)
	return create, update, bind, nil
}

// section is one of the three schemas in the making.
type section struct {
	action   *brokerpak.Action
	inputs   []brokerpak.Variable
	supplied map[string]any
	ofPlan   []string // take the plan's value, whatever the user sends
	update   bool
}

func (s section) schema() (map[string]any, error) {
	further := brokerpak.AdditionalInput(s.inputs)
	named := slices.DeleteFunc(slices.Clone(s.inputs), func(v brokerpak.Variable) bool { return v.Additional })
	properties, err := propertiesOf(named, s.property, func(properties map[string]any) error { return compilePublished(object(properties)) })
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

// property is the schema of one input. In an update, what is left out keeps its value, so no default is shown, and null resets an input to
// what supplies it otherwise.
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

// effective gives an input the default that counts. One that is computed in any case has none.
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

// userMustGive tells whether nothing but the user can supply a required input.
func (s section) userMustGive(input brokerpak.Variable) bool {
	_, supplied := s.supplied[input.Name]
	computed := slices.Contains(brokerpak.Names(s.action.ComputedInputs), input.Name)
	hasDefault := input.HasDefault || input.DefaultExpr != nil
	return input.Required && !supplied && !computed && !hasDefault && !slices.Contains(s.ofPlan, input.Name)
}

// addImports admits the parameters that name existing resources.
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

func object(properties map[string]any) map[string]any {
	return map[string]any{
		"$schema":              draft04,
		"type":                 "object",
		"additionalProperties": false,
		"properties":           properties,
	}
}
