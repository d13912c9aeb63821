package lint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/schemas"
)

// inputs checks the plan inputs and user inputs of both actions and adds the findings to c.diags. An invalid
// constraint is an error for a user input, and a warning for a plan input, whose constraints other brokers ignore. If
// the schemas of a plan cannot be generated because of the constraints of a user input, the constraints that only the
// check of values reads, such as propertyNames, are not checked. Of several inputs with the same name in a list, only
// the constraints of the last are checked. All other findings are warnings: an enum value that the input never accepts,
// a constant default of a user input that it never accepts, and any default of a plan input other than null.
func (c *serviceCheck) inputs() {
	_, _, _, err := schemas.ForPlan(c.service, nil, schemas.Supplied{})
	c.constraints(err, diag.Error)
	for _, action := range []*brokerpak.Action{&c.service.Provision, &c.service.Bind} {
		if err == nil { // otherwise a constraint would be reported twice
			c.constraints(schemas.CheckValues(action.UserInputs, nil, nil), diag.Error)
		}
		// Other brokers ignore the constraints of plan inputs, so a defect in them is only a warning.
		c.constraints(schemas.CheckValues(action.PlanInputs, nil, nil), diag.Warning)
		for _, input := range action.UserInputs {
			c.defaultValue(input)
		}
		for _, input := range action.PlanInputs {
			c.ignoredDefault(input)
		}
		for _, input := range slices.Concat(action.PlanInputs, action.UserInputs) {
			c.enum(input)
		}
	}
}

// constraints adds the findings in err, which must concern invalid constraints of inputs, to c.diags. The position of
// each finding must be that of the input, as in the errors of package schemas; it is replaced by that of the input's
// key constraints, if there is one. The severity of each finding becomes that of the argument. A nil error, and one
// that neither is nor wraps a diag.Errors, are ignored.
func (c *serviceCheck) constraints(err error, severity diag.Severity) {
	var findings diag.Errors
	if !errors.As(err, &findings) {
		return
	}
	for _, item := range findings {
		item.Pos, item.Severity = c.positions.key(item.Pos, "constraints"), severity
		c.diags.Add(item)
	}
}

// defaultValue adds a warning to c.diags if the input has a constant default that cannot be converted to the type of
// the input, or that would be rejected if a request contained it. An input without a default, a default of null, and a
// default with variables or functions are not checked.
func (c *serviceCheck) defaultValue(input brokerpak.Variable) {
	if !input.HasDefault {
		return
	}
	constant, err := input.ConstantDefault()
	pos := c.positions.value(input.Pos, "default")
	if err != nil {
		c.diags.Warnf(pos, "default-value", "the default of %q cannot be used: %s", input.Name, err)
		return
	}
	if constant == nil {
		return // an expression
	}
	if text := violation(input, constant, fmt.Sprintf("the default of %q", input.Name)); text != "" {
		c.diags.Warnf(pos, "default-value", "%s", text)
	}
}

// ignoredDefault adds a warning to c.diags if input, which must be a plan input, has a default other than null.
// Brokers ignore such a default, because only the properties of plans set plan inputs.
func (c *serviceCheck) ignoredDefault(input brokerpak.Variable) {
	if input.HasDefault {
		c.diags.Warnf(c.positions.value(input.Pos, "default"), "default-value",
			"the default of the plan input %q has no effect, because only plans set it; set the property in every "+
				"plan, or compute the value with lookup(plan.properties, %q, …)", input.Name, input.Name)
	}
}

// enum adds a warning to c.diags for each value in the enum of the input that contradicts the input's type or
// constraints, so that the input never accepts it. If the constraints are invalid, enum adds nothing; see violation.
func (c *serviceCheck) enum(input brokerpak.Variable) {
	without := input
	without.Enum = nil
	for _, allowed := range input.Enum {
		if text := violation(without, allowed.Value, "it"); text != "" {
			pos := c.positions.key(input.Pos, "enum", value.Text(allowed.Value))
			c.diags.Warnf(pos, "enum-value", "the enum value %s of %q is never accepted: %s",
				value.MustJSON(allowed.Value), input.Name, text)
		}
	}
}

// violation returns the reason why an input does not accept the value item: a sentence without a period, or several
// that are separated by semicolons, of which at most nine are listed and the others counted. Each begins with
// subject, such as `the default of "size"`, or with a part of the value, such as `field "max" of the default of
// "size"`. The result is "" if the input accepts the value, and if the value cannot be checked, for example because
// the constraints of the input are invalid, which the method inputs reports.
func violation(input brokerpak.Variable, item any, subject string) string {
	err := schemas.CheckValues([]brokerpak.Variable{input}, map[string]any{input.Name: item},
		func(string) string { return subject })
	var rejected *schemas.ValueError
	if !errors.As(err, &rejected) {
		return ""
	}
	return rejected.Error()
}

