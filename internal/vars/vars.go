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

// WithoutAnnotations returns a copy of a request's context without annotations. Expressions must not read them,
// according to the specification, because users write free text into them. The copy of a nil context is an empty map.
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

// An Environment gives expressions access to environment variables and to the adapter's configuration. Its functions
// return false if no value is set. A nil function means that no value is set.
type Environment struct {
	Env    func(name string) (string, bool)
	Config func(key string) (any, bool)
}

// Generated contains the results of rand.base64, time.nano and counter.next: by owner (see Scope.Eval) and by call
// ("rand.base64#1").
type Generated map[string]map[string]any

// A Scope contains the variables of one request while they are resolved, and evaluates expressions with them. NewScope
// returns one; the zero value is not usable. A Scope is not safe for concurrent use, not even together with the scopes
// that With derives from it.
type Scope struct {
	// Values contains the variables that have been resolved so far.
	Values map[string]any
	// Origins contains the origin of each variable.
	Origins map[string]Origin
	// Generated contains the generated values that the expressions used, both carried and new ones.
	Generated Generated
	// Unresolved contains the errors of variables that could not be evaluated. It is filled only with
	// Options.TolerateUnset.
	Unresolved map[string]error

	options  Options
	counter  *int64   // the last result of counter.next, shared with the scopes that With returns
	deployed []string // the parameters that the deployed instance already has
}

// Options configure a new Scope. The zero value of a field means that there are none, or that the behaviour is turned
// off.
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

// NewScope returns a scope without variables. Its counter continues after the highest carried number, or starts at 1.
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

// Set sets the variables of a layer, and replaces the values and origins of variables that are already set. layer is
// one of the layer names of this package; the values of ParameterLayer and StickyLayer count as controlled by the user.
// The values are neither evaluated nor copied. A null value counts as set.
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

// Defaults sets the defaults of inputs that no layer has set, in the order of the list. Defaults that are strings are
// evaluated as expressions and cast to the type of the input. An input without a default remains unset. Evaluation
// continues after an error; the errors are joined. See Assign for the errors.
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

// Computed sets the computed inputs, in the order of the list. An input that is already set is replaced only if it has
// overwrite. Evaluation continues after an error; the errors are joined. See Assign for the errors.
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

// assign sets a variable to the default of an input: to a copy of the literal, or to the value of the expression, cast
// to the input's type. layer is recorded as the origin of the value. See Assign for the errors, which contain the
// position of the expression.
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
	s.Values[name], s.Origins[name] = result, origin
	return nil
}

// userError converts an error about the value of an expression to a *fault.UserError if the user's parameters caused
// it. Otherwise it returns the error unchanged, as for an expression that calls a function of the scope or one that
// reads the configuration: such errors are for the operator. The reason becomes part of the message for the user.
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

// Assign sets a variable to the value of an expression, cast to the JSON type typ, as if it were a computed input. An
// existing value is replaced. It returns an error of Eval, or an error if the value cannot be cast; the variable then
// keeps its value.
//
// With Options.TolerateUnset, an error is not returned but recorded in Unresolved if its cause is a configuration value
// or environment variable that is not set, or a variable in Unresolved. The variable then loses its value.
func (s *Scope) Assign(name, typ string, template *expr.Template) error {
	variable := brokerpak.Variable{Name: name, Type: typ, Pos: template.Pos()}
	variable.DefaultExpr = template
	return s.assign(variable, ComputedLayer)
}

// withPos returns the error, which must not be nil, as a *diag.PositionError at the template, or unchanged if it
// already has a position.
func withPos(err error, template *expr.Template) error {
	if errors.As(err, new(*diag.PositionError)) {
		return err
	}
	return &diag.PositionError{Pos: template.Pos(), Err: err}
}

// Eval evaluates an expression with the constants and the variables that have been resolved so far. The owner is the
// name of the input or output that the expression computes; values that the expression generates are carried under it,
// and are added to s.Generated.
//
// If the user's parameters caused the error, it is a *fault.UserError. With Options.GuardReferences, a result that
// contains "((" and depends on the request is such an error. See expr.Template.Eval for other errors.
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

// Holds evaluates a condition and reports whether it is true. A nil condition is true. See expr.Truthy for the values
// that count as true or false; any other value is a *diag.PositionError. See Eval for the owner and other errors.
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

// Text evaluates an expression and returns the value as text: JSON for a list or map, and "" for null. See Eval for the
// owner and the errors.
func (s *Scope) Text(owner string, template *expr.Template) (string, error) {
	result, err := s.Eval(owner, template)
	if err != nil {
		return "", err
	}
	return value.Text(result), nil
}

// Require evaluates checks in order. It returns an error with the message of the first check that is not true: a
// *fault.UserError if the audience is the user, otherwise a *diag.PositionError for the operator. If a check or its
// message cannot be evaluated, Require stops and returns that error; see Holds. The owner is the section of the checks,
// for errors.
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

// With returns a scope with further constants and functions, which take precedence over those of s; nil adds none.
// Variables, their origins and errors, generated values and the counter are shared with s.
func (s *Scope) With(constants map[string]any, functions map[string]expr.Function) *Scope {
	extended := *s
	extended.options.Constants = value.Merge(s.options.Constants, constants)
	extended.options.Functions = value.Merge(s.options.Functions, functions)
	return &extended
}

// scope returns the scope for evaluating an expression of the owner; see Eval for the owner. Such an evaluation adds
// generated values to s.Generated, and each call of counter.next advances the counter.
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

// generate returns the result of a call of a function that generates values, such as rand.base64, in an expression of
// the owner; see Eval for the owner. If Options.Carried contains a result of the call, it is used again; otherwise
// create generates a new one. Either is recorded in Generated. If create fails, generate returns its error and records
// nothing.
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

// NamesOf returns the declarations of a scope's constants and functions for expr.Template.Check. Of a constant, only
// the name and whether it is a map matter; a map allows every key. Both arguments may be nil.
func NamesOf(constants map[string]any, functions map[string]expr.Function) expr.Names {
	known := expr.Names{Functions: functions, Types: map[string]expr.Type{}}
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
