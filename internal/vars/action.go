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

// A Provision contains the sources of the variables of a provision or update request: the service and its plan, the
// operator's defaults, the user's parameters of this and earlier requests, and the sticky values that the instance
// keeps. Parameters contains the values of inputs, as brokerpak.Action.InputValues returns them. Service must not be
// nil. The zero value of any other field means that it supplies no values; that of Unchecked means that values are
// validated.
//
// Deployed are the names of those parameters that the instance already has and that are therefore not validated; each
// must be a key of Parameters. Secrets are the names of inputs that are the values of secrets: they may contain "((",
// and a required one may be missing, because its value is stored in CredHub.
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

// Resolve sets the variables of the provision action in the scope s, layer by layer: the operator's defaults, the
// user's parameters, the plan's overrides, the defaults of user inputs, the plan's properties, the values in Sticky and
// computed inputs. A later layer replaces the values of earlier ones, with three exceptions: a default is only used for
// an input that no earlier layer has set, not even to null; a computed input replaces a value only if it has overwrite;
// and a property that the plan only supplies as a default does not replace a parameter. Parameters whose names are in
// Deployed are converted to the type of their input if possible. Neither p nor its maps are changed.
//
// Resolve first rejects parameters that cannot be used (see checkParameters) and, unless p is Unchecked, plan
// properties that do not fit; no variable is set then. At the end, unless p is Unchecked, Resolve validates the values
// of the user inputs, except those that the instance already has, secrets without a value, and inputs in s.Unresolved.
// If an expression failed, this validation is reduced to required user inputs that the user omitted. If p is Unchecked,
// Resolve reports neither. Variables that were set before an error remain in the scope, which also stores the names in
// Deployed; see DependsOnDeployed.
//
// The error is or contains a *fault.UserError if the user's parameters are invalid or if an expression fails because of
// them. Other errors are for the operator: for example, an expression that cannot be evaluated, or a value of the plan,
// the operator or the definition that does not depend on the request and does not fit its input, which is a
// *schemas.ValueError. The errors of all expressions that fail and of omitted parameters are joined. With
// Options.TolerateUnset, an expression that needs a value that the operator has not set causes no error; its input is
// in s.Unresolved then.
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
// layer has set and for which the action declares neither a default nor a computed input. properties are the plan's;
// a plan input that one of them supplies is left out of the result even if its value could not be converted. The
// result is a new slice in the order of inputs; it is empty or nil if no input qualifies.
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

// checkable returns a copy of the list inputs without those inputs that are the values of secrets (p.Secrets) and are
// missing or nil in values, because their value is stored in CredHub and cannot be checked. values are the values of
// inputs by name, and may be nil.
func (p Provision) checkable(inputs []brokerpak.Variable, values map[string]any) []brokerpak.Variable {
	return slices.DeleteFunc(slices.Clone(inputs), func(input brokerpak.Variable) bool {
		return values[input.Name] == nil && slices.Contains(p.Secrets, input.Name)
	})
}

// checkPlan checks the plan's properties against the plan inputs of the service. A null property counts as missing
// unless the input is nullable. Inputs of secrets without a property, and properties that no plan input declares, are
// not checked. If properties do not fit or a required one is missing, the error is a *schemas.ValueError for the
// operator, which names them. It is another error if a value cannot be represented in JSON. checkPlan returns nil if
// all fit, if p is Unchecked, or if the constraints in the definition are unusable, which `pak validate` reports to the
// author.
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

// parameters returns a deep copy of the user's parameters by name, in which the Deployed ones are converted to the
// current type of their user input, or else of their computed input, if that is possible; without such an input, they
// stay as they are. Each name in Deployed must be a key of Parameters. The result is nil if Parameters is nil.
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

// convertDeployed converts a value that the instance already has to the JSON type typ, such as "integer", as expr.Cast
// does, or returns it unchanged if that is not possible or the type is "". In contrast to expressions, the text of a
// boolean is "true" or "false", as another adapter would have used it, and not "1" or "0".
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

// DependsOnDeployed reports whether the named variable depends on at least one of the user's parameters, directly or
// through other variables, and the deployed instance already has all of these parameters. The variable may also depend
// on other sources, such as the plan. The names of the deployed instance's parameters are those of Provision.Resolve;
// before it, and for a variable that is not set, the result is false.
func (s *Scope) DependsOnDeployed(name string) bool {
	parameters := s.Origins[name].Parameters
	isNew := func(parameter string) bool { return !slices.Contains(s.deployed, parameter) }
	return len(parameters) > 0 && !slices.ContainsFunc(parameters, isNew)
}

// validate checks the values of the variables in the scope against the declarations in inputs. Values that the deployed
// instance already has, and variables that are in Unresolved, are not checked. Errors about values whose origin has
// FromRequest, and about required inputs without a value, are *fault.UserErrors; errors about other values are
// *schemas.ValueErrors for the operator. An unusable constraint of the definition, or a value that JSON cannot
// represent, is another error, also for the operator. The errors are joined, and the result is nil if all values fit.
// plan is the name of the plan for errors; "" means that it is not known.
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

