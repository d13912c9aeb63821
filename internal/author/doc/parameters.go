package doc

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
)

// Create returns the parameters of requests to create and update an instance, with notes on the values that plans set;
// see inputs.
func (s service) Create() []parameter { return s.inputs(s.Provision, sets) }

// Binding returns the parameters of requests to create a binding, with notes on the values that plans set; see inputs.
func (s service) Binding() []parameter {
	return s.inputs(s.Bind, func(plan brokerpak.Plan) map[string]any { return plan.BindOverrides })
}

// inputs returns a description of each user input of an action, in the order of the definition. Plan inputs are not
// included. fixedBy returns the values that a plan sets, by name of the input: the description gets a note for each
// plan of the service that sets the input. The note calls the value a default if plan_defaults of the action contains
// the input. An input that the action computes is not described as required.
func (s service) inputs(action brokerpak.Action, fixedBy func(brokerpak.Plan) map[string]any) []parameter {
	var all []parameter
	for _, input := range action.UserInputs {
		p := describe(input)
		p.Required = p.Required && !isComputed(action, input.Name)
		if input.Additional {
			p.Notes = append(p.Notes, linef("Stands for all other parameters, which have names of their own."))
		}
		if input.ProhibitUpdate {
			p.Notes = append(p.Notes, linef("Cannot be changed after creation."))
		}
		for _, plan := range s.Plans {
			if fixed, ok := fixedBy(plan)[input.Name]; ok {
				verb := "sets it to"
				if action.Bosh != nil && slices.Contains(action.Bosh.PlanDefaults, input.Name) {
					verb = "has the default"
				}
				p.Notes = append(p.Notes, linef("The plan %s "+verb+" %s.", plan.Name, literal(fixed)))
			}
		}
		all = append(all, p)
	}
	return all
}

// isComputed reports whether an action computes the input with a name.
func isComputed(action brokerpak.Action, name string) bool {
	return slices.ContainsFunc(action.ComputedInputs, func(c brokerpak.Variable) bool { return c.Name == name })
}

// describe returns the description of an input or output. An input with a default is not required.
func describe(v brokerpak.Variable) parameter {
	p := parameter{
		Name: v.Name, Type: typeOf(v), Description: v.Details, Default: defaultOf(v), Notes: constraints(v.Constraints),
		Enum: v.Enum,
	}
	p.Required = v.Required && p.Default == nil
	return p
}

// typeOf returns the types of an input or output in words, "any" without a type.
func typeOf(v brokerpak.Variable) string {
	name := cmp.Or(v.Type, strings.Join(v.Types, " or "), "any")
	if v.Nullable {
		name += " or null"
	}
	return name
}

// defaultOf returns the default of an input: a value, or the expression that computes it. It returns nil without a
// default.
func defaultOf(v brokerpak.Variable) line {
	switch {
	case v.DefaultExpr != nil && !v.DefaultExpr.IsLiteral():
		return linef("computed: %s", v.DefaultExpr.Text())
	case v.HasDefault:
		return linef("%s", literal(constant(v)))
	default:
		return nil
	}
}

// constant returns the constant default of an input, converted to the type of the input. If that is not possible, it
// returns the default as the definition contains it.
func constant(v brokerpak.Variable) any {
	if item, err := v.ConstantDefault(); item != nil && err == nil {
		return item
	}
	return v.Default
}

// literal returns a value as JSON on one line.
func literal(v any) string { return string(value.MustJSON(v)) }

// Imports returns the parameters by which a user imports existing resources into a new instance. They are neither
// required nor have defaults.
func (s service) Imports() []parameter {
	var described []parameter
	for _, input := range s.Provision.ImportInputs {
		variable := brokerpak.Variable{Name: input.Name, Type: input.Type, Details: input.Details}
		described = append(described, describe(variable))
	}
	return described
}

// PlanProperties returns the inputs that plans set, for operators. An input of both actions is contained once, as the
// provision action declares it. Default is never set, because defaults of plan inputs have no effect.
func (s service) PlanProperties() []parameter {
	var all []parameter
	for _, input := range slices.Concat(s.Provision.PlanInputs, s.Bind.PlanInputs) {
		if !slices.ContainsFunc(all, func(p parameter) bool { return p.Name == input.Name }) {
			p := describe(input)
			p.Required, p.Default = input.Required, nil // defaults of plan inputs have no effect
			all = append(all, p)
		}
	}
	return all
}

// Credentials returns the credentials of a binding, which are outputs of the bind action and of the instance; see
// outputs.
func (s service) Credentials() []parameter { return s.outputs(false) }

// Fields returns the fields of a bind response that are not credentials, such as syslog_drain_url; see outputs.
func (s service) Fields() []parameter { return s.outputs(true) }

