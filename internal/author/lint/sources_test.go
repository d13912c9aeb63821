package lint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// reporters are the functions that add a diagnostic; their second argument is the rule.
var reporters = []string{"Errorf", "Warnf", "failf", "errorf", "filled"}

var rulePattern = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// rulesInSource finds the rules that the product's code reports, by the place where it does.
func rulesInSource(root string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			if rule := ruleOf(node); rulePattern.MatchString(rule) {
				found[rule] = path
			}
			return true
		})
		return nil
	})
	return found, err
}

// ruleOf returns the rule in a call of a reporter or in a literal of a diagnostic.
func ruleOf(node ast.Node) string {
	switch n := node.(type) {
	case *ast.CallExpr:
		selector, ok := n.Fun.(*ast.SelectorExpr)
		if ok && slices.Contains(reporters, selector.Sel.Name) && len(n.Args) > 2 {
			return text(n.Args[1])
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Rule" {
			return text(n.Value)
		}
	}
	return ""
}

func text(node ast.Expr) string {
	literal, ok := node.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	unquoted, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return unquoted
}