// subject returns the beginning of a sentence about the named input, for errors to operators and authors, such as
// `property "size" of plan "small", declared at pak.yml:3:5,`. layer is the name of the layer that set the value, such
// as PlanLayer; the layer "", or a layer that errors do not mention, yields `the value of input "size"`. The position
// of the declaration is included if the name is one of inputs. plan is the name of the plan, which is only mentioned
// for values of the plan; "" means that it is not known.
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

// properties returns a shallow copy of the plan's properties, without those that a user parameter replaces: a property
// is left out if the user set a parameter of the same name and the plan only supplies a default for it (plan_defaults
// in the definition). The result is never nil.
func (p Provision) properties() map[string]any {
	properties := value.Merge(p.Plan.Properties)
	maps.DeleteFunc(properties, func(name string, _ any) bool {
		_, overridden := p.Parameters[name]
		return overridden && !p.Service.Provision.PlanOwned(p.Plan.Properties, name)
	})
	return properties
}

// A Bind contains the sources of the variables of a bind request: the service and its plan, the operator's defaults,
// and the user's parameters as the request contains them, not grouped by input. Service must not be nil; the zero
// value of any other field means that it supplies no values. Of Plan, only the BindOverrides supply values; its name
// and properties only affect errors. The values of plan inputs are read from the scope instead; see Resolve.
type Bind struct {
	Service    *brokerpak.Service
	Plan       brokerpak.Plan
	Defaults   map[string]any // the operator's defaults
	Parameters map[string]any // the user's parameters
}

// Resolve sets the variables of the bind action in the scope s, layer by layer: the operator's defaults, the user's
// parameters, the plan's overrides, the defaults of user inputs, plan inputs and computed inputs. A later layer
// replaces the values of earlier ones, except that a default is only used for an input that no earlier layer has set,
// not even to null, and that a computed input replaces a value only if it has overwrite. Parameters that the action
// does not declare become entries of its additional input; without one, they become variables. Plan inputs are read
// from the constant request.plan_properties of the scope and cast to their type; without the constant, the plan has no
// properties.
//
// At the end, Resolve validates the user inputs; if an expression failed, it only reports required ones that the user
// omitted. The values of plan inputs that are not user inputs are not validated. Variables that were set before an
// error remain in the scope; if a parameter cannot be used (see checkParameters), none is set.
//
// The error is or contains a *fault.UserError if the user's parameters are invalid or if an expression fails because of
// them. A value that does not fit its user input is a *fault.UserError as well if it depends on the request, which
// includes a plan input, and otherwise a *schemas.ValueError for the operator, for example about an override of the
// plan or a default. An expression that cannot be evaluated for another reason and a required plan input without a
// property are errors for the operator. The errors of all expressions that fail and of omitted parameters are joined.
// With Options.TolerateUnset, an expression that needs a value that the operator has not set causes no error; its input
// is in s.Unresolved then, and is not validated.
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
// entries of the additional input, the map of all parameters that no input declares, are merged in the same way; it is
// removed if no entry remains, and is replaced as a whole by a value that is not a map. inputs are the user inputs of
// the action; parameters that are not among them are treated as inputs that are not nullable. Each map may be nil. The
// arguments are not modified, and the result is a deep copy and never nil.
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

// checkParameters returns a *fault.UserError for the first of the parameters, in the order of their names, that a
// manifest or template cannot contain: one that has more than value.MaxDepth levels of lists and maps or contains a
// number that checkNumbers rejects. guard means that the values become part of a BOSH manifest: then integers of more
// than 64 bits are rejected, and parameters that contain "((" in their name or value, except those whose names are in
// secrets. parameters are values by name; they and secrets may be nil. checkParameters returns nil if all can be used.
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

// checkNumbers returns an error for the first number in item, a scalar, list or map, that is infinite or NaN, and nil
// if all numbers can be used. If forManifest is true, integers of more than 64 bits are also errors, because BOSH would
// read them as texts; OpenTofu reads them as numbers. item must have the types that value.Normalise returns. name is
// the name of the parameter item. The error contains the path of the number, which begins with that name, such as
// "hosts/0".
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

// planInputs sets the plan inputs of a bind action to the plan's properties of the same name, which it reads from the
// constant request.plan_properties of the scope, cast to the type of the input. As in expressions, scalars are texts
// before the cast: a null property is the empty text, which is 0 for a number and cannot be cast to a boolean, an
// object or an array. planInputs replaces values that the variables already have. Without a property, an input that
// is not required is left as it is, and a required one is an error for the operator. A property that cannot be cast
// is an error as well; see assign. planInputs continues after an error; the errors are joined, and the result is nil
// if there are none.
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
