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

// A Provision contains the sources of the variables of a provision or update request. Service must not be nil. The zero
// value of any other field means that there are none; that of Unchecked means that values are validated.
type Provision struct {
	Service *brokerpak.Service
	Plan    brokerpak.Plan
	// Defaults are the operator's defaults, in ascending precedence: general ones before those of the service.
	Defaults []map[string]any
	// Parameters are the user's parameters, including those of earlier requests. See MergeParameters.
	Parameters map[string]any
	// Deployed are the names of those Parameters that the instance already has; every name must be a key of Parameters.
	// They are not checked, so that they remain valid if the definition changes.
	Deployed []string
	// Sticky contains the values of sticky inputs that the instance keeps, although plan or defaults may differ.
	Sticky map[string]any
	// Secrets are the names of inputs that are the values of secrets. Their values may contain "((". A required input
	// among them may be missing, because its value is stored in CredHub.
	Secrets []string
	// Unchecked means that inputs and plan properties are not validated, because the values are already deployed or
	// were invented for a preview. Parameters that cannot be represented are rejected nevertheless.
	Unchecked bool
}

// Resolve sets the variables of the provision action in the scope. The error is a *fault.UserError if the user's
// parameters are invalid or if an expression fails because of them. Other errors are for the operator: for example, an
// expression that cannot be evaluated, or a value of the plan, the operator or the definition that does not fit its
// input, which is a *schemas.ValueError. With Options.TolerateUnset, expressions that need an unset value are not
// errors. If an expression fails while a required parameter is missing, both errors are returned, joined. The variables
// that were set before the error remain in the scope. The Provision is not changed.
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
	s.deployed = p.Deployed
	s.Set(OverrideLayer, p.Plan.ProvisionOverrides)
	action := &p.Service.Provision
	failed := s.Defaults(action.UserInputs)
	s.Set(PlanLayer, p.properties())
	s.Set(StickyLayer, p.Sticky)
	failed = errors.Join(failed, s.Computed(action.ComputedInputs))
	if p.Unchecked {
		return failed
	}
	checkable := p.checkable(action.UserInputs, s.Values)
	if failed != nil {
		return errors.Join(s.validate(s.omittedByUser(checkable, action, p.Plan.Properties), p.Plan.Name), failed)
	}
	return s.validate(checkable, p.Plan.Name)
}

// omittedByUser returns those of the inputs that have no value because the user omitted a parameter: inputs that no
// layer has set and for which the action declares neither a default nor a computed input. The properties are those of
// the plan; a plan input that one of them supplies is left out even if it could not be converted.
func (s *Scope) omittedByUser(
	inputs []brokerpak.Variable, action *brokerpak.Action, properties map[string]any,
) []brokerpak.Variable {
	ofPlan := slices.DeleteFunc(brokerpak.Names(action.PlanInputs), func(name string) bool {
		_, supplied := properties[name]
		return !supplied
	})
	evaluated := slices.Concat(ofPlan, brokerpak.Names(action.ComputedInputs))
	return slices.DeleteFunc(slices.Clone(inputs), func(input brokerpak.Variable) bool {
		_, set := s.Values[input.Name]
		return set || input.HasDefault || slices.Contains(evaluated, input.Name)
	})
}

// checkable returns a copy of the list without the inputs of secrets that have no value in values, because their value
// is stored in CredHub and cannot be checked.
func (p Provision) checkable(inputs []brokerpak.Variable, values map[string]any) []brokerpak.Variable {
	return slices.DeleteFunc(slices.Clone(inputs), func(input brokerpak.Variable) bool {
		return values[input.Name] == nil && slices.Contains(p.Secrets, input.Name)
	})
}

// checkPlan checks the plan's properties against the plan inputs. A null property counts as missing unless the input is
// nullable. If properties do not fit, the error is a *schemas.ValueError for the operator, which names them. checkPlan
// returns nil if p is Unchecked, or if the constraints in the definition are unusable, which `pak validate` reports to
// the author.
func (p Provision) checkPlan() error {
	if p.Unchecked {
		return nil
	}
	inputs := p.Service.Provision.PlanInputs
	properties := map[string]any{}
	for _, input := range inputs {
		if item, ok := p.Plan.Properties[input.Name]; ok && (item != nil || input.Nullable) {
			properties[input.Name] = item
		}
	}
	describe := func(name string) string { return subject(PlanLayer, p.Plan.Name, inputs, name) }
	err := schemas.CheckValues(p.checkable(inputs, properties), properties, describe)
	if errors.As(err, new(diag.Errors)) {
		return nil // the constraints are unusable
	}
	return err
}

