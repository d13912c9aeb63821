package hclfile

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
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

// quoted returns a string literal.
func quoted(text string) string { return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes()) }

func tuple(elements []string) string { return "[" + strings.Join(elements, ", ") + "]" }

// object returns an object of arguments. Its keys are always quoted: not every identifier may stand there, such as "for".
func object(arguments []argument) string {
	if len(arguments) == 0 {
		return "{}"
	}
	var out strings.Builder
	out.WriteString("{\n")
	for _, a := range arguments {
		fmt.Fprintf(&out, "%s = %s\n", quoted(a.name), a.expression)
	}
	out.WriteString("}")
	return out.String()
}
