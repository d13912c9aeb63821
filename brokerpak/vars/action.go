package vars

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
	"service-adapter/schemas"
)

// Provision are the sources of a provision or update request.
type Provision struct {
	Service *brokerpak.Service
	Plan    brokerpak.Plan
	// Defaults are the operator's, general ones first.
	Defaults []map[string]any
	// Parameters are the user's, those of earlier requests included (MergeParameters).
	Parameters map[string]any
	// Deployed names those of Parameters that the instance has already. They are kept whatever the definition says by now.
	Deployed []string
	// Sticky are values that the instance keeps, whatever plan and defaults say.
	Sticky map[string]any
	// Secrets are the names of parameters that are secrets' values; they may hold anything.
	Secrets []string
	// Unchecked takes values as they are, because they are deployed already, or made up.
	Unchecked bool
}

// Resolve fills the scope with the variables of the provision action.
func (p Provision) Resolve(s *Scope) error {
	if err := checkParameters(p.Parameters, p.Secrets, s.options.GuardReferences); err != nil {
		return err
	}
	if err := p.checkPlan(); err != nil {
		return err
	}
	for _, defaults := range p.Defaults {
		s.Set(OperatorLayer, defaults)
	}
	s.Set(ParameterLayer, p.parameters())
	s.kept = p.Deployed
	s.Set(OverrideLayer, p.Plan.ProvisionOverrides)
	action := &p.Service.Provision
	failed := s.Defaults(action.UserInputs)
	s.Set(PlanLayer, p.properties())
	s.Set(StickyLayer, p.Sticky) // which may have been a parameter
	if err := errors.Join(failed, s.Computed(action.ComputedInputs)); err != nil {
		return err
	}
	if p.Unchecked {
		return nil
	}
	return s.check(p.demanded(action.UserInputs, s.Values), p.Plan.Name)
}

// demanded are the inputs whose values are checked: a secret's input whose value stays in CredHub counts as given.
func (p Provision) demanded(inputs []brokerpak.Variable, values map[string]any) []brokerpak.Variable {
	return slices.DeleteFunc(slices.Clone(inputs), func(input brokerpak.Variable) bool {
		return values[input.Name] == nil && slices.Contains(p.Secrets, input.Name)
	})
}

// checkPlan checks the plan's properties against the plan inputs. A null is no value unless the input may be null.
func (p Provision) checkPlan() error {
	if p.Unchecked {
		return nil
	}
	inputs := p.Service.Provision.PlanInputs
	given := map[string]any{}
	for _, input := range inputs {
		if item, ok := p.Plan.Properties[input.Name]; ok && (item != nil || input.Nullable) {
			given[input.Name] = item
		}
	}
	err := schemas.CheckValues(p.demanded(inputs, given), given, func(name string) string { return subject(PlanLayer, p.Plan.Name, inputs, name) })
	if errors.As(err, new(diag.Errors)) {
		return nil // the constraints cannot be used, which validation tells their author
	}
	return err
}

// parameters are those of the request. Those that the instance has already get the type of their input where they can.
func (p Provision) parameters() map[string]any {
	types := map[string]string{}
	for _, input := range slices.Concat(p.Service.Provision.ComputedInputs, p.Service.Provision.UserInputs) {
		types[input.Name] = input.Type
	}
	parameters := value.CloneMap(p.Parameters)
	for _, name := range p.Deployed {
		parameters[name] = deployedAs(parameters[name], types[name])
	}
	return parameters
}

// deployedAs gives a value a type as it can. Of a boolean, a text is the word that another adapter meant, not the digit that
// expressions make of one.
func deployedAs(item any, typ string) any {
	if word, ok := item.(bool); ok && typ == "string" {
		return strconv.FormatBool(word)
	}
	cast, err := expr.Cast(item, typ)
	if err != nil {
		return item
	}
	return cast
}

// Kept tells whether a value is made of parameters that the deployed instance has already, and of no others.
func (s *Scope) Kept(name string) bool {
	used := s.Origins[name].Parameters
	return len(used) > 0 && !slices.ContainsFunc(used, func(parameter string) bool { return !slices.Contains(s.kept, parameter) })
}

// check validates the variables of user inputs. Only what a user controls is put to the user, and only what the request may have
// changed is checked.
func (s *Scope) check(inputs []brokerpak.Variable, plan string) error {
	var users, others []brokerpak.Variable
	for _, input := range inputs {
		switch origin, set := s.Origins[input.Name]; {
		case s.Failed[input.Name] != nil: // who evaluates it checks it
		case origin.Layer == StickyLayer: // it is deployed
		case s.Kept(input.Name):
		case set && !origin.FromRequest:
			others = append(others, input)
		default:
			users = append(users, input)
		}
	}
	return errors.Join(
		schemas.CheckValues(users, s.Values, nil),
		schemas.CheckValues(others, s.Values, func(name string) string { return subject(s.Origins[name].Layer, plan, others, name) }),
	)
}

