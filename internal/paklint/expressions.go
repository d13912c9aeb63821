package paklint

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"service-adapter/binding"
	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/manifestgen"
)

// sites returns all expressions of the service.
func (c *serviceCheck) sites() []brokerpak.Expression {
	return slices.Concat(c.service.Provision.Expressions(), c.service.Bind.Expressions())
}

// expressions checks every expression without values: names, functions, their arguments and types.
func (c *serviceCheck) expressions() {
	rendering := c.known(manifestgen.KnownOfInstance(), &c.service.Provision)
	known := map[brokerpak.Stage]expr.Known{
		brokerpak.Resolving: c.known(manifestgen.Known(), &c.service.Provision),
		brokerpak.Rendering: rendering,
		brokerpak.Deployed:  withInstance(rendering),
	}
	for _, template := range c.service.Provision.Expressions() {
		c.diags.Append(template.Check(known[template.Stage]))
		c.patterns(template.Template)
	}
	ofBinding := c.known(withPrevious(binding.Known()), &c.service.Bind)
	for _, template := range c.service.Bind.Expressions() {
		c.diags.Append(template.Check(ofBinding))
		c.patterns(template.Template)
		c.details(template.Template)
	}
	c.appBindings()
	c.order(&c.service.Provision)
	c.order(&c.service.Bind)
}

// appBindings warns of inputs of a binding that are made of the app's id and not of the binding's.
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
				c.diags.Warnf(template.Pos(), "app-binding", "input %q is made of the app's id, which all bindings of the app have; use request.binding_id", name)
			}
		}
	}
}

// known adds the inputs of an action, and what plans set besides, to the names of a call.
func (c *serviceCheck) known(call expr.Known, action *brokerpak.Action) expr.Known {
	call.Variables = slices.Concat(call.Variables, action.InputNames())
	for _, plan := range c.service.Plans {
		if action == &c.service.Bind {
			call.Variables = append(call.Variables, value.Keys(plan.BindOverrides)...)
			continue
		}
		call.Variables = slices.Concat(call.Variables, value.Keys(plan.Properties), value.Keys(plan.ProvisionOverrides))
	}
	maps.Copy(call.Types, inputTypes(action))
	// A dotted name reaches into an input that is a map.
	for name, typ := range call.Types {
		if typ == expr.Map && !slices.Contains(call.Prefixes, name) {
			call.Prefixes = append(call.Prefixes, name)
		}
	}
	slices.Sort(call.Prefixes)
	return call
}

// inputTypes are the types of the inputs in expressions.
func inputTypes(action *brokerpak.Action) map[string]expr.Type {
	return typesOf(action, expr.Any, func(typ string, null bool) expr.Type {
		switch {
		case null: // a null is a text
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

// typesOf are the types of the inputs: what typeOf makes of each declaration, which may allow null; unclear where they do not agree.
func typesOf[T comparable](action *brokerpak.Action, unclear T, typeOf func(typ string, null bool) T) map[string]T {
	found := map[string]T{}
	note := func(name, typ string, null bool) {
		now := typeOf(typ, null)
		if before, declared := found[name]; declared && before != now {
			now = unclear
		}
		found[name] = now
	}
	for _, input := range slices.Concat(action.PlanInputs, action.UserInputs) {
		note(input.Name, input.Type, input.Nullable || !input.Required && !input.HasDefault)
	}
	for _, input := range action.ComputedInputs {
		note(input.Name, input.Type, false)
	}
	return found
}

// withPrevious adds the names of the previous deployment: the parser refuses them where they may not be used.
func withPrevious(known expr.Known) expr.Known {
	const prefix = "previous"
	provision := manifestgen.Known()
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

func withInstance(known expr.Known) expr.Known {
	view := &instance.View{}
	known.Variables = slices.Concat(known.Variables, value.Keys(view.Constants()))
	known.Prefixes = slices.Concat(known.Prefixes, []string{"bosh.vms", "bosh.dns"})
	known.Functions = value.Merge(known.Functions, view.Functions())
	return known
}

// patterns compiles the regular expressions that are constant.
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

// details checks that the outputs of the instance that a bind expression reads exist.
func (c *serviceCheck) details(template *expr.Template) {
	known := c.instanceOutputs()
	for _, reference := range template.References() {
		if key, ok := reference.KeyOf(brokerpak.InstanceDetails); ok && key != "" && !slices.Contains(known, key) {
			c.diags.Errorf(reference.Pos, "instance-output", "the instance has no output %q%s; it has %s", key, diag.Suggest(key, known), diag.Names(known))
		}
	}
}

// instanceOutputs are the outputs of the provision action, wherever they come from.
func (c *serviceCheck) instanceOutputs() []string {
	action := &c.service.Provision
	known := slices.Clone(c.provision.Outputs)
	if action.Bosh != nil {
		known = append(known, value.Keys(action.Bosh.Outputs)...)
	}
	for _, output := range action.Outputs {
		known = append(known, output.Name)
	}
	slices.Sort(known)
	return slices.Compact(known)
}

// order warns of defaults that read what is set after them: plan properties and computed inputs come later.
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
					"%q is not set yet where the default of %q is computed: plan properties and computed inputs come later; make %q a computed input",
					reference.Name, input.Name, input.Name)
			}
		}
	}
}
