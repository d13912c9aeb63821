// Package vars resolves the variables of a provision or bind action. It merges layers of values, evaluates defaults and
// computed inputs, and records the origin of each value.
//
// The layers are merged in the order of the brokerpak specification, "Resolution". A later layer replaces the values of
// earlier ones:
//
//  1. operator defaults
//  2. the user's parameters
//  3. the plan's overrides
//  4. defaults of user inputs that no earlier layer has set
//  5. plan properties
//  6. the values of sticky inputs that an instance keeps, an addition of this adapter
//  7. computed inputs
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

// The names of the layers. A value of the StickyLayer may originally have been a parameter, so it counts as a user's.
const (
	OperatorLayer  = "operator defaults"
	ParameterLayer = "parameters"
	OverrideLayer  = "plan overrides"
	PlanLayer      = "plan properties"
	StickyLayer    = "kept"
	DefaultLayer   = "default"
	ComputedLayer  = "computed"
)

// WithoutAnnotations returns a shallow copy of a request's context without the annotations of the organization, the
// space and the instance. Expressions must not read them, according to the specification, because users write free text
// into them. The copy of a nil context is an empty map.
func WithoutAnnotations(context map[string]any) map[string]any {
	readable := value.Merge(context)
	for _, name := range []string{
		"organization_annotation", "organization_annotations", "space_annotation", "space_annotations",
		"instance_annotations",
	} {
		delete(readable, name)
	}
	return readable
}

// An Environment gives expressions access to environment variables and to the adapter's configuration through two
// functions. They return false if no value is set. A nil function means that no value is set, so the zero Environment
// has no values.
type Environment struct {
	Env    func(name string) (string, bool)
	Config func(key string) (any, bool)
}

// Generated contains the results of the functions rand.base64, time.nano and counter.next, so that a later evaluation
// uses them again. The first key is the owner of the expression: the name of the input that the expression computes,
// or, for any other expression, a name such as "outputs.NAME", "dashboard_url" or "bind.requires". The second key is
// the call, such as "rand.base64#2" for the second call of this function in an evaluation of the expression; calls of
// other functions do not count. A nil Generated contains no results.
type Generated map[string]map[string]any

// A Scope contains the variables of one request while they are resolved, with their origins and errors, and evaluates
// expressions with them. NewScope returns one; the zero value is not usable. A Scope is not safe for concurrent use,
// not even together with the scopes that With derives from it.
type Scope struct {
	// Values contains the variables that have been resolved so far.
	Values map[string]any
	// Origins contains the origin of each variable.
	Origins map[string]Origin
	// Generated contains the generated values that the expressions used, both carried and new ones.
	Generated Generated
	// Unresolved contains the errors of variables that could not be evaluated and that have not been set since. It is
	// filled only with Options.TolerateUnset.
	Unresolved map[string]error

	options  Options
	counter  *int64   // the last result of counter.next, shared with the scopes that With returns
	deployed []string // the parameters that the deployed instance already has
}

// Options configure a new Scope: the constants, the functions in addition to the standard ones, and the environment
// that expressions use, and, in Carried, the generated values of an earlier evaluation, which are used again.
// Variables cannot override constants. The zero value of a field means that it supplies no values, or that the
// behaviour is turned off.
//
// GuardReferences means that the values become part of a BOSH manifest. Parameters that contain "((", except those in
// Provision.Secrets, are then rejected, and so are results of expressions that contain "((" and depend on the
// request, and parameters with integers of more than 64 bits. TolerateUnset means that an expression that needs a
// configuration value or environment variable that the operator has not set is not an error: its variable has no
// value and is listed in Scope.Unresolved.
type Options struct {
	// Constants contains values that variables cannot override, such as "request.instance_id".
	Constants map[string]any
	// Functions contains functions in addition to the standard ones.
	Functions   map[string]expr.Function
	Environment Environment
	// Carried contains the generated values of an earlier evaluation. They are used again instead of new ones.
	Carried Generated
	// GuardReferences means that the values become part of a BOSH manifest. User-controlled values that contain "(("
	// are then rejected, because they would be references to credentials, and so are parameters with integers of more
	// than 64 bits.
	GuardReferences bool
	// TolerateUnset tolerates variables that need a configuration value or environment variable that the operator has
	// not set, directly or through other variables. They have no value and are listed in Scope.Unresolved, because they
	// are evaluated elsewhere, where the value may be set.
	TolerateUnset bool
}

