package binding

import (
	"service-adapter/brokerpak/expr"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
)

// Known returns what bind expressions may use besides inputs, for checks without a request.
func Known() expr.Known {
	r := &Request{Instance: &instance.View{}}
	return vars.Known(r.constants(nil), r.Instance.Functions())
}
