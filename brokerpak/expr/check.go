package expr

import (
	"slices"
	"strings"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// Known is what a template may use besides the standard functions.
type Known struct {
	Variables []string
	// Prefixes are names under which every dotted name is accepted, because the variable is a map whose keys nobody knows
	// beforehand: "request.context" admits "request.context" and "request.context.platform".
	Prefixes  []string
	Functions map[string]Function
	// Types are the types of those variables that always have the same: String for every scalar, since a variable's scalars
	// are texts, List or Map.
	Types map[string]Type
}

// Check reports what the template uses and is not known, without evaluating it: variables, functions, calls with the wrong
// number of arguments, and what has a type that cannot be used where it stands.
func (t *Template) Check(known Known) *diag.List {
	list := &diag.List{}
	variables := slices.Concat(known.Variables, known.Prefixes)
	for _, reference := range t.references {
		if !known.admits(reference.Name) {
			suggestion, names := hint(reference.Name, variables)
			list.Errorf(reference.Pos, "unknown-variable", "unknown variable %q%s%s", reference.Name, suggestion, names)
		}
	}
	functions := value.Merge(known.Functions, StandardFunctions())
	for _, call := range t.calls {
		function, ok := functions[call.Name]
		if !ok {
			suggestion, names := hint(call.Name, value.Keys(functions))
			list.Errorf(call.Pos, "unknown-function", "unknown function %q%s%s", call.Name, suggestion, names)
			continue
		}
		if err := function.checkArity(call.Name, len(call.Args)); err != nil {
			list.Errorf(call.Pos, "function-arguments", "%s; its arguments are %s", err, function.Signature())
		}
	}
	types := &typeCheck{template: t, known: known, functions: functions, list: list}
	types.infer(t.root)
	return list
}

func (k Known) admits(name string) bool {
	if slices.Contains(k.Variables, name) {
		return true
	}
	return slices.ContainsFunc(k.Prefixes, func(prefix string) bool {
		rest, ok := strings.CutPrefix(name, prefix)
		return ok && (rest == "" || rest[0] == '.')
	})
}

// hint proposes the nearest name, or lists all of them.
func hint(name string, known []string) (suggestion diag.Hint, names string) {
	if suggestion = diag.Suggest(name, known); suggestion == "" && len(known) > 0 {
		names = "; known are " + diag.Names(known)
	}
	return suggestion, names
}
