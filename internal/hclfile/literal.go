package hclfile

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// literal returns the text of an expression that is a string literal, "" for any other.
func literal(expression hcl.Expression) string {
	value, diags := expression.Value(nil)
	if diags.HasErrors() || value.IsNull() || !value.IsKnown() || value.Type() != cty.String {
		return ""
	}
	return value.AsString()
}

// isTrue tells whether an expression is the literal true.
func isTrue(expression hcl.Expression) bool {
	value, diags := expression.Value(nil)
	return !diags.HasErrors() && !value.IsNull() && value.IsKnown() && value.Type() == cty.Bool && value.True()
}
