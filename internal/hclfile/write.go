package hclfile

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

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
