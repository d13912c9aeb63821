package paklint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// inputs checks constraints, defaults and enums of inputs against each other.
func (c *serviceCheck) inputs() {
	_, _, _, err := schemas.ForPlan(c.service, nil, schemas.Supplied{})
	c.constraints(err, diag.Error)
	for _, action := range []*brokerpak.Action{&c.service.Provision, &c.service.Bind} {
		// Other brokers never look at those of plan inputs.
		c.constraints(schemas.CheckValues(action.PlanInputs, nil, nil), diag.Warning)
		for _, input := range action.UserInputs {
			c.defaultValue(input)
		}
		for _, input := range slices.Concat(action.PlanInputs, action.UserInputs) {
			c.enum(input)
		}
	}
}

// constraints reports constraints that cannot be used.
func (c *serviceCheck) constraints(err error, severity diag.Severity) {
	var found diag.Errors
	if !errors.As(err, &found) {
		return
	}
	for _, item := range found {
		item.Pos, item.Severity = c.places.key(item.Pos, "constraints"), severity
		c.diags.Add(item)
	}
}

// defaultValue checks a default that is no expression as a request would find it.
func (c *serviceCheck) defaultValue(input brokerpak.Variable) {
	if !input.HasDefault {
		return
	}
	given, err := input.ConstantDefault()
	pos := c.places.value(input.Pos, "default")
	if err != nil {
		c.diags.Warnf(pos, "default-value", "the default of %q cannot be used: %s", input.Name, err)
		return
	}
	if given == nil {
		return // an expression
	}
	if text := refusal(input, given, fmt.Sprintf("the default of %q", input.Name)); text != "" {
		c.diags.Warnf(pos, "default-value", "%s", text)
	}
}

// enum checks that the values of an enum can be given.
func (c *serviceCheck) enum(input brokerpak.Variable) {
	without := input
	without.Enum = nil
	for _, allowed := range input.Enum {
		if text := refusal(without, allowed.Value, "it"); text != "" {
			pos := c.places.key(input.Pos, "enum", value.Text(allowed.Value))
			c.diags.Warnf(pos, "enum-value", "the enum value %s of %q can never be given: %s", value.MustJSON(allowed.Value), input.Name, text)
		}
	}
}

// refusal says what is wrong with a value of an input, which subject names; "" when it fits.
func refusal(input brokerpak.Variable, given any, subject string) string {
	err := schemas.CheckValues([]brokerpak.Variable{input}, map[string]any{input.Name: given}, func(string) string { return subject })
	var wrong *schemas.ValueError
	if !errors.As(err, &wrong) {
		return "" // it fits, or the constraints are wrong, which is reported elsewhere
	}
	return wrong.Error()
}

// plans checks the properties of the plans against the inputs that they set.
func (c *serviceCheck) plans() {
	for i := range c.service.Plans {
		plan := &c.service.Plans[i]
		for _, name := range value.Keys(plan.Properties) {
			c.property(plan, name)
		}
		for _, input := range slices.Concat(c.service.Provision.PlanInputs, c.service.Bind.PlanInputs) {
			if _, ok := plan.Properties[input.Name]; input.Required && !ok {
				c.diags.Warnf(c.places.key(plan.Pos, "properties"), "plan-property",
					"plan %q lacks the property %q, which the plan input at %s requires; the operator must give it", plan.Name, input.Name, input.Pos)
			}
		}
	}
}

func (c *serviceCheck) property(plan *brokerpak.Plan, name string) {
	given, pos := plan.Properties[name], c.places.value(plan.Pos, "properties", name)
	action, subject := &c.service.Provision, fmt.Sprintf("property %q of plan %q", name, plan.Name)
	named := func(inputs []brokerpak.Variable) []brokerpak.Variable {
		return slices.DeleteFunc(slices.Clone(inputs), func(i brokerpak.Variable) bool { return i.Name != name })
	}
	ofPlans := named(slices.Concat(action.PlanInputs, c.service.Bind.PlanInputs))
	for _, input := range ofPlans {
		if text := refusal(input, given, subject); text != "" {
			c.diags.Warnf(pos, "plan-property", "%s; the plan input is declared at %s", text, input.Pos)
		}
	}
	computed := slices.ContainsFunc(action.ComputedInputs, func(i brokerpak.Variable) bool { return i.Name == name && i.Overwrite })
	for _, input := range named(action.UserInputs) {
		if text := refusal(input, given, subject); text != "" && !computed {
			c.diags.Errorf(pos, "plan-property", "%s, so no instance of the plan can be created; the input is declared at %s", text, input.Pos)
		}
	}
	if len(ofPlans) > 0 || slices.Contains(action.InputNames(), name) || c.reads(name) {
		return
	}
	c.diags.Warnf(c.places.key(plan.Pos, "properties", name), "plan-property", "nothing uses property %q of plan %q%s",
		name, plan.Name, diag.Suggest(name, action.InputNames()))
}

// reads tells whether an expression reads a plan property.
func (c *serviceCheck) reads(name string) bool {
	for _, site := range c.sites() {
		for _, reference := range site.References() {
			if key, ok := reference.KeyOf("request.plan_properties"); reference.Name == name || ok && (key == name || key == "") {
				return true
			}
		}
	}
	return false
}

// examples checks that the examples could be played.
func (c *serviceCheck) examples() {
	ids := value.Each(c.service.Plans, func(plan brokerpak.Plan) string { return plan.ID })
	for _, example := range c.service.Examples {
		plan := c.service.Plan(example.PlanID)
		if len(ids) > 0 && (plan == nil || plan.ID != example.PlanID) {
			c.diags.Warnf(c.places.value(example.Pos, "plan_id"), "example-plan", "no plan has the id %q%s; the plans have %s",
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
			continue // which is reported where the constraints are
		}
		c.missing(example, "provision_params", create, example.ProvisionParams)
		c.missing(example, "bind_params", bind, example.BindParams)
	}
}

// missing reports required parameters that an example does not give.
func (c *serviceCheck) missing(example brokerpak.Example, key string, schema, parameters map[string]any) {
	required, _ := schema["required"].([]string)
	for _, name := range required {
		if _, given := parameters[name]; !given {
			c.diags.Errorf(c.places.key(example.Pos, key), "example-parameters",
				"the %s of example %q lack the parameter %q, which is required", key, example.Name, name)
		}
	}
}

func (c *serviceCheck) parameters(
	example brokerpak.Example, key string, action *brokerpak.Action, properties, parameters map[string]any,
) {
	var user *fault.UserError
	pos := c.places.key(example.Pos, key)
	err := schemas.CheckParameters(action, properties, parameters, false)
	if errors.As(err, &user) {
		c.diags.Warnf(pos, "example-parameters", "the %s of example %q would be refused: %s", key, example.Name, user.Message)
		return
	}
	for _, input := range action.UserInputs {
		given, ok := parameters[input.Name]
		if !ok || given == nil {
			continue
		}
		if text := refusal(input, given, strconv.Quote(input.Name)); text != "" {
			c.diags.Warnf(c.places.value(example.Pos, key, input.Name), "example-parameters",
				"the %s of example %q would be refused: %s; the input is declared at %s", key, example.Name, text, input.Pos)
		}
	}
}
