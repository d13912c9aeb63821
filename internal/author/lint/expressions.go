package lint

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"service-adapter/binding"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/instance"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// sites returns all expressions of the service's definition: those of provision, followed by those of bind.
func (c *serviceCheck) sites() []brokerpak.Expression {
	return slices.Concat(c.service.Provision.Expressions(), c.service.Bind.Expressions())
}

// expressions checks every expression of the service without evaluating it, and adds the findings to c.diags. Unknown
// variables and functions, wrong numbers and types of arguments, invalid constant regular expressions, and outputs that
// bind expressions read although the instance does not have them are errors. The findings of appBindings and order are
// warnings.
func (c *serviceCheck) expressions() {
	rendering := c.withInputs(manifestgen.RenderingNames(), &c.service.Provision)
	available := map[brokerpak.Stage]expr.Names{
		brokerpak.Resolving: c.withInputs(manifestgen.ResolvingNames(), &c.service.Provision),
		brokerpak.Rendering: rendering,
		brokerpak.Deployed:  withInstance(rendering),
	}
	for _, template := range c.service.Provision.Expressions() {
		c.diags.Append(template.Check(available[template.Stage]))
		c.patterns(template.Template)
	}
	ofBinding := c.withInputs(withPrevious(binding.PublishedNames()), &c.service.Bind)
	for _, template := range c.service.Bind.Expressions() {
		c.diags.Append(template.Check(ofBinding))
		c.patterns(template.Template)
		c.details(template.Template)
	}
	c.appBindings()
	c.order(&c.service.Provision)
	c.order(&c.service.Bind)
}

// appBindings adds a warning to c.diags for each expression of a bind input, computed or a default, that reads the id
// of the app (request.app_guid or request.bind_resource.app_guid) but not request.binding_id. An app can have several
// bindings, which would all get the same value.
func (c *serviceCheck) appBindings() {
	action := &c.service.Bind
	for _, name := range action.InputNames() {
		for _, template := range []*expr.Template{action.ExpressionOf(name, true), action.ExpressionOf(name, false)} {
			if template == nil {
				continue
			}
			reads := map[string]bool{}
			for _, reference := range template.References() {
				reads[reference.Name] = true
			}
			if (reads["request.app_guid"] || reads["request.bind_resource.app_guid"]) && !reads["request.binding_id"] {
				c.diags.Warnf(template.Pos(), "app-binding",
					"input %q is computed from the app's id, which all bindings of the app share; use "+
						"request.binding_id", name)
			}
		}
	}
}

// withInputs returns the names that an expression of an action can use: those of call, the names of the action's
// inputs, and the names that plans set. These are the keys of bind_overrides for Bind, and the plan properties and the
// keys of provision_overrides for Provision. Any dotted name below an input of the type object is allowed as well,
// unless the input may be null (see inputTypes), and below a name for which a plan sets a map.
//
// action must point to the service's Provision or Bind. withInputs adds the types of the inputs to the map call.Types,
// which must not be nil, and may sort call.Prefixes in place, so that the caller must not use the argument afterwards.
func (c *serviceCheck) withInputs(call expr.Names, action *brokerpak.Action) expr.Names {
	call.Variables = slices.Concat(call.Variables, action.InputNames())
	for _, plan := range c.service.Plans {
		sources := []map[string]any{plan.Properties, plan.ProvisionOverrides}
		if action == &c.service.Bind {
			sources = []map[string]any{plan.BindOverrides}
		}
		for _, source := range sources {
			for name, item := range source {
				call.Variables = append(call.Variables, name)
				if _, ok := item.(map[string]any); ok {
					call.Prefixes = append(call.Prefixes, name)
				}
			}
		}
	}
	maps.Copy(call.Types, inputTypes(action))
	// A dotted name selects a key of an input that is a map.
	for name, typ := range call.Types {
		if typ == expr.Map && !slices.Contains(call.Prefixes, name) {
			call.Prefixes = append(call.Prefixes, name)
		}
	}
	slices.Sort(call.Prefixes)
	return call
}

// inputTypes returns the types that the plan inputs, user inputs and computed inputs of an action have in expressions,
// by name. An array is an expr.List, an object an expr.Map, and every other declared type an expr.String. The type is
// expr.Any if the input declares no type or a list of types, if several declarations result in different types, or if
// the value may be null, because a plan or user input is nullable, or is neither required nor has a default. The map is
// empty, not nil, without inputs.
func inputTypes(action *brokerpak.Action) map[string]expr.Type {
	return typesOf(action, expr.Any, func(typ string, null bool) expr.Type {
		switch {
		case null: // null becomes a string
			return expr.Any
		case typ == "array":
			return expr.List
		case typ == "object":
			return expr.Map
		case typ == "":
			return expr.Any
		default:
			return expr.String
		}
	})
}

