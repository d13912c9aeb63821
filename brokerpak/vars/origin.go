package vars

import (
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

// origin is where the value of an expression comes from, itself and through the variables that it reads.
func (s *Scope) origin(template *expr.Template) Origin {
	found := Origin{Pos: template.Pos(), Expression: template.Text()}
	for _, call := range template.Calls() {
		found.Calls = append(found.Calls, call.Name)
	}
	for _, ref := range template.References() {
		found.FromRequest = found.FromRequest || strings.HasPrefix(ref.Name, "request.")
		for name := range ref.Names() {
			read := s.Origins[name]
			found.FromRequest = found.FromRequest || read.FromRequest || name == "uaa_client"
			found.Parameters = append(found.Parameters, read.Parameters...)
			found.Calls = append(found.Calls, read.Calls...)
		}
	}
	for _, names := range []*[]string{&found.Parameters, &found.Calls} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return found
}

// readsFailed tells whether an expression reads a variable, or a part of one, that has no value here.
func (s *Scope) readsFailed(template *expr.Template) bool {
	for _, ref := range template.References() {
		for name := range ref.Names() {
			if s.Failed[name] != nil {
				return true
			}
		}
	}
	return false
}