// plans checks each property of each plan (see the method property) and adds the findings to c.diags, with a warning
// for each required plan input that is not a property of a plan, even if an override of the plan sets it, because the
// operator must then set the property.
func (c *serviceCheck) plans() {
	for i := range c.service.Plans {
		plan := &c.service.Plans[i]
		for _, name := range value.Keys(plan.Properties) {
			c.property(plan, name)
		}
		for _, input := range slices.Concat(c.service.Provision.PlanInputs, c.service.Bind.PlanInputs) {
			if _, ok := plan.Properties[input.Name]; input.Required && !ok {
				c.diags.Warnf(c.positions.key(plan.Pos, "properties"), "plan-property",
					"plan %q lacks the property %q, which the plan input at %s requires; the operator must set it",
					plan.Name, input.Name, input.Pos)
			}
		}
	}
}

// property checks the value of one property of a plan, whose name the plan must have, and adds the findings to c.diags.
// It is a warning if a plan input of provision or bind rejects the value, and if neither an input of provision, a plan
// input of bind, an expression of the service nor a BOSH template in c.documentTrees uses the property. It is an error
// if a user input of provision rejects the value, because an instance with this value could not be created, unless a
// computed input always overwrites that value. A value that cannot be checked is not rejected; see violation.
func (c *serviceCheck) property(plan *brokerpak.Plan, name string) {
	item, pos := plan.Properties[name], c.positions.value(plan.Pos, "properties", name)
	action, subject := &c.service.Provision, fmt.Sprintf("property %q of plan %q", name, plan.Name)
	named := func(inputs []brokerpak.Variable) []brokerpak.Variable {
		return slices.DeleteFunc(slices.Clone(inputs), func(i brokerpak.Variable) bool { return i.Name != name })
	}
	ofPlans := named(slices.Concat(action.PlanInputs, c.service.Bind.PlanInputs))
	for _, input := range ofPlans {
		if text := violation(input, item, subject); text != "" {
			c.diags.Warnf(pos, "plan-property", "%s; the plan input is declared at %s", text, input.Pos)
		}
	}
	computed := slices.ContainsFunc(action.ComputedInputs, func(i brokerpak.Variable) bool {
		return i.Name == name && i.Overwrite
	})
	for _, input := range named(action.UserInputs) {
		if text := violation(input, item, subject); text != "" && !computed {
			c.diags.Errorf(pos, "plan-property",
				"%s, so no instance of the plan can be created; the input is declared at %s", text, input.Pos)
		}
	}
	if len(ofPlans) > 0 || slices.Contains(action.InputNames(), name) || c.reads(name) {
		return
	}
	c.diags.Warnf(c.positions.key(plan.Pos, "properties", name), "plan-property",
		"nothing uses property %q of plan %q%s",
		name, plan.Name, diag.Suggest(name, action.InputNames()))
}

// reads reports whether a BOSH template in c.documentTrees or an expression of the service reads the plan property with
// this name. A template does so by a reference such as ((name)). An expression does so by the name alone or with a key,
// by a key of plan.properties or request.plan_properties, or by reading one of these two maps as a whole or with a
// computed key.
func (c *serviceCheck) reads(name string) bool {
	found := false
	for _, document := range c.documentTrees {
		document.eachReference(document.root, func(_ *yaml.Node, _ int, reference string) {
			inserted, _ := vars.Split(reference)
			found = found || inserted == name
		})
	}
	if found {
		return true
	}
	for _, site := range c.sites() {
		for _, reference := range site.References() {
			if reference.Name == name || strings.HasPrefix(reference.Name, name+".") {
				return true
			}
			for _, properties := range planProperties() {
				if key, ok := reference.KeyOf(properties); ok && (key == name || key == "") { // "" for all properties
					return true
				}
			}
		}
	}
	return false
}

// outputTypes adds a warning to c.diags for each output of provision.bosh that consists of a single input of the type
// boolean, integer or number, if provision.outputs does not declare the output. Without a declared type, the value
// becomes a text in the credentials. A service without a bosh section is not checked.
func (c *serviceCheck) outputTypes() {
	action := &c.service.Provision
	if action.Bosh == nil {
		return
	}
	inputs := slices.Concat(action.PlanInputs, action.UserInputs, action.ComputedInputs)
	for _, name := range value.Keys(action.Bosh.Outputs) {
		output := action.Bosh.Outputs[name]
		if output.Expr == nil || slices.Contains(brokerpak.Names(action.Outputs), name) {
			continue
		}
		read, _ := output.Expr.SingleVariable()
		index := slices.IndexFunc(inputs, func(input brokerpak.Variable) bool { return input.Name == read })
		if index < 0 || !slices.Contains([]string{"boolean", "integer", "number"}, inputs[index].Type) {
			continue
		}
		typ := inputs[index].Type
		c.diags.Warnf(output.Pos, "output-type", "the output %q of the %s input %q is a text in credentials; declare "+
			"it with type: %s under outputs of provision, or with type: string if it must be a text",
			name, typ, read, typ)
	}
}

