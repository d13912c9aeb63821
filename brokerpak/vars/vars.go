// Package vars resolves the variables of an action: it merges the layers of values in the published order, evaluates defaults
// and computed inputs, and remembers where each value came from.
//
// The order (brokerpak specification, "Resolution"), later wins: operator defaults, the user's parameters, the plan's
// overrides, defaults of user inputs (only where nothing was set), plan properties, what an instance keeps of sticky inputs (of this
// adapter), computed inputs.
package vars

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

// The names of the layers. What is kept may have been a parameter.
const (
	OperatorLayer  = "operator defaults"
	ParameterLayer = "parameters"
	OverrideLayer  = "plan overrides"
	PlanLayer      = "plan properties"
	StickyLayer    = "kept"
	DefaultLayer   = "default"
	ComputedLayer  = "computed"
)

// WithoutAnnotations is a request's context as expressions read it: as published, annotations are left out, because users write free text
// into them.
func WithoutAnnotations(context map[string]any) map[string]any {
	open := value.Merge(context)
	for _, name := range []string{
		"organization_annotation", "organization_annotations", "space_annotation", "space_annotations", "instance_annotations",
	} {
		delete(open, name)
	}
	return open
}

// Environment is what expressions may read of the operator's world. Both may be nil.
type Environment struct {
	Env    func(name string) (string, bool)
	Config func(key string) (any, bool)
}

// Generated are the values that rand.base64, time.nano and counter.next made: input → call ("rand.base64#1") → value.
type Generated map[string]map[string]any

// Scope holds the variables of one request while they are resolved, and evaluates expressions over them afterwards.
type Scope struct {
	// Values are the variables resolved so far.
	Values map[string]any
	// Origins tell where each came from.
	Origins map[string]Origin
	// Generated are the generated values that the expressions used: carried ones and new ones.
	Generated Generated
	// Failed are the errors of variables that have no value here, with Options.Later.
	Failed map[string]error

	options Options
	counter int64
	kept    []string // parameters that the deployed instance has already
}

// Options are what a Scope starts with.
type Options struct {
	// Constants are names that no variable overrides: "request.instance_id" → value.
	Constants map[string]any
	// Functions are those besides the standard library.
	Functions   map[string]expr.Function
	Environment Environment
	// Carried are generated values of an earlier evaluation; they are used again instead of new ones.
	Carried Generated
	// GuardReferences refuses expressions over user-controlled values that give "((", because the result goes into a BOSH
	// manifest, where it would be a reference to a credential.
	GuardReferences bool
	// Later leaves a variable without value that needs what the operator has not set, itself or through other variables: it is evaluated
	// elsewhere.
	Later bool
}

// NewScope returns a scope without variables.
func NewScope(o Options) *Scope {
	s := &Scope{Values: map[string]any{}, Origins: map[string]Origin{}, Generated: Generated{}, Failed: map[string]error{}, options: o}
	for _, calls := range o.Carried {
		for call, made := range calls {
			if count, ok := made.(int64); ok && strings.HasPrefix(call, "counter.next#") {
				s.counter = max(s.counter, count)
			}
		}
	}
	return s
}

// Set merges a layer of values, which are set as they are, never evaluated. A null counts as set.
func (s *Scope) Set(layer string, values map[string]any) {
	for name, item := range values {
		s.Values[name] = item
		origin := Origin{Layer: layer, FromRequest: layer == ParameterLayer || layer == StickyLayer}
		if origin.FromRequest {
			origin.Parameters = []string{name}
		}
		s.Origins[name] = origin
	}
}

// Defaults sets the defaults of inputs that no layer has set, in the order of the list. String defaults are evaluated and
// cast. All failures are returned, joined; evaluation goes on after each.
func (s *Scope) Defaults(inputs []brokerpak.Variable) error {
	var failed []error
	for _, input := range inputs {
		if _, set := s.Values[input.Name]; set || !input.HasDefault {
			continue
		}
		failed = append(failed, s.assign(input, DefaultLayer))
	}
	return errors.Join(failed...)
}

// Computed sets the computed inputs, in the order of the list: those with overwrite always, the others where nothing is set.
func (s *Scope) Computed(inputs []brokerpak.Variable) error {
	var failed []error
	for _, input := range inputs {
		if _, set := s.Values[input.Name]; set && !input.Overwrite {
			continue
		}
		failed = append(failed, s.assign(input, ComputedLayer))
	}
	return errors.Join(failed...)
}

// assign sets an input to its literal, or to the value of its expression.
func (s *Scope) assign(input brokerpak.Variable, layer string) error {
	name, template := input.Name, input.DefaultExpr
	if template == nil {
		s.Values[name] = value.Clone(input.Default)
		s.Origins[name] = Origin{Layer: layer, Pos: input.Pos}
		return nil
	}
	result, err := s.Eval(name, template)
	if err == nil {
		if result, err = expr.Cast(result, input.Type); err != nil {
			err = s.userError(template, err.Error(), err)
		}
	}
	origin := s.origin(template)
	origin.Layer = layer
	if err != nil {
		err = fmt.Errorf("computing %q: %w", name, at(err, template))
		if !s.options.Later || !errors.As(err, new(*expr.UnsetError)) && !s.readsFailed(template) {
			return err
		}
		delete(s.Values, name)
		s.Failed[name], s.Origins[name] = err, origin
		return nil
	}
	s.Values[name], s.Origins[name] = result, origin
	return nil
}