// parameters returns a copy of the user's parameters, in which the Deployed ones are converted to the current type of
// their input if possible. The copy of nil Parameters is nil.
func (p Provision) parameters() map[string]any {
	types := map[string]string{}
	for _, input := range slices.Concat(p.Service.Provision.ComputedInputs, p.Service.Provision.UserInputs) {
		types[input.Name] = input.Type
	}
	parameters := value.CloneMap(p.Parameters)
	for _, name := range p.Deployed {
		parameters[name] = convertDeployed(parameters[name], types[name])
	}
	return parameters
}

// convertDeployed converts a deployed value to a type, or returns it unchanged if that is not possible or the type is
// "". The text of a boolean is "true" or "false", as another adapter would have used it, and not "1" or "0" as in
// expressions.
func convertDeployed(item any, typ string) any {
	if word, ok := item.(bool); ok && typ == "string" {
		return strconv.FormatBool(word)
	}
	cast, err := expr.Cast(item, typ)
	if err != nil {
		return item
	}
	return cast
}

// DependsOnDeployed reports whether the deployed instance already has all parameters that a variable depends on,
// directly or through other variables. The variable may also depend on other sources, such as the plan.
// DependsOnDeployed returns false for a variable that does not depend on any parameter.
func (s *Scope) DependsOnDeployed(name string) bool {
	parameters := s.Origins[name].Parameters
	isNew := func(parameter string) bool { return !slices.Contains(s.deployed, parameter) }
	return len(parameters) > 0 && !slices.ContainsFunc(parameters, isNew)
}

// validate validates the variables that belong to the inputs. Errors about values from the request, and about inputs
// without a value, are *fault.UserErrors; errors about other values are *schemas.ValueErrors for the operator. An
// unusable constraint of the definition is another error, also for the operator. Values that the deployed instance
// already has, and variables that are in Unresolved, are not checked. The plan is the name of the plan for errors; ""
// means that it is not known. The errors are joined.
func (s *Scope) validate(inputs []brokerpak.Variable, plan string) error {
	var users, others []brokerpak.Variable
	for _, input := range inputs {
		switch origin, set := s.Origins[input.Name]; {
		case s.Unresolved[input.Name] != nil: // checked where it is evaluated
		case origin.Layer == StickyLayer: // already deployed
		case s.DependsOnDeployed(input.Name): // already deployed
		case set && !origin.FromRequest:
			others = append(others, input)
		default:
			users = append(users, input)
		}
	}
	describe := func(name string) string { return subject(s.Origins[name].Layer, plan, others, name) }
	return errors.Join(
		schemas.CheckValues(users, s.Values, nil),
		schemas.CheckValues(others, s.Values, describe),
	)
}

