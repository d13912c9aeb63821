package vars

import (
	"slices"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

// An Origin describes how the value of a variable was determined: the layer that set it, the text of the expression
// that was evaluated, and its position. FromRequest means that the value depends on the request, so that a user
// controls it. Parameters and Calls are the names of the user's parameters, which include the sticky inputs that an
// instance keeps, and of the functions on which the value depends, directly or through other variables. A field that
// does not apply, such as the expression of a literal, is empty. The zero Origin stands for a variable that is not
// set. A variable in Scope.Unresolved is not set either, but has the origin of its expression.
type Origin struct {
	// Layer is the name of the layer that set the variable, such as PlanLayer, or, for a variable in Scope.Unresolved,
	// of the layer of its expression. It is "" for any other variable that is not set.
	Layer string
	// Pos is the position of the default, the computed input or the plan input of a bind action. It is zero for values
	// that are neither.
	Pos diag.Pos
	// Expression is the text that was evaluated; "" for a literal.
	Expression string
	// FromRequest means that the value depends on the request, so that a user controls it.
	FromRequest bool
	// Parameters are the names of the user's parameters on which the value depends, also through other variables.
	Parameters []string
	// Calls are the names of the functions on which the value depends, also through other variables.
	Calls []string
}

// CallsAny reports whether the value depends on a call of at least one of the named functions, such as "config",
// directly or through other variables. It returns false if no function is named.
func (o Origin) CallsAny(functions ...string) bool {
	return slices.ContainsFunc(o.Calls, func(name string) bool { return slices.Contains(functions, name) })
}

// OperatorFunctions returns a new list of the names of the functions that read the configuration or the environment,
// which the operator controls: config, config.find and env.
func OperatorFunctions() []string { return []string{"config", "config.find", "env"} }

// originOf returns the origin of the value of an expression, with an empty Layer. Pos and Expression are the
// position and the text of the expression. Calls are the functions that the expression calls and those in the
// origins of the variables that it reads; Parameters are the ones in these origins. A variable without an origin in
// the scope contributes none. FromRequest is true if it is true for one of these variables, or if the expression
// reads a variable whose name begins with "request.", the variable uaa_client, or a field of it, such as
// uaa_client.client_id. Parameters and Calls are sorted and have no repetitions; they are nil if empty. The template
// is not evaluated and must not be nil.
func (s *Scope) originOf(template *expr.Template) Origin {
	origin := Origin{Pos: template.Pos(), Expression: template.Text()}
	for _, call := range template.Calls() {
		origin.Calls = append(origin.Calls, call.Name)
	}
	for _, ref := range template.References() {
		origin.FromRequest = origin.FromRequest || strings.HasPrefix(ref.Name, "request.")
		for name := range ref.Names() {
			variable := s.Origins[name]
			origin.FromRequest = origin.FromRequest || variable.FromRequest || name == "uaa_client"
			origin.Parameters = append(origin.Parameters, variable.Parameters...)
			origin.Calls = append(origin.Calls, variable.Calls...)
		}
	}
	for _, names := range []*[]string{&origin.Parameters, &origin.Calls} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return origin
}

// readsUnresolved reports whether an expression reads a variable, or an element of one, that is in s.Unresolved, the
// variables that could not be evaluated because the operator has not set a value. The expression is not evaluated.
func (s *Scope) readsUnresolved(template *expr.Template) bool {
	for _, ref := range template.References() {
		for name := range ref.Names() {
			if s.Unresolved[name] != nil {
				return true
			}
		}
	}
	return false
}
