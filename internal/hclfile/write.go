package hclfile

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/zclconf/go-cty/cty"
)

// quoted returns a string literal.
func quoted(text string) string {
	text = cty.StringVal(text).AsString() // in the normal form of Unicode that OpenTofu gives strings
	var out strings.Builder
	out.WriteByte('"')
	for i, r := range text {
		switch {
		case r == '"', r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case (r == '$' || r == '%') && strings.HasPrefix(text[i+1:], "{"):
			out.WriteRune(r)
			out.WriteRune(r) // no template
		case unicode.IsPrint(r):
			out.WriteRune(r)
		case r < 1<<16:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

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