// subject describes the named input in an error for operators and authors: by the layer that set it and, if it is one
// of the inputs, by the position of its declaration. The layer "", or one that is not mentioned in errors, gives "the
// value of input". The plan is the name of the plan; "" means that it is not known.
func subject(layer, plan string, inputs []brokerpak.Variable, name string) string {
	text := cmp.Or(map[string]string{
		OperatorLayer: "the operator's default of", OverrideLayer: "override", PlanLayer: "property",
		DefaultLayer: "the default of input", ComputedLayer: "computed input",
	}[layer], "the value of input") + fmt.Sprintf(" %q", name)
	switch {
	case layer != OverrideLayer && layer != PlanLayer:
	case plan == "": // the broker does not send the name
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

// properties returns a copy of the plan's properties, without those that are only defaults and that the user has
// overridden. See brokerpak.Bosh.PlanDefaults.
func (p Provision) properties() map[string]any {
	properties := value.Merge(p.Plan.Properties)
	maps.DeleteFunc(properties, func(name string, _ any) bool {
		_, overridden := p.Parameters[name]
		return overridden && !p.Service.Provision.PlanOwned(p.Plan.Properties, name)
	})
	return properties
}

// A Bind contains the sources of the variables of a bind request. Service must not be nil; the zero value of any other
// field means that there are none.
type Bind struct {
	Service    *brokerpak.Service
	Plan       brokerpak.Plan
	Defaults   map[string]any // the operator's defaults
	Parameters map[string]any // the user's parameters
}

// Resolve sets the variables of the bind action in the scope. Plan inputs are read from the constant
// request.plan_properties of the scope, and cast to their type; without the constant, the plan has no properties.
// Parameters that the action does not declare become entries of its additional input, if it has one. The errors are as
// in Provision.Resolve. In addition, a required plan input without a property is an error for the operator; the values
// of plan inputs are not validated.
func (b Bind) Resolve(s *Scope) error {
	if err := checkParameters(b.Parameters, nil, s.options.GuardReferences); err != nil {
		return err
	}
	action := &b.Service.Bind
	s.Set(OperatorLayer, b.Defaults)
	s.Set(ParameterLayer, action.InputValues(b.Parameters))
	s.Set(OverrideLayer, b.Plan.BindOverrides)
	failed := errors.Join(
		s.Defaults(action.UserInputs),
		s.planInputs(action.PlanInputs),
		s.Computed(action.ComputedInputs),
	)
	if failed != nil {
		omitted := s.omittedByUser(action.UserInputs, action, b.Plan.Properties)
		return errors.Join(s.validate(omitted, b.Plan.Name), failed)
	}
	return s.validate(action.UserInputs, b.Plan.Name)
}

// MergeParameters returns the parameters of an instance after a request: those of earlier requests, overlaid with the
// requested ones. A null removes a parameter, which resets it to its default; a null for a nullable input is kept. The
// entries of the additional input are merged in the same way; it is removed if no entry remains. inputs are the user
// inputs of the action; parameters that are not among them are treated as inputs that are not nullable. The arguments
// are not modified, and the result is never nil.
func MergeParameters(inputs []brokerpak.Variable, earlier, requested map[string]any) map[string]any {
	merged := value.CloneMap(earlier)
	if merged == nil {
		merged = map[string]any{}
	}
	additional := brokerpak.AdditionalInput(inputs)
	for name, item := range requested {
		if entries, ok := item.(map[string]any); ok && additional != nil && name == additional.Name {
			earlierEntries, _ := merged[name].(map[string]any)
			delete(merged, name)
			if mergedEntries := MergeParameters(nil, earlierEntries, entries); len(mergedEntries) > 0 {
				merged[name] = mergedEntries
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

// checkParameters returns a *fault.UserError for the first parameter that cannot be passed to a manifest or template
// unchanged: one that is nested too deeply or contains a number that checkNumbers rejects. guard means that the values
// become part of a BOSH manifest: parameters that contain "((" in their name or value are then rejected as well, except
// those whose names are in secrets. The parameters are checked in the order of their names. checkParameters returns nil
// if all can be used.
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
			return fault.Userf("parameter %q must not contain \"((\", which would be a reference to a credential", name)
		}
	}
	return nil
}

// checkNumbers returns an error for a number that is infinite or not a number. If forManifest is true, integers of more
// than 64 bits are also errors, because BOSH would read them as texts; OpenTofu reads them as numbers. The error
// contains the path of the number, which begins with the name of the item.
func checkNumbers(name string, item any, forManifest bool) error {
	if forManifest {
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

// planInputs sets the plan inputs of a bind action to the plan's properties, converted as by an expression. Without a
// property, an input that is not required is not set, and a required one is an error. The errors are joined; see Assign
// for those of the conversion.
func (s *Scope) planInputs(inputs []brokerpak.Variable) error {
	properties, _ := s.options.Constants[planProperties].(map[string]any)
	var failed []error
	for _, input := range inputs {
		if _, ok := properties[input.Name]; !ok {
			if input.Required {
				failed = append(failed, fmt.Errorf("%s: the plan has no property %q, which bind.plan_inputs requires",
					input.Pos, input.Name))
			}
			continue
		}
		var err error
		text := fmt.Sprintf("${%s[%q]}", planProperties, input.Name)
		input.DefaultExpr, err = expr.Parse(expr.Source{Text: text, Pos: input.Pos})
		if err == nil {
			err = s.assign(input, PlanLayer)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// planProperties is the constant that contains the plan's properties in bind expressions.
const planProperties = "request.plan_properties"