// NewScope returns a scope without variables. The first new number of its function counter.next is the highest number
// of a counter.next call in o.Carried plus 1, or 1 if o.Carried contains none. The maps in the options are not copied
// and must not be changed while the scope is in use.
func NewScope(o Options) *Scope {
	s := &Scope{
		Values: map[string]any{}, Origins: map[string]Origin{}, Generated: Generated{}, Unresolved: map[string]error{},
		options: o, counter: new(int64),
	}
	for _, calls := range o.Carried {
		for call, result := range calls {
			if count, ok := result.(int64); ok && strings.HasPrefix(call, "counter.next#") {
				*s.counter = max(*s.counter, count)
			}
		}
	}
	return s
}

// Set sets the variables of a layer to values, by name, and replaces the values and origins of variables that are
// already set. The variables are no longer in Unresolved. layer is the name of the layer in the origins of the
// variables, such as PlanLayer. Names other than those of this package are permitted; only the values of ParameterLayer
// and StickyLayer count as controlled by the user. The values are neither evaluated nor copied. A null value counts as
// set. Nil values set no variable.
func (s *Scope) Set(layer string, values map[string]any) {
	for name, item := range values {
		origin := Origin{Layer: layer, FromRequest: layer == ParameterLayer || layer == StickyLayer}
		if origin.FromRequest {
			origin.Parameters = []string{name}
		}
		s.resolve(name, item, origin)
	}
}

// resolve sets a variable to a value, whose origin is recorded. The variable is no longer in Unresolved.
func (s *Scope) resolve(name string, item any, origin Origin) {
	s.Values[name], s.Origins[name] = item, origin
	delete(s.Unresolved, name)
}

// Defaults sets the defaults of inputs that no layer has set, in the order of the list. A null value counts as set. A
// default that is an expression is evaluated and cast to the type of the input. An input without a default remains
// unset, and so does one whose default cannot be evaluated or cast.
//
// Evaluation continues after an error, and the errors are joined: those of evaluating an expression, such as a
// *fault.UserError if the user's parameters are the cause, and a value that cannot be cast. The result is nil if there
// are no errors. With Options.TolerateUnset, an expression that needs a value that the operator has not set, directly
// or through a variable in Unresolved, is not an error, but is recorded in Unresolved.
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

// Computed sets the computed inputs to the value of their expression or literal, in the order of the list. An input
// that is already set is replaced only if it has overwrite. After an error the input keeps its value or remains unset.
//
// Evaluation continues after an error, and the errors are joined: those of evaluating an expression, such as a
// *fault.UserError if the user's parameters are the cause, and a value that cannot be cast to the type of the input.
// The result is nil if there are no errors. With Options.TolerateUnset, an expression that needs a value that the
// operator has not set, directly or through a variable in Unresolved, is not an error, but is recorded in Unresolved;
// the input then loses its value.
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

// assign sets the variable of an input to its default, and replaces an existing value. If the default is an expression,
// assign evaluates it and casts the value to the input's type. A literal is copied without a cast; that of an input
// without a default is null. layer is recorded in the origin of the value. A variable that gets a value is no longer in
// Unresolved.
//
// The error is that of Eval, or states that the value cannot be cast. It contains the position of the expression and
// the name of the input, and is or wraps a *fault.UserError if the user's parameters caused it. The variable then keeps
// its value and its origin.
//
// With Options.TolerateUnset, an error is recorded in Unresolved instead of returned if its cause is a value that the
// operator has not set, or if the expression reads a variable in Unresolved. The variable then loses its value, and its
// origin becomes that of the expression.
func (s *Scope) assign(input brokerpak.Variable, layer string) error {
	name, template := input.Name, input.DefaultExpr
	if template == nil {
		s.resolve(name, value.Clone(input.Default), Origin{Layer: layer, Pos: input.Pos})
		return nil
	}
	result, err := s.Eval(name, template)
	if err == nil {
		if result, err = expr.Cast(result, input.Type); err != nil {
			err = s.userError(template, err.Error(), err)
		}
	}
	origin := s.originOf(template)
	origin.Layer = layer
	if err != nil {
		err = fmt.Errorf("computing %q: %w", name, withPos(err, template))
		if !s.options.TolerateUnset || !errors.As(err, new(*expr.UnsetError)) && !s.readsUnresolved(template) {
			return err
		}
		delete(s.Values, name)
		s.Unresolved[name], s.Origins[name] = err, origin
		return nil
	}
	s.resolve(name, result, origin)
	return nil
}

