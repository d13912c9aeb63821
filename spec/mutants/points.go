package main

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// A point is a possible mistake: a text that replaces a part of a file.
type point struct {
	kind        string // describes the mistake in the table
	begin, end  int    // offsets in the file
	replacement string
}

// A finder collects the points of a declaration.
type finder struct {
	source *source
	points []point
}

// pointsOf returns the possible mistakes in a declaration. Texts of errors and logs are omitted, because a suite does
// not have to notice a change of their words.
func pointsOf(s *source, d declared) []point {
	f := &finder{source: s}
	ast.Inspect(d.body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.IfStmt:
			f.condition(n)
		case *ast.CaseClause:
			f.switchCase(n)
		case *ast.BinaryExpr:
			f.operator(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				f.add("a negation is dropped", n, f.text(n.X))
			}
		case *ast.ExprStmt:
			if call, isCall := n.X.(*ast.CallExpr); isCall && !f.isMessage(call) {
				f.add("a call is missing", n, "")
			}
		case *ast.DeferStmt:
			f.add("a deferred call is missing", n, "_ = "+f.text(n.Call.Fun))
		case *ast.AssignStmt:
			f.assignment(n)
		case *ast.ReturnStmt:
			f.returned(n, d.results)
		case *ast.BranchStmt:
			f.branch(n)
		case *ast.CompositeLit:
			f.fields(n)
		case *ast.CallExpr:
			if f.isMessage(n) {
				return false
			}
			if name, isName := n.Fun.(*ast.Ident); isName && name.Name == "append" {
				f.add("nothing is appended", n, f.text(n.Args[0]))
			}
		case *ast.Ident:
			f.boolean(n)
		case *ast.BasicLit:
			f.literal(n)
		}
		return true
	})
	return f.points
}

// text returns the source of a node.
func (f *finder) text(node ast.Node) string {
	return f.source.text[f.source.offset(node.Pos()):f.source.offset(node.End())]
}

// add adds a point that replaces a node.
func (f *finder) add(kind string, node ast.Node, replacement string) {
	f.points = append(f.points, point{
		kind: kind, begin: f.source.offset(node.Pos()), end: f.source.offset(node.End()), replacement: replacement,
	})
}

// isMessage reports whether a call builds an error or writes to a log.
func (f *finder) isMessage(call *ast.CallExpr) bool {
	selector, isSelector := call.Fun.(*ast.SelectorExpr)
	if !isSelector {
		return false
	}
	switch receiver := f.text(selector.X); selector.Sel.Name {
	case "Debug", "Info", "Warn", "Error", "Log":
		return strings.Contains(strings.ToLower(receiver), "log")
	case "Errorf":
		return true
	case "New":
		return receiver == "errors"
	default:
		return false
	}
}

// condition adds the mistakes of an if statement.
func (f *finder) condition(n *ast.IfStmt) {
	text := f.text(n.Cond)
	if comparison, isComparison := n.Cond.(*ast.BinaryExpr); isComparison && comparison.Op == token.NEQ &&
		f.text(comparison.Y) == "nil" && strings.HasSuffix(strings.ToLower(f.text(comparison.X)), "err") {
		f.add("an error is ignored", n.Cond, "false && "+text)
		return
	}
	f.add("a condition is negated", n.Cond, "!("+text+")")
	if len(n.Body.List) == 0 || n.Else != nil {
		return
	}
	switch n.Body.List[len(n.Body.List)-1].(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		f.add("an early end is dropped", n.Cond, "false && ("+text+")")
	}
}

// switchCase adds the mistake that a case with a condition is never chosen.
func (f *finder) switchCase(n *ast.CaseClause) {
	if len(n.List) != 1 {
		return
	}
	switch n.List[0].(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr:
		f.add("a case is never chosen", n.List[0], "false && ("+f.text(n.List[0])+")")
	}
}

