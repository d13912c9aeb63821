package pakdoc

import (
	"cmp"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
)

// inputs describes the parameters of an action. fixedBy returns what a plan sets, whatever the user sends.
func inputs(s *brokerpak.Service, action brokerpak.Action, fixedBy func(brokerpak.Plan) map[string]any) []parameter {
	var all []parameter
	for _, input := range action.UserInputs {
		p := describe(input)
		p.Required = p.Required && !isComputed(action, input.Name)
		if input.Additional {
			p.Notes = append(p.Notes, line{text("Stands for all other parameters, which have names of their own.")})
		}
		if input.ProhibitUpdate {
			p.Notes = append(p.Notes, line{text("Cannot be changed after creation.")})
		}
		for _, plan := range s.Plans {
			if fixed, ok := fixedBy(plan)[input.Name]; ok {
				verb := " sets it to "
				if action.Bosh != nil && slices.Contains(action.Bosh.PlanDefaults, input.Name) {
					verb = " has the default "
				}
				p.Notes = append(p.Notes, line{text("The plan "), code(plan.Name), text(verb), code(literal(fixed)), text(".")})
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
	p := parameter{Name: v.Name, Type: typeOf(v), Description: v.Details, Default: defaultOf(v), Notes: constraints(v.Constraints)}
	p.Required = v.Required && p.Default == nil
	for _, allowed := range v.Enum {
		p.Enum = append(p.Enum, pair{literal(allowed.Value), allowed.Description})
	}
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
		return line{text("computed: "), code(v.DefaultExpr.Text())}
	case v.HasDefault:
		return line{code(literal(constant(v)))}
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

func imports(all []brokerpak.ImportInput) []parameter {
	var described []parameter
	for _, input := range all {
		described = append(described, describe(brokerpak.Variable{Name: input.Name, Type: input.Type, Details: input.Details}))
	}
	return described
}

// planProperties are the inputs that plans set.
func planProperties(s *brokerpak.Service) []parameter {
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

// statusOutput is an output of provision templates that definitions never declare.
const statusOutput = "status"

// outputs returns the credentials of a binding, and its other fields: the outputs of the instance, and those of the bind
// action, which win.
func outputs(s *brokerpak.Service) (credentials, fields []parameter) {
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
	if slices.Contains(module.Outputs, statusOutput) {
		instance[statusOutput] = parameter{Name: statusOutput, Type: "string", Description: "What the template says of the instance"}
	}
	var all []parameter
	for _, output := range s.Bind.Outputs {
		all = append(all, describe(output))
		delete(instance, output.Name)
	}
	for _, name := range value.Keys(instance) {
		all = append(all, instance[name])
	}
	for _, p := range all {
		p.Required, p.Default = false, nil
		switch p.Name {
		case "syslog_drain_url", "route_service_url", "backup_agent_url":
			fields = append(fields, p)
		default:
			credentials = append(credentials, p)
		}
	}
	return credentials, fields
}