// userError returns the error for err, which occurred because of the value of the expression in template. If the
// expression depends on the user's parameters, which include the kept values of sticky inputs, that is a
// *fault.UserError that wraps err and whose message names the parameters and contains reason, a clause for the end
// user. If it depends on none, or if the expression itself calls a function of Options.Functions or one that reads the
// configuration or the environment, the result is err unchanged, an error for the operator.
func (s *Scope) userError(template *expr.Template, reason string, err error) error {
	names := s.originOf(template).Parameters
	if len(names) == 0 || slices.ContainsFunc(template.Calls(), func(call expr.Call) bool {
		_, outside := s.options.Functions[call.Name]
		return outside || slices.Contains(OperatorFunctions(), call.Name)
	}) {
		return err
	}
	message := fmt.Sprintf(`parameter "%s" cannot be used: %s`, strings.Join(names, `", "`), reason)
	return &fault.UserError{Message: message, Err: err}
}

// Assign sets the named variable to the value of an expression, cast to the JSON type typ, such as "string" or
// "object", as if it were a computed input; "" means no cast. An existing value is replaced. Assign returns an error,
// and the variable keeps its value, if the expression cannot be evaluated or the value cannot be cast. The error is or
// wraps a *fault.UserError if the user's parameters caused it.
//
// With Options.TolerateUnset, an error is not returned but recorded in Unresolved if its cause is a configuration value
// or environment variable that is not set, or a variable in Unresolved. The variable then loses its value.
func (s *Scope) Assign(name, typ string, template *expr.Template) error {
	variable := brokerpak.Variable{Name: name, Type: typ, Pos: template.Pos()}
	variable.DefaultExpr = template
	return s.assign(variable, ComputedLayer)
}

// withPos returns err, which must not be nil, wrapped in a *diag.PositionError with the position of the template, or
// unchanged if it is or wraps a *diag.PositionError already.
func withPos(err error, template *expr.Template) error {
	if errors.As(err, new(*diag.PositionError)) {
		return err
	}
	return &diag.PositionError{Pos: template.Pos(), Err: err}
}

// Eval evaluates an expression with the constants, the functions and the variables that have been resolved so far.
// The result is a string, list or map; a number, boolean or null becomes a text, which is "" for null (see
// expr.Template.Eval). Values that the expression generates are stored in s.Generated under the owner, the name of
// the input that the expression computes or another name (see Generated), even if the evaluation fails later; those
// that Options.Carried contains for the owner are used again.
//
// With an error the result is nil. The error is or wraps a *fault.UserError in three cases:
//
//   - A function of the expression returns such an error.
//   - A function fails with another error, and the expression depends on the user's parameters and calls neither a
//     function of Options.Functions nor one that reads the configuration or the environment.
//   - Options.GuardReferences is set, and the result contains "((" and depends on the request.
//
// Otherwise it is that of expr.Template.Eval, for example because a variable is not set or a function fails, usually a
// *diag.PositionError.
func (s *Scope) Eval(owner string, template *expr.Template) (any, error) {
	result, err := template.Eval(s.scope(owner))
	var functionErr *expr.FunctionError
	var userErr *fault.UserError
	switch {
	case errors.As(err, &userErr):
		return nil, err
	case errors.As(err, &functionErr):
		return nil, s.userError(template, functionErr.Err.Error(), err)
	case err != nil:
		return nil, err
	}
	if s.options.GuardReferences && HasReference(result) && s.originOf(template).FromRequest {
		reason := errors.New("a value from the request would become a BOSH reference")
		return nil, &fault.UserError{
			Message: fmt.Sprintf("the value of %q would contain \"((\", which is not allowed", owner),
			Err:     &diag.PositionError{Pos: template.Pos(), Err: reason},
		}
	}
	return result, nil
}

// Holds evaluates a condition and reports whether it is true, as expr.Truthy does: an empty list or map and "",
// which is also the value of a null variable, are false, and texts such as "1", "true", "0" and "false" count by
// their meaning. A nil condition is true. The owner is the name under which values that the condition generates are
// stored.
//
// With an error the result is false. The error is that of Eval if the condition cannot be evaluated, and a
// *diag.PositionError if its value is neither true nor false, such as the text "maybe".
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
		return false, withPos(err, condition)
	}
	return holds, nil
}