// typesOf returns the types of the plan inputs, user inputs and computed inputs of an action by name. typeOf converts
// the declared type of an input, which is "" if the declaration has none or a list of types. Its argument null is true
// for a plan or user input that is nullable, or neither required nor with a default. An input with several declarations
// for which typeOf returns different results has the type unclear. The map is empty, not nil, without inputs.
func typesOf[T comparable](action *brokerpak.Action, unclear T, typeOf func(typ string, null bool) T) map[string]T {
	types := map[string]T{}
	note := func(name, typ string, null bool) {
		now := typeOf(typ, null)
		if before, declared := types[name]; declared && before != now {
			now = unclear
		}
		types[name] = now
	}
	for _, input := range slices.Concat(action.PlanInputs, action.UserInputs) {
		note(input.Name, input.Type, input.Nullable || !input.Required && !input.HasDefault)
	}
	for _, input := range action.ComputedInputs {
		note(input.Name, input.Type, false)
	}
	return types
}

// withPrevious returns names, extended by the variables and functions of provisioning whose names begin with
// "previous", which concern the previous deployment. The variables are added as prefixes, so that any dotted name below
// them is allowed. The parser has already rejected them in expressions that must not use them. names.Functions is
// copied and must not be nil. names.Prefixes may be extended in place, so that the caller must not use the argument
// afterwards.
func withPrevious(names expr.Names) expr.Names {
	const prefix = "previous"
	provision := manifestgen.ResolvingNames()
	names.Functions = maps.Clone(names.Functions)
	for _, name := range slices.Concat(provision.Variables, provision.Prefixes) {
		if strings.HasPrefix(name, prefix) {
			names.Prefixes = append(names.Prefixes, name)
		}
	}
	for name, function := range provision.Functions {
		if strings.HasPrefix(name, prefix) {
			names.Functions[name] = function
		}
	}
	return names
}

// withInstance returns a copy of names, extended by the names that concern a deployed instance, such as the variable
// prefix bosh.vms and the function manifest.get. The argument is not modified.
func withInstance(names expr.Names) expr.Names {
	view := &instance.View{}
	names.Variables = slices.Concat(names.Variables, value.Keys(view.Constants()))
	names.Prefixes = slices.Concat(names.Prefixes, []string{"bosh.vms", "bosh.dns"})
	names.Functions = value.Merge(names.Functions, view.Functions())
	return names
}

// patterns adds an error to c.diags, at the position of the call, for each constant argument in an expression that is
// not a valid regular expression: the first argument of regexp.matches and regex, and the second argument of replace if
// it is written between slashes, such as "/a+/". Arguments that are computed are not checked.
func (c *serviceCheck) patterns(template *expr.Template) {
	for _, call := range template.Calls() {
		pattern := ""
		switch call.Name {
		case "regexp.matches", "regex":
			pattern = call.Arg(0)
		case "replace":
			if pattern = call.Arg(1); len(pattern) < 2 || pattern[0] != '/' || pattern[len(pattern)-1] != '/' {
				continue // a plain text
			}
			pattern = pattern[1 : len(pattern)-1]
		}
		if _, err := regexp.Compile(pattern); err != nil {
			c.diags.Errorf(call.Pos, "regexp", "%s", err)
		}
	}
}

// details adds an error to c.diags for each output that an expression of the bind action reads from instance.details by
// a constant key, such as instance.details.host, although the instance does not have the output. The outputs of an
// instance are those of instanceOutputs.
func (c *serviceCheck) details(template *expr.Template) {
	outputs := c.instanceOutputs()
	for _, reference := range template.References() {
		if key, ok := reference.KeyOf(brokerpak.InstanceDetails); ok && key != "" && !slices.Contains(outputs, key) {
			c.diags.Errorf(reference.Pos, "instance-output", "the instance has no output %q%s; it has %s",
				key, diag.Suggest(key, outputs), diag.Names(outputs))
		}
	}
}

// instanceOutputs returns the names of the outputs of an instance, sorted and without duplicates: the outputs of the
// provision template, those of the bosh section, and those that the definition declares under provision.outputs. The
// result is empty or nil if there are none.
func (c *serviceCheck) instanceOutputs() []string {
	action := &c.service.Provision
	outputs := slices.Clone(c.provision.Outputs)
	if action.Bosh != nil {
		outputs = append(outputs, value.Keys(action.Bosh.Outputs)...)
	}
	for _, output := range action.Outputs {
		outputs = append(outputs, output.Name)
	}
	slices.Sort(outputs)
	return slices.Compact(outputs)
}

// order adds a warning to c.diags for each reference, in the default of a user input of the action, to an input that
// has no value yet when the default is computed: an input of the action that is not a user input, such as a plan input
// or a computed input. An exception is an input that at least one plan sets in its provision or bind overrides: it is
// not reported, because overrides are applied earlier.
func (c *serviceCheck) order(action *brokerpak.Action) {
	earlier := brokerpak.Names(action.UserInputs)
	for _, plan := range c.service.Plans {
		earlier = slices.Concat(earlier, value.Keys(plan.ProvisionOverrides), value.Keys(plan.BindOverrides))
	}
	for _, input := range action.UserInputs {
		if input.DefaultExpr == nil {
			continue
		}
		for _, reference := range input.DefaultExpr.References() {
			if slices.Contains(action.InputNames(), reference.Name) && !slices.Contains(earlier, reference.Name) {
				c.diags.Warnf(reference.Pos, "expression-order",
					"%q is not set yet when the default of %q is computed: plan properties and computed inputs "+
						"come later; "+
						"make %q a computed input",
					reference.Name, input.Name, input.Name)
			}
		}
	}
}
