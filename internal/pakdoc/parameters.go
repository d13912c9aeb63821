package pakdoc

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
)

// Create are the parameters of creating and updating an instance.
func (s service) Create() []parameter { return s.inputs(s.Provision, sets) }

// Binding are the parameters of a binding.
func (s service) Binding() []parameter {
	return s.inputs(s.Bind, func(plan brokerpak.Plan) map[string]any { return plan.BindOverrides })
}

// inputs describes the parameters of an action. fixedBy returns what a plan sets, whatever the user sends.
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

func isComputed(action brokerpak.Action, name string) bool {
	return slices.ContainsFunc(action.ComputedInputs, func(c brokerpak.Variable) bool { return c.Name == name })
}

// describe says what an input or output is. An input with a default need not be given.
func describe(v brokerpak.Variable) parameter {
	p := parameter{Name: v.Name, Type: typeOf(v), Description: v.Details, Default: defaultOf(v), Notes: constraints(v.Constraints), Enum: v.Enum}
	p.Required = v.Required && p.Default == nil
	return p
}

func typeOf(v brokerpak.Variable) string {
	name := cmp.Or(v.Type, strings.Join(v.Types, " or "), "any")
	if v.Nullable {
		name += " or null"
	}
	return name
}

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

// constant is a default that is the same for everyone: a text is cast to the type of the input.
func constant(v brokerpak.Variable) any {
	if item, err := v.ConstantDefault(); item != nil && err == nil {
		return item
	}
	return v.Default
}

// literal writes a value as JSON on one line, as users type it after -c.
func literal(v any) string { return string(value.MustJSON(v)) }

// Imports are the parameters that name existing resources.
func (s service) Imports() []parameter {
	var described []parameter
	for _, input := range s.Provision.ImportInputs {
		described = append(described, describe(brokerpak.Variable{Name: input.Name, Type: input.Type, Details: input.Details}))
	}
	return described
}

// PlanProperties are the inputs that plans set, for the operator, who writes the plans.
func (s service) PlanProperties() []parameter {
	var all []parameter
	for _, input := range slices.Concat(s.Provision.PlanInputs, s.Bind.PlanInputs) {
		if !slices.ContainsFunc(all, func(p parameter) bool { return p.Name == input.Name }) {
			p := describe(input)
			p.Required, p.Default = input.Required, nil // a plan's input has no default that counts
			all = append(all, p)
		}
	}
	return all
}

// Credentials are what a binding gives to apps.
func (s service) Credentials() []parameter { return s.outputs(false) }

// Fields are those of a binding beside its credentials.
func (s service) Fields() []parameter { return s.outputs(true) }

// outputs are the credentials of a binding, or its other fields: the outputs of the bind action, and those of the instance that are not
// among them.
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
	module, _ := hclfile.Inspect(s.Provision.Templates) // what is wrong with it is for validation to say
	if slices.Contains(module.Outputs, brokerpak.StatusOutput) {
		instance[brokerpak.StatusOutput] = parameter{Name: brokerpak.StatusOutput, Type: "string", Description: "What the template says of the instance"}
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

// constraints says in words what an input demands of its value.
func constraints(given map[string]any) []line {
	rest := maps.Clone(given)
	take := func(key string) any {
		found := rest[key]
		delete(rest, key)
		return found
	}
	// In draft-04 an exclusive limit is a flag beside the inclusive one.
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
		{"minimum", "maximum", ""}, {"minLength", "maxLength", "character"}, {"minItems", "maxItems", "item"}, {"minProperties", "maxProperties", "key"},
	} {
		notes = append(notes, limits(take(limit.least), take(limit.most), limit.unit)...)
	}
	for _, known := range []struct{ key, words string }{
		{"exclusiveMinimum", "More than %s."},
		{"exclusiveMaximum", "Less than %s."},
		{"multipleOf", "A multiple of %s."},
		{"const", "Always %s."},
		{"pattern", "Must match %s."},
		{"propertyNames", "Keys must match %s."},
	} {
		if _, ok := rest[known.key]; ok {
			notes = append(notes, linef(known.words, plain(take(known.key))))
		}
	}
	samples, _ := take("examples").([]any)
	for _, key := range value.Keys(rest) {
		notes = append(notes, linef("%s: %s.", key, literal(rest[key])))
	}
	if len(samples) > 0 {
		notes = append(notes, linef("For example %s"+strings.Repeat(", %s", len(samples)-1)+".", value.Each(samples, literal)...))
	}
	return notes
}

// plain writes a text as it is: a pattern is no JSON.
func plain(v any) string {
	if words, ok := v.(string); ok {
		return words
	}
	return literal(v)
}

// limits words the limits of a number, or of how many units there may be; nil stands for none.
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