// userError makes an error about a value the user's where an expression makes that value of parameters, and of nothing else that has a say:
// what functions answer about the configuration or the instance is for the operator.
func (s *Scope) userError(template *expr.Template, reason string, err error) error {
	names := s.origin(template).Parameters
	if len(names) == 0 || slices.ContainsFunc(template.Calls(), func(call expr.Call) bool {
		_, outside := s.options.Functions[call.Name]
		return outside || slices.Contains(OfOperator(), call.Name)
	}) {
		return err
	}
	return &fault.UserError{Message: fmt.Sprintf(`parameter "%s" cannot be used: %s`, strings.Join(names, `", "`), reason), Err: err}
}

// Assign sets a variable to the value of an expression, cast to a type.
func (s *Scope) Assign(name, typ string, template *expr.Template) error {
	return s.assign(brokerpak.Variable{Name: name, Type: typ, DefaultExpr: template, Pos: template.Pos()}, ComputedLayer)
}

// at adds the template's place to an error that does not name one.
func at(err error, template *expr.Template) error {
	if errors.As(err, new(*diag.PlacedError)) {
		return err
	}
	return &diag.PlacedError{Pos: template.Pos(), Err: err}
}

// Eval evaluates an expression over the constants and the variables so far. Owner names the input or output it belongs to; it
// is the key under which generated values are carried.
func (s *Scope) Eval(owner string, template *expr.Template) (any, error) {
	result, err := template.Eval(s.scope(owner))
	var refused *expr.FunctionError
	var user *fault.UserError
	switch {
	case errors.As(err, &user):
		return nil, err
	case errors.As(err, &refused):
		return nil, s.userError(template, refused.Err.Error(), err)
	case err != nil:
		return nil, err
	}
	if s.options.GuardReferences && HasReference(result) && s.origin(template).FromRequest {
		return nil, &fault.UserError{
			Message: fmt.Sprintf("the value of %q would hold \"((\", which is not allowed", owner),
			Err:     &diag.PlacedError{Pos: template.Pos(), Err: errors.New("a value from the request would become a BOSH reference")},
		}
	}
	return result, nil
}

// Holds evaluates a condition; nil always holds.
func (s *Scope) Holds(owner string, condition *expr.Template) (bool, error) {
	if condition == nil {
		return true, nil
	}
	result, err := s.Eval(owner, condition)
	if err != nil {
		return false, err
	}
	holds, err := expr.Truthy(result)
	if err != nil {
		return false, at(err, condition)
	}
	return holds, nil
}

// Text evaluates an expression to a text.
func (s *Scope) Text(owner string, template *expr.Template) (string, error) {
	result, err := s.Eval(owner, template)
	if err != nil {
		return "", err
	}
	return value.Text(result), nil
}

// Require evaluates checks in order. The first that does not hold is an error with its message: a *fault.UserError where the
// user shall read it. Owner names the section in errors.
func (s *Scope) Require(owner string, checks []brokerpak.Check) error {
	for _, check := range checks {
		holds, err := s.Holds(owner, check.That)
		if err != nil {
			return fmt.Errorf("evaluating %s: %w", owner, err)
		}
		if holds {
			continue
		}
		message, err := s.Text(owner, check.Message)
		if err != nil {
			return fmt.Errorf("evaluating the message of %s: %w", owner, err)
		}
		if check.Audience == brokerpak.User {
			return &fault.UserError{Message: message}
		}
		return &diag.PlacedError{Pos: check.Pos, Err: errors.New(message)}
	}
	return nil
}

// With returns a scope that sees further constants and functions besides those of s. Variables and generated values are shared.
func (s *Scope) With(constants map[string]any, functions map[string]expr.Function) *Scope {
	extended := *s
	extended.options.Constants = value.Merge(s.options.Constants, constants)
	extended.options.Functions = value.Merge(s.options.Functions, functions)
	return &extended
}

func (s *Scope) scope(owner string) *expr.Scope {
	return &expr.Scope{
		Variables: s.Values,
		Constants: s.options.Constants,
		Functions: s.options.Functions,
		Env:       s.options.Environment.Env,
		Config:    s.options.Environment.Config,
		Counter:   func() int64 { s.counter++; return s.counter },
		Generate:  func(call string, make func() (any, error)) (any, error) { return s.generate(owner, call, make) },
	}
}

// generate returns the carried value of a generating call, or a new one, and remembers it.
func (s *Scope) generate(owner, call string, make func() (any, error)) (any, error) {
	result, ok := s.options.Carried[owner][call]
	if !ok {
		var err error
		if result, err = make(); err != nil {
			return nil, err
		}
	}
	if s.Generated[owner] == nil {
		s.Generated[owner] = map[string]any{}
	}
	s.Generated[owner][call] = result
	return result, nil
}

// Known turns the constants and functions of a scope into what a check without values needs. Constants that are maps admit
// every key.
func Known(constants map[string]any, functions map[string]expr.Function) expr.Known {
	known := expr.Known{Functions: functions, Types: map[string]expr.Type{}}
	for _, name := range value.Keys(constants) {
		switch constants[name].(type) {
		case map[string]any:
			known.Prefixes = append(known.Prefixes, name)
			known.Types[name] = expr.Map
		default:
			known.Variables = append(known.Variables, name)
		}
	}
	return known
}
