package hclfile

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// constant returns the value of an expression without variables, a null of no type for any other.
func constant(expression hcl.Expression) cty.Value {
	value, diags := expression.Value(nil)
	if diags.HasErrors() || value.IsNull() || !value.IsKnown() {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	return value
}

// literal returns the text of an expression that is a string literal, "" for any other.
func literal(expression hcl.Expression) string {
	if value := constant(expression); value.Type() == cty.String {
		return value.AsString()
	}
	return ""
}

// isSensitive tells whether a block says sensitive = true.
func isSensitive(block *hclsyntax.Block) bool {
	sensitive, ok := block.Body.Attributes["sensitive"]
	return ok && constant(sensitive.Expr).RawEquals(cty.True)
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