// outputs returns the outputs that a bind response contains: those of the bind action, in the order of the definition,
// and those of the instance whose names the bind action does not have, sorted by name. If fields is true, the result
// contains only the outputs that are fields of the response: syslog_drain_url, route_service_url and backup_agent_url.
// If fields is false, it contains all others, which are credentials. Required and Default are not set.
func (s service) outputs(fields bool) []parameter {
	instance := map[string]parameter{}
	if s.Provision.Bosh != nil {
		for name := range s.Provision.Bosh.Outputs {
			instance[name] = parameter{Name: name}
		}
	}
	for _, output := range s.Provision.Outputs {
		instance[output.Name] = describe(output)
	}
	module, _ := hclfile.Inspect(s.Provision.Templates) // defects of the template are reported by package lint
	if slices.Contains(module.Outputs, brokerpak.StatusOutput) {
		instance[brokerpak.StatusOutput] = parameter{
			Name: brokerpak.StatusOutput, Type: "string", Description: "What the template says of the instance",
		}
	}
	var all []parameter
	for _, output := range s.Bind.Outputs {
		all = append(all, describe(output))
		delete(instance, output.Name)
	}
	for _, name := range value.Keys(instance) {
		all = append(all, instance[name])
	}
	all = slices.DeleteFunc(all, func(p parameter) bool {
		return fields != slices.Contains([]string{"syslog_drain_url", "route_service_url", "backup_agent_url"}, p.Name)
	})
	for i := range all {
		all[i].Required, all[i].Default = false, nil
	}
	return all
}

// constraints returns the constraints of an input in words, a line for each. Unknown keywords are listed with their
// values, and examples come last. keywords is not modified; the result is nil if it is empty.
func constraints(keywords map[string]any) []line {
	rest := maps.Clone(keywords)
	pop := func(key string) any {
		item := rest[key]
		delete(rest, key)
		return item
	}
	// In draft 4 of JSON Schema, an exclusive limit is a flag in addition to the inclusive limit.
	for exclusive, inclusive := range map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"} {
		if flag, ok := rest[exclusive].(bool); ok {
			delete(rest, exclusive)
			if limit, set := rest[inclusive]; flag && set {
				rest[exclusive] = limit
				delete(rest, inclusive)
			}
		}
	}
	var notes []line
	for _, limit := range []struct{ least, most, unit string }{
		{"minimum", "maximum", ""},
		{"minLength", "maxLength", "character"},
		{"minItems", "maxItems", "item"},
		{"minProperties", "maxProperties", "key"},
	} {
		notes = append(notes, limits(pop(limit.least), pop(limit.most), limit.unit)...)
	}
	for _, keyword := range []struct{ key, words string }{
		{"exclusiveMinimum", "More than %s."},
		{"exclusiveMaximum", "Less than %s."},
		{"multipleOf", "A multiple of %s."},
		{"const", "Always %s."},
		{"pattern", "Must match %s."},
		{"propertyNames", "Keys must match %s."},
	} {
		if _, ok := rest[keyword.key]; ok {
			notes = append(notes, linef(keyword.words, plain(pop(keyword.key))))
		}
	}
	samples, _ := pop("examples").([]any)
	for _, key := range value.Keys(rest) {
		notes = append(notes, linef("%s: %s.", key, literal(rest[key])))
	}
	if len(samples) > 0 {
		format := "For example %s" + strings.Repeat(", %s", len(samples)-1) + "."
		notes = append(notes, linef(format, value.Convert(samples, literal)...))
	}
	return notes
}

// plain returns a string as it is, such as a pattern, and any other value as JSON.
func plain(v any) string {
	if words, ok := v.(string); ok {
		return words
	}
	return literal(v)
}

// limits returns a minimum and a maximum in words, as one line. An argument that is nil means that there is no such
// limit; the result is nil if both are nil. unit is the noun of the things that are counted, in the singular, or "" for
// limits of a number itself. Equal limits of a count become "Exactly N".
func limits(least, most any, unit string) []line {
	words := func(limit any) string {
		switch {
		case unit == "":
			return "."
		case limit == int64(1):
			return " " + unit + "."
		default:
			return " " + unit + "s."
		}
	}
	switch {
	case least == nil && most == nil:
		return nil
	case most == nil:
		return []line{linef("At least %s"+words(least), literal(least))}
	case least == nil:
		return []line{linef("At most %s"+words(most), literal(most))}
	case unit != "" && literal(least) == literal(most):
		return []line{linef("Exactly %s"+words(least), literal(least))}
	default:
		return []line{linef("%s to %s"+words(most), literal(least), literal(most))}
	}
}
