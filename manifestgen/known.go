package manifestgen

import (
	"maps"

	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/vars"
)

// Known returns what provision expressions may use besides inputs, for checks without a request. The names of the previous
// deployment are among them, although only checks and the update block may use them.
func Known() expr.Known {
	w := &generation{Generator: &Generator{}}
	constants, functions := w.constants(), w.functions()
	further, more := w.previousNames()
	maps.Copy(constants, further)
	maps.Copy(functions, more)
	return vars.Known(constants, functions)
}
