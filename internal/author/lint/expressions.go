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

// sites returns all expressions of the service: those of provision, then those of bind.
func (c *serviceCheck) sites() []brokerpak.Expression {
	return slices.Concat(c.service.Provision.Expressions(), c.service.Bind.Expressions())
}

// expressions checks every expression without evaluating it, and adds the findings to c.diags: names of variables and
// functions, the number and types of arguments, constant regular expressions, outputs of the instance that bind
// expressions read, and the findings of appBindings and order.
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

// appBindings warns about bind inputs that are computed from the id of the app but not from the id of the binding. An
// app can have several bindings, which would get the same value.
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

// withInputs returns the names that an expression can use, call, extended by the inputs of an action and by the names
// that plans set. action is the service's Provision or Bind. The map call.Types, which must not be nil, is modified,
// and call.Prefixes may be sorted in place, so that the caller must not use the argument any longer.
func (c *serviceCheck) withInputs(call expr.Names, action *brokerpak.Action) expr.Names {
	call.Variables = slices.Concat(call.Variables, action.InputNames())
	for _, plan := range c.service.Plans {
		if action == &c.service.Bind {
			call.Variables = append(call.Variables, value.Keys(plan.BindOverrides)...)
			continue
		}
		call.Variables = slices.Concat(call.Variables, value.Keys(plan.Properties), value.Keys(plan.ProvisionOverrides))
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

// inputTypes returns the types that the inputs of an action have in expressions, by name. An array is an expr.List, an
// object an expr.Map, and every other declared type an expr.String. The type is expr.Any if it is not known, if
// declarations differ, or if the value may be null.
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

// typesOf returns the types of the inputs of an action by name. typeOf converts the declared type of an input, which is
// "" without a declaration; its argument null means that the value may be null. An input with several declarations that
// have different types has the type unclear.
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

// withPrevious returns known, extended by the names that concern the previous deployment. Expressions that must not use
// them have already been rejected by the parser. known.Prefixes may be extended in place, so that the caller must not
// use the argument any longer.
func withPrevious(known expr.Names) expr.Names {
	const prefix = "previous"
	provision := manifestgen.ResolvingNames()
	known.Functions = maps.Clone(known.Functions)
	for _, name := range slices.Concat(provision.Variables, provision.Prefixes) {
		if strings.HasPrefix(name, prefix) {
			known.Prefixes = append(known.Prefixes, name)
		}
	}
	for name, function := range provision.Functions {
		if strings.HasPrefix(name, prefix) {
			known.Functions[name] = function
		}
	}
	return known
}

// withInstance returns a copy of known, extended by the names that concern a deployed instance, such as bosh.vms and
// manifest.get.
func withInstance(known expr.Names) expr.Names {
	view := &instance.View{}
	known.Variables = slices.Concat(known.Variables, value.Keys(view.Constants()))
	known.Prefixes = slices.Concat(known.Prefixes, []string{"bosh.vms", "bosh.dns"})
	known.Functions = value.Merge(known.Functions, view.Functions())
	return known
}

// patterns adds an error to c.diags for each constant argument in an expression that is not a valid regular expression:
// the first argument of regexp.matches and regex, and the second one of replace if it is between slashes.
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

// details adds an error to c.diags for each output of the instance that an expression of the bind action reads by a
// constant key, and that the instance does not have; see instanceOutputs.
func (c *serviceCheck) details(template *expr.Template) {
	outputs := c.instanceOutputs()
	for _, reference := range template.References() {
		if key, ok := reference.KeyOf(brokerpak.InstanceDetails); ok && key != "" && !slices.Contains(outputs, key) {
			c.diags.Errorf(reference.Pos, "instance-output", "the instance has no output %q%s; it has %s",
				key, diag.Suggest(key, outputs), diag.Names(outputs))
		}
	}
}

// instanceOutputs returns the sorted names of the outputs of an instance: those of the provision template, of the
// bosh section, and the declared ones.
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

// order warns about defaults of user inputs that read an input of the same action which is set later: a plan input or a
// computed input, unless overrides of a plan set it.
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