// Text evaluates an expression and returns the value as text: a scalar as it is, JSON for a list or map, and "" for
// null. Generated values are stored under the owner, the name of the input that the expression computes or another name
// (see Generated). Text returns "" and an error if the expression cannot be evaluated; see Eval.
func (s *Scope) Text(owner string, template *expr.Template) (string, error) {
	result, err := s.Eval(owner, template)
	if err != nil {
		return "", err
	}
	return value.Text(result), nil
}

// Require evaluates checks in order until the first that is not true, and returns nil if all are true. Otherwise it
// returns an error with the message of that check: a *fault.UserError if the audience of the check is the user,
// otherwise a *diag.PositionError for the operator at the position of the check. If a check or its message cannot be
// evaluated, Require stops and returns an error that wraps that of Holds or Text.
//
// owner is the name of the section of the checks, such as "bind.requires". It appears in the errors of checks that
// cannot be evaluated. Values that the checks generate are stored under it in s.Generated, so a later evaluation with
// Options.Carried finds them only under the same owner.
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
		return &diag.PositionError{Pos: check.Pos, Err: errors.New(message)}
	}
	return nil
}

// With returns a new scope with further constants and functions by name, which take precedence over those of s; nil
// adds none. Variables, their origins, Unresolved, the generated values and the counter are shared with s, so setting
// a variable in one scope sets it in both. The names of the deployed parameters (see DependsOnDeployed) are those
// that s has at the time of the call. s is not changed.
func (s *Scope) With(constants map[string]any, functions map[string]expr.Function) *Scope {
	extended := *s
	extended.options.Constants = value.Merge(s.options.Constants, constants)
	extended.options.Functions = value.Merge(s.options.Functions, functions)
	return &extended
}

// scope returns the scope of package expr for evaluating an expression of the owner, the name of the input that the
// expression computes or another name (see Generated). It refers to the variables of s and does not copy them. In
// such an evaluation, a call of a generating function has the result that Options.Carried contains for the call and
// the owner, and otherwise a new one, for which counter.next advances the counter. Either is stored in s.Generated
// under the owner.
func (s *Scope) scope(owner string) *expr.Scope {
	return &expr.Scope{
		Variables: s.Values,
		Constants: s.options.Constants,
		Functions: s.options.Functions,
		Env:       s.options.Environment.Env,
		Config:    s.options.Environment.Config,
		Counter:   func() int64 { *s.counter++; return *s.counter },
		Generate: func(call string, create func() (any, error)) (any, error) {
			return s.generate(owner, call, create)
		},
	}
}

// generate returns the result of a call of a function that generates values, such as "rand.base64#1", in an
// expression of the owner, the name of the input that the expression computes or another name (see Generated). If
// Options.Carried contains a result of the call for the owner, it is used again; otherwise create generates a new
// one. Either is recorded in s.Generated. If create fails, generate returns nil and its error and records no result.
//
// generate does not look up s.Generated: without a result in Options.Carried, a second evaluation of the same call of
// the same owner calls create again, and the new result replaces the recorded one.
func (s *Scope) generate(owner, call string, create func() (any, error)) (any, error) {
	result, ok := s.options.Carried[owner][call]
	if !ok {
		var err error
		if result, err = create(); err != nil {
			return nil, err
		}
	}
	if s.Generated[owner] == nil {
		s.Generated[owner] = map[string]any{}
	}
	s.Generated[owner][call] = result
	return result, nil
}

// NamesOf returns the declarations of a scope's constants and functions by name, with which expr.Template.Check reports
// names that are not declared. Of a constant, only the name and whether it is a map matter: a map declares the variable
// NAME, which has the type Map, and every variable below it (NAME.key); any other value, such as a text, declares only
// the variable NAME, of any type. Both maps may be nil, and a nil one declares no names.
func NamesOf(constants map[string]any, functions map[string]expr.Function) expr.Names {
	names := expr.Names{Functions: functions, Types: map[string]expr.Type{}}
	for _, name := range value.Keys(constants) {
		switch constants[name].(type) {
		case map[string]any:
			names.Prefixes = append(names.Prefixes, name)
			names.Types[name] = expr.Map
		default:
			names.Variables = append(names.Variables, name)
		}
	}
	return names
}
