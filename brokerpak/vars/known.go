package vars

import (
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
)

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