// examples checks the examples of the service and adds the findings to c.diags. It is a warning if no plan of the
// service has the plan_id of an example as its id, unless the service has no plans at all. The parameters of each
// example are checked by the methods parameters and missing; the latter is left out if constraints of inputs are
// invalid. If plan_id is the name of a plan, the example is checked as one of that plan. An example whose plan does not
// exist is checked as one of a plan without properties.
func (c *serviceCheck) examples() {
	ids := value.Convert(c.service.Plans, func(plan brokerpak.Plan) string { return plan.ID })
	for _, example := range c.service.Examples {
		plan := c.service.Plan(example.PlanID)
		if len(ids) > 0 && (plan == nil || plan.ID != example.PlanID) {
			c.diags.Warnf(c.positions.value(example.Pos, "plan_id"), "example-plan",
				"no plan has the id %q%s; the plans have %s",
				example.PlanID, diag.Suggest(example.PlanID, ids), diag.Names(ids))
		}
		if plan == nil {
			plan = &brokerpak.Plan{}
		}
		c.parameters(example, "provision_params", &c.service.Provision, plan.Properties, example.ProvisionParams)
		c.parameters(example, "bind_params", &c.service.Bind, nil, example.BindParams)
		create, _, bind, err := schemas.ForPlan(c.service, plan.Properties,
			schemas.Supplied{Provision: plan.ProvisionOverrides, Bind: plan.BindOverrides})
		if err != nil {
			continue // inputs reports it
		}
		unknownPlan := c.service.Plan(example.PlanID) == nil
		c.missing(example, unknownPlan, "provision_params", create, example.ProvisionParams)
		c.missing(example, unknownPlan, "bind_params", bind, example.BindParams)
	}
}

// missing adds an error to c.diags for each parameter that schema, the JSON Schema for the parameters of a request,
// requires and that the parameters of an example lack; a parameter with the value null is not missing. key is the key
// of the example that contains these parameters: "provision_params" or "bind_params". If unknownPlan is true, the pak
// does not contain the plan of the example, and the findings are only warnings, because the operator may declare the
// plan with a value for the parameter.
func (c *serviceCheck) missing(
	example brokerpak.Example, unknownPlan bool, key string, schema, parameters map[string]any,
) {
	required, _ := schema["required"].([]string)
	for _, name := range required {
		if _, ok := parameters[name]; ok {
			continue
		}
		pos := c.positions.key(example.Pos, key)
		text := fmt.Sprintf("the %s of example %q lack the parameter %q, which is required", key, example.Name, name)
		if unknownPlan {
			c.diags.Warnf(pos, "example-parameters", "%s unless the operator's plan %q sets it", text, example.PlanID)
		} else {
			c.diags.Errorf(pos, "example-parameters", "%s", text)
		}
	}
}

// parameters adds warnings to c.diags about parameters of an example that the adapter would reject: one warning about
// all parameters that the action does not support or the plan owns, of which it may name only the first ones, or else a
// warning for each value that its user input does not accept. Null values are not checked; required parameters that are
// absent are reported by missing. key is the key of the example that contains the parameters, "provision_params" or
// "bind_params", and action the action that receives them. properties are those of the example's plan, and nil for a
// binding.
func (c *serviceCheck) parameters(
	example brokerpak.Example, key string, action *brokerpak.Action, properties, parameters map[string]any,
) {
	var user *fault.UserError
	pos := c.positions.key(example.Pos, key)
	err := schemas.CheckParameters(action, properties, parameters, false)
	if errors.As(err, &user) {
		c.diags.Warnf(pos, "example-parameters", "the %s of example %q would be rejected: %s", key, example.Name,
			user.Message)
		return
	}
	for _, input := range action.UserInputs {
		item, ok := parameters[input.Name]
		if !ok || item == nil {
			continue
		}
		if text := violation(input, item, strconv.Quote(input.Name)); text != "" {
			c.diags.Warnf(c.positions.value(example.Pos, key, input.Name), "example-parameters",
				"the %s of example %q would be rejected: %s; the input is declared at %s", key, example.Name, text,
				input.Pos)
		}
	}
}