// operator adds the mistakes of a comparison or another operation.
func (f *finder) operator(n *ast.BinaryExpr) {
	left, right := f.text(n.X), f.text(n.Y)
	replace := func(kind, operator string) { f.add(kind, n, left+" "+operator+" "+right) }
	switch n.Op {
	case token.LAND:
		replace("and became or", "||")
	case token.LOR:
		replace("or became and", "&&")
	case token.LSS:
		replace("a comparison is off by one", "<=")
	case token.LEQ:
		replace("a comparison is off by one", "<")
	case token.GTR:
		replace("a comparison is off by one", ">=")
	case token.GEQ:
		replace("a comparison is off by one", ">")
	case token.EQL:
		if right != "nil" {
			replace("a comparison is inverted", "!=")
		}
	case token.NEQ:
		if right != "nil" {
			replace("a comparison is inverted", "==")
		}
	case token.ADD:
		replace("a sum became a difference", "-")
	case token.SUB:
		replace("a difference became a sum", "+")
	}
}

// assignment adds the mistake that a variable, field or element keeps its former value.
func (f *finder) assignment(n *ast.AssignStmt) {
	if n.Tok == token.DEFINE || len(n.Lhs) != 1 {
		return
	}
	if name, isName := n.Lhs[0].(*ast.Ident); isName && name.Name == "_" {
		return
	}
	replacement := ""
	if strings.Contains(f.text(n.Rhs[0]), "(") {
		replacement = "_ = " + f.text(n.Rhs[0])
	}
	f.add("an assignment is missing", n, replacement)
}

// returned adds the mistake that a function returns no error, if it is written where the function returns.
func (f *finder) returned(n *ast.ReturnStmt, results *ast.FieldList) {
	if results == nil || len(n.Results) == 0 || f.text(results.List[len(results.List)-1].Type) != "error" {
		return
	}
	last := n.Results[len(n.Results)-1]
	if len(n.Results) == 1 && results.NumFields() > 1 || f.text(last) == "nil" {
		return
	}
	f.add("no error is returned", last, "nil")
}

// branch adds the mistake that a loop ends instead of continuing, or continues instead of ending.
func (f *finder) branch(n *ast.BranchStmt) {
	if n.Label != nil {
		return
	}
	switch n.Tok {
	case token.BREAK:
		f.add("a loop goes on", n, "continue")
	case token.CONTINUE:
		f.add("a loop ends", n, "break")
	}
}

// fields adds the mistakes that a field of a literal has its zero value.
func (f *finder) fields(n *ast.CompositeLit) {
	for _, element := range n.Elts {
		pair, isPair := element.(*ast.KeyValueExpr)
		if !isPair {
			continue
		}
		begin, end := f.source.offset(pair.Pos()), f.source.offset(pair.End())
		rest := f.source.text[end:]
		if trimmed := strings.TrimLeft(rest, " \t\n"); strings.HasPrefix(trimmed, ",") {
			end += len(rest) - len(trimmed) + 1
		}
		f.points = append(f.points, point{kind: "a field or key is missing", begin: begin, end: end})
	}
}

// boolean adds the mistakes of true and false.
func (f *finder) boolean(n *ast.Ident) {
	switch n.Name {
	case "true":
		f.add("true became false", n, "false")
	case "false":
		f.add("false became true", n, "true")
	}
}

// literal adds the mistakes of numbers and of texts that are single words.
func (f *finder) literal(n *ast.BasicLit) {
	switch n.Kind {
	case token.INT:
		if strings.HasPrefix(n.Value, "0o") {
			f.add("a mode is too wide", n, "0o777")
			return
		}
		number, err := strconv.Atoi(n.Value)
		if err == nil {
			f.add("a number is changed", n, strconv.Itoa(number+1))
		}
	case token.STRING:
		word, err := strconv.Unquote(n.Value)
		if err == nil && word != "" && !strings.ContainsAny(word, " \n") {
			f.add("a text is changed", n, strconv.Quote(word+"x"))
		}
	}
}
