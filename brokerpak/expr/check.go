package expr

import (
	"slices"
	"strings"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// Names declares the variables and functions that a template may use, in addition to the standard functions, for
// Template.Check. It contains names of variables, prefixes of names, functions by name, and the types of variables
// that always have the same type. A prefix declares the variable with its own name and every dotted name below it. A
// variable with a type must be declared as well. A standard function takes precedence over a declared one with the
// same name. The zero Names declares no variables and only the standard functions.
type Names struct {
	// Variables are the names of variables.
	Variables []string
	// Prefixes are the names of map variables with unknown keys. Every dotted name below them is accepted:
	// "request.context" allows "request.context" and "request.context.platform".
	Prefixes []string
	// Functions are declared by name. A standard function with the same name takes precedence.
	Functions map[string]Function
	// Types contains the types of the variables whose type is always the same. A scalar has the type String, because
	// scalar variables are texts; the other types are List and Map. A missing variable may have any type.
	Types map[string]Type
}

// Check checks the template without evaluating it. declared contains the variables and functions that the template may
// use. Check reports variables that are not declared, functions that are neither declared nor standard, calls with a
// wrong number of arguments, and type errors that would occur with every value, as far as they can be found without
// values; see typeCheck. The diagnostics are errors with the positions of the names or operations; there are no
// warnings. The list is never nil; it is empty if the template has no such problem.
func (t *Template) Check(declared Names) *diag.List {
	list := &diag.List{}
	variables := slices.Concat(declared.Variables, declared.Prefixes)
	for _, reference := range t.references {
		if !declared.admits(reference.Name) {
			suggestion, names := suggestOrList(reference.Name, variables)
			list.Errorf(reference.Pos, "unknown-variable", "unknown variable %q%s%s", reference.Name, suggestion, names)
		}
	}
	functions := value.Merge(declared.Functions, StandardFunctions())
	for _, call := range t.calls {
		function, ok := functions[call.Name]
		if !ok {
			suggestion, names := suggestOrList(call.Name, value.Keys(functions))
			list.Errorf(call.Pos, "unknown-function", "unknown function %q%s%s", call.Name, suggestion, names)
			continue
		}
		if err := function.checkArity(call.Name, len(call.Args)); err != nil {
			list.Errorf(call.Pos, "function-arguments", "%s; its arguments are %s", err, function.Signature())
		}
	}
	types := &typeCheck{template: t, declared: declared, functions: functions, list: list}
	types.infer(t.root)
	return list
}

// admits reports whether a template may read a variable with this name: it is one of n.Variables, or it equals one of
// n.Prefixes or continues it with a dot, as in "request.context.platform" for the prefix "request.context".
func (n Names) admits(name string) bool {
	if slices.Contains(n.Variables, name) {
		return true
	}
	return slices.ContainsFunc(n.Prefixes, func(prefix string) bool {
		rest, ok := strings.CutPrefix(name, prefix)
		return ok && (rest == "" || rest[0] == '.')
	})
}

// suggestOrList returns a hint for the message about an unknown name. If one of the declared names is similar,
// suggestion is `; did you mean "x"?` and names is "". Otherwise suggestion is "", and names is a clause with the
// declared names, "; known names: a, b", of which at most nine are listed, or "" if there are none.
func suggestOrList(name string, declared []string) (suggestion diag.Hint, names string) {
	if suggestion = diag.Suggest(name, declared); suggestion == "" && len(declared) > 0 {
		names = "; known names: " + diag.Names(declared)
	}
	return suggestion, names
}
