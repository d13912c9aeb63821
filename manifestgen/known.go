package manifestgen

import (
	"maps"

	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/vars"
)

// Known returns what provision expressions may use besides inputs, for checks without a request. The names of the previous
// deployment are among them, although only checks and the update block may use them.
func Known() expr.Known { return known(nil) }

// KnownOfInstance returns what the other expressions of provision.bosh may use: those names and the outputs of the provision
// template.
func KnownOfInstance() expr.Known { return known(map[string]any{detailsConstant: map[string]any{}}) }

func known(additional map[string]any) expr.Known {
	w := &generation{Generator: &Generator{}}
	constants, functions := w.constants(), w.functions()
	further, more := w.previousNames()
	maps.Copy(constants, further)
	maps.Copy(constants, additional)
	maps.Copy(functions, more)
	return vars.Known(constants, functions)
}
