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

// Create returns descriptions of the parameters that users may set when they create or update an instance: the user
// inputs of the provision action, in the order of the definition. Each has a note for every plan that sets the input in
// its properties or provision overrides; see inputs. It returns nil if an instance takes no parameters.
func (s service) Create() []parameter { return s.inputs(s.Provision, sets) }

// Binding returns descriptions of the parameters that users may set when they create a binding: the user inputs of the
// bind action, in the order of the definition. Each has a note for every plan whose bind overrides set the input; see
// inputs. It returns nil if a binding takes no parameters.
func (s service) Binding() []parameter {
	return s.inputs(s.Bind, func(plan brokerpak.Plan) map[string]any { return plan.BindOverrides })
}

// inputs returns a description of each user input of an action, in the order of the definition, or nil if it has none.
// Plan inputs are not included. fixedBy returns the values that a plan sets, by name of the input.
//
// A description is that of describe with additional notes. It gets a note with the value for each plan of the pak that
// sets the input. In the provision action, the note calls the value a default if the key plan_defaults of
// provision.bosh contains the input, so that users may change it. Other notes say that an input cannot be changed after
// the creation, or that it represents all undeclared parameters. An input that the action also computes is not
// described as required.
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

// isComputed reports whether an action has a computed input with this name.
func isComputed(action brokerpak.Action, name string) bool {
	return slices.ContainsFunc(action.ComputedInputs, func(c brokerpak.Variable) bool { return c.Name == name })
}

// describe returns the description of an input or output from its declaration: its name, its type in words, its text,
// its default, its enum, and its constraints as notes. An input with a default is not required.
func describe(v brokerpak.Variable) parameter {
	p := parameter{
		Name: v.Name, Type: typeOf(v), Description: v.Details, Default: defaultOf(v), Notes: constraints(v.Constraints),
		Enum: v.Enum,
	}
	p.Required = v.Required && p.Default == nil
	return p
}

// typeOf returns the types of an input or output in words, such as "string", "integer or string" or "string or null". A
// declaration without a type is "any", or "any or null".
func typeOf(v brokerpak.Variable) string {
	name := cmp.Or(v.Type, strings.Join(v.Types, " or "), "any")
	if v.Nullable {
		name += " or null"
	}
	return name
}

// defaultOf returns the default of an input as a line. A string with an expression ${...} is computed: the line is
// "computed: " and the string as code. Any other default is constant, and the line is the result of constant as JSON,
// as code. A string also counts as constant if it is a single expression with a constant string, or not a valid
// expression. defaultOf returns nil if the declaration has no default or the default null.
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

// constant returns the default of an input, or nil if it has none. A string without expressions ${...}, or that
// consists of a single one with a constant string, is evaluated, which replaces $$ by a dollar sign, and converted to
// the type of the input: "5" becomes 5 for an integer. If that fails or results in null, constant returns the string
// as the definition contains it. Any other default is returned unchanged, also a string with other expressions, which
// is computed for each request, and a string that is not a valid expression.
func constant(v brokerpak.Variable) any {
	if item, err := v.ConstantDefault(); item != nil && err == nil {
		return item
	}
	return v.Default
}

// literal returns a value as JSON on one line, with the keys of maps sorted. It returns "null" for a value that JSON
// cannot represent, such as NaN.
func literal(v any) string { return string(value.MustJSON(v)) }

// Imports returns descriptions of the parameters that a user sets to import existing resources when an instance is
// created, in the order of the definition. They are neither required nor have defaults or notes. The result is nil if
// the service imports no resources.
func (s service) Imports() []parameter {
	var described []parameter
	for _, input := range s.Provision.ImportInputs {
		variable := brokerpak.Variable{Name: input.Name, Type: input.Type, Details: input.Details}
		described = append(described, describe(variable))
	}
	return described
}

// PlanProperties returns descriptions of the plan inputs, which operators set in the properties of plans: those of the
// provision action, then those of the bind action, in the order of the definition. An input of both actions is
// contained once, as the provision action declares it. Default is never set, because defaults of plan inputs have no
// effect, and Required is that of the declaration. The result is nil if the service has no plan inputs.
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

// Credentials returns descriptions of the credentials in the response to a bind request: the outputs of the bind
// action, then those of the instance that the bind action does not declare. The outputs that Fields returns are left
// out. The result is empty or nil if a binding has no credentials.
func (s service) Credentials() []parameter { return s.outputs(false) }

// Fields returns descriptions of the outputs that are fields of their own in the response to a bind request and not
// credentials: syslog_drain_url, route_service_url and backup_agent_url, if the service declares them. The result is
// empty or nil if it declares none.
func (s service) Fields() []parameter { return s.outputs(true) }

// outputs returns descriptions of the outputs that a bind response contains: those of the bind action, in the order of
// the definition, and then those of the instance whose names the bind action does not declare, sorted by name. The
// latter are the declared outputs of the provision action, those of provision.bosh, and the output `status` if the
// provision template has it. If fields is true, the result contains only the outputs that are fields of the response:
// syslog_drain_url, route_service_url and backup_agent_url. If fields is false, it contains all others, which are
// credentials. Required and Default are never set. Errors in the template are ignored. The result is empty or nil if no
// output remains.
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

// constraints returns the constraints of an input in words, one line for each; a minimum and its maximum share a
// line, such as "1 to 5.". keywords contains JSON Schema keywords with their values, and is not modified. Keywords
// that this function does not describe follow with their values, such as format and "email", and the examples come
// last. The result is nil if there is no line, for example because keywords is nil.
//
// A boolean exclusiveMinimum or exclusiveMaximum, as in draft 4, has no line of its own: true makes the minimum or
// maximum a line such as "More than 1." or "Less than 5.", and false has no effect. A value of examples that is empty
// or is not a list has no line either.
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

// plain returns a string unchanged and without quotes, such as a pattern, and any other value as JSON; see literal. A
// value that JSON cannot represent is "null".
func plain(v any) string {
	if words, ok := v.(string); ok {
		return words
	}
	return literal(v)
}

// limits returns a minimum and a maximum in words, as one line, such as "At least 1 character." or "1 to 5.". An
// argument that is nil means that the limit does not exist; the result is nil if both are nil. unit is the noun, in the
// singular, for the elements that are counted, such as "character", or "" for limits of a number itself. Equal limits
// of a count become "Exactly 3 items.", those of a number "3 to 3.".
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