// subject names an input by what set it, for operators and authors.
func subject(layer, plan string, inputs []brokerpak.Variable, name string) string {
	text := cmp.Or(map[string]string{
		OperatorLayer: "the operator's default of", OverrideLayer: "override", PlanLayer: "property", DefaultLayer: "the default of input",
		ComputedLayer: "computed input",
	}[layer], "the value of input") + fmt.Sprintf(" %q", name)
	switch {
	case layer != OverrideLayer && layer != PlanLayer:
	case plan == "": // the broker sends no name
		text += " of the plan"
	default:
		text += fmt.Sprintf(" of plan %q", plan)
	}
	for _, input := range inputs {
		if input.Name == name {
			return fmt.Sprintf("%s, declared at %s,", text, input.Pos)
		}
	}
	return text
}

// properties are those of the plan, without defaults that the user has overridden.
func (p Provision) properties() map[string]any {
	properties := value.Merge(p.Plan.Properties)
	maps.DeleteFunc(properties, func(name string, _ any) bool {
		_, given := p.Parameters[name]
		return given && !p.Service.Provision.PlanOwned(p.Plan.Properties, name)
	})
	return properties
}

// Bind are the sources of a bind request.
type Bind struct {
	Service    *brokerpak.Service
	Plan       brokerpak.Plan
	Defaults   map[string]any
	Parameters map[string]any
}

// Resolve fills the scope with the variables of the bind action. Plan inputs are read from the constant
// request.plan_properties and cast to their type.
func (b Bind) Resolve(s *Scope) error {
	if err := checkParameters(b.Parameters, nil, s.options.GuardReferences); err != nil {
		return err
	}
	action := &b.Service.Bind
	s.Set(OperatorLayer, b.Defaults)
	s.Set(ParameterLayer, action.Gather(b.Parameters))
	s.Set(OverrideLayer, b.Plan.BindOverrides)
	failed := errors.Join(
		s.Defaults(action.UserInputs),
		s.planInputs(action.PlanInputs),
		s.Computed(action.ComputedInputs),
	)
	if failed != nil {
		return failed
	}
	return s.check(action.UserInputs, b.Plan.Name)
}

// MergeParameters returns the parameters of an instance after a request: those of earlier requests overlaid with new ones. A
// null resets a parameter to its default, unless the input may be null. Of the additional input each entry is a parameter.
func MergeParameters(inputs []brokerpak.Variable, earlier, requested map[string]any) map[string]any {
	merged := value.CloneMap(earlier)
	if merged == nil {
		merged = map[string]any{}
	}
	further := brokerpak.AdditionalInput(inputs)
	for name, item := range requested {
		if rest, ok := item.(map[string]any); ok && further != nil && name == further.Name {
			before, _ := merged[name].(map[string]any)
			delete(merged, name)
			if after := MergeParameters(nil, before, rest); len(after) > 0 {
				merged[name] = after
			}
			continue
		}
		nullable := slices.ContainsFunc(inputs, func(v brokerpak.Variable) bool { return v.Name == name && v.Nullable })
		if item == nil && !nullable {
			delete(merged, name)
			continue
		}
		merged[name] = value.Clone(item)
	}
	return merged
}

// checkParameters refuses what cannot reach a manifest or a template unchanged.
func checkParameters(parameters map[string]any, secrets []string, guard bool) error {
	for _, name := range value.Keys(parameters) {
		item := parameters[name]
		if value.Depth(item) > value.MaxDepth {
			return fault.Userf("parameter %q is nested more than %d levels deep", name, value.MaxDepth)
		}
		if err := checkNumbers(name, item, guard); err != nil {
			return fault.Userf("parameter %q cannot be used: %s", name, err)
		}
		if guard && !slices.Contains(secrets, name) && (HasReference(item) || HasReference(name)) {
			return fault.Userf("parameter %q must not hold \"((\", which would be a reference to a credential", name)
		}
	}
	return nil
}

// checkNumbers refuses numbers that nothing can hold. Into a manifest no integer of more than 64 bits may go either: BOSH would
// read it as a text. OpenTofu reads it as a number.
func checkNumbers(name string, item any, manifest bool) error {
	if manifest {
		return value.CheckNumbers(map[string]any{name: item})
	}
	var failed error
	value.Walk(map[string]any{name: item}, func(path string, leaf any) bool {
		if f, ok := leaf.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
			failed = fmt.Errorf("the number at %q is too large", path)
		}
		return failed == nil
	})
	return failed
}

// planInputs sets the plan inputs of a bind action from the plan's properties, as an expression would read them.
func (s *Scope) planInputs(inputs []brokerpak.Variable) error {
	properties, _ := s.options.Constants[planProperties].(map[string]any)
	var failed []error
	for _, input := range inputs {
		if _, ok := properties[input.Name]; !ok {
			if input.Required {
				failed = append(failed, fmt.Errorf("%s: the plan has no property %q, which bind.plan_inputs requires", input.Pos, input.Name))
			}
			continue
		}
		var err error
		input.DefaultExpr, err = expr.Parse(expr.Source{Text: fmt.Sprintf("${%s[%q]}", planProperties, input.Name), Pos: input.Pos})
		if err == nil {
			err = s.assign(input, PlanLayer)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// planProperties is the constant that holds the properties of the plan in bind expressions.
const planProperties = "request.plan_properties"
