package expr

import (
	"strings"

	"github.com/hashicorp/hil/ast"
)

// simple parses a text of one line that holds variables and nothing else in its ${...}, and every text without a dollar sign, to the
// nodes that HIL makes of it. Most texts of a definition are such ones, and HIL starts a goroutine for each text and waits for it at
// each token. It is not ok for all other texts. FuzzSimple holds both against each other.
func simple(text string) (root ast.Node, ok bool) {
	if !strings.Contains(text, "$") {
		return &ast.LiteralNode{Value: text, Typex: ast.TypeString, Posx: column(1)}, true
	}
	output := &ast.Output{Posx: column(1)}
	for at := 0; at < len(text); {
		literal, expression, found := strings.Cut(text[at:], "${")
		if strings.ContainsFunc(literal, func(r rune) bool { return r < ' ' || r > '~' || r == '$' }) {
			return nil, false // columns are counted in characters
		}
		if literal != "" {
			output.Exprs = append(output.Exprs, &ast.LiteralNode{Value: literal, Typex: ast.TypeString, Posx: column(at + 1)})
		}
		if !found {
			break
		}
		at += len(literal) + len("${")
		name, _, closed := strings.Cut(expression, "}")
		if !closed || !isName(name) {
			return nil, false
		}
		output.Exprs = append(output.Exprs, &ast.VariableAccess{Name: name, Posx: column(at + 1)})
		at += len(name) + len("}")
	}
	return output, true
}

func column(number int) ast.Pos { return ast.Pos{Line: 1, Column: number} }

// isName tells whether a text is certainly the name of a variable: ASCII letters, digits and underscores, and after the first letter
// also hyphens and dots.
func isName(text string) bool {
	if text == "" || text == "true" || text == "false" || strings.ContainsAny(text[:1], "0123456789-.") {
		return false
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	})
}
