package vars

import (
	"iter"
	"slices"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

// Origin tells where the value of a variable came from.
type Origin struct {
	// Layer is the name of the layer.
	Layer string
	// Pos is the place of the default or computed input, Expression the text that was evaluated; "" for a literal.
	Pos        diag.Pos
	Expression string
	// FromRequest tells that the value holds something that a user controls.
	FromRequest bool
	// Parameters are the user's parameters that it was made of, Calls the functions that made it, both also through other variables.
	Parameters []string
	Calls      []string
}

// CallsAny tells whether any of the functions had a part in a value.
func (o Origin) CallsAny(functions ...string) bool {
	return slices.ContainsFunc(o.Calls, func(name string) bool { return slices.Contains(functions, name) })
}

// OfOperator are the functions that read the operator's world.
func OfOperator() []string { return []string{"config", "config.find", "env"} }

// callsOf are the names of the functions that an expression calls, itself or through other variables, sorted.
func (s *Scope) callsOf(template *expr.Template) []string {
	var names []string
	for _, call := range template.Calls() {
		names = append(names, call.Name)
	}
	for origin := range s.read(template) {
		names = append(names, origin.Calls...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// read yields the origins of the variables that an expression reads.
func (s *Scope) read(template *expr.Template) iter.Seq[Origin] {
	return func(yield func(Origin) bool) {
		for _, ref := range template.References() {
			for name := ref.Name; name != ""; name = parent(name) {
				if origin, known := s.Origins[name]; known && !yield(origin) {
					return
				}
			}
		}
	}
}

// parametersOf are the names of the user's parameters that an expression reads, itself or through other variables.
func (s *Scope) parametersOf(template *expr.Template) []string {
	var names []string
	for origin := range s.read(template) {
		names = append(names, origin.Parameters...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fromRequest tells whether an expression reads anything that a user controls.
func (s *Scope) fromRequest(template *expr.Template) bool {
	for _, ref := range template.References() {
		if strings.HasPrefix(ref.Name, "request.") || ref.Name == "uaa_client" || strings.HasPrefix(ref.Name, "uaa_client.") {
			return true
		}
	}
	for origin := range s.read(template) {
		if origin.FromRequest {
			return true
		}
	}
	return false
}

// readsFailed tells whether an expression reads a variable that has no value here.
func (s *Scope) readsFailed(template *expr.Template) bool {
	return slices.ContainsFunc(template.References(), func(ref expr.Reference) bool { return s.Failed[ref.Name] != nil })
}
