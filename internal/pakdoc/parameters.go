package pakdoc

import (
	"cmp"
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
