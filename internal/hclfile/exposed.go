package hclfile

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"service-adapter/internal/diag"
)

// An Exposure is a variable whose value becomes a part of a command line, which all users of a machine may read.
type Exposure struct {
	Variable string // NAME of var.NAME
	Argument string // the argument with the command line: command, interpreter, program, or one of lifecycle_commands
	Pos      diag.Pos
}

// Exposures returns the variables whose values become parts of the command lines in the resources and data sources of a
// template, directly or by local values, in the order of the names of the files. Each argument with a command line
// lists a variable once. files maps the names of the template's files to their texts. Conditions, comparisons and
// functions that do not show the value, such as sha256, do not count, and neither does what a command reads from its
// environment. The result is nil if there are none.
func Exposures(files map[string]string) []Exposure {
	names := slices.Sorted(maps.Keys(files))
	in := exposureSearch{locals: map[string]hclsyntax.Expression{}}
	for _, name := range names {
		for _, block := range topBlocks(name, files[name]) {
			if block.Type == "locals" {
				for local, attribute := range block.Body.Attributes {
					in.locals[local] = attribute.Expr
				}
			}
		}
	}
	for _, name := range names {
		for _, block := range topBlocks(name, files[name]) {
			if block.Type == "resource" || block.Type == "data" {
				in.block(block)
			}
		}
	}
	return in.found
}

// An exposureSearch collects the exposures of a template.
type exposureSearch struct {
	locals map[string]hclsyntax.Expression
	found  []Exposure
}

// block appends the exposures in a block and in the blocks within it to s.found. The block must be in a resource or
// data source.
func (s *exposureSearch) block(block *hclsyntax.Block) {
	for _, name := range slices.Sorted(maps.Keys(block.Body.Attributes)) {
		if block.Type != commandBlock && !slices.Contains(commandArguments, name) {
			continue
		}
		expression := block.Body.Attributes[name].Expr
		for _, variable := range s.shown(expression, nil) {
			at := expression.Range()
			s.found = append(s.found, Exposure{Variable: variable, Argument: name, Pos: position(&at, "")})
		}
	}
	for _, inner := range block.Body.Blocks {
		s.block(inner)
	}
}

// shown returns the names of the variables whose values become a part of the value of an expression, sorted, each once.
// seen are the local values that are being evaluated already.
func (s *exposureSearch) shown(expression hclsyntax.Expression, seen []string) []string {
	var names []string
	for _, traversal := range shownTraversals(expression) {
		if len(traversal) < 2 {
			continue
		}
		attribute, ok := traversal[1].(hcl.TraverseAttr)
		switch {
		case !ok:
		case traversal.RootName() == "var":
			names = append(names, attribute.Name)
		case traversal.RootName() == "local" && s.locals[attribute.Name] != nil &&
			!slices.Contains(seen, attribute.Name):
			names = append(names, s.shown(s.locals[attribute.Name], append(seen, attribute.Name))...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// concealing are functions whose result does not show the value of their arguments.
var concealing = []string{ //nolint:gochecknoglobals // a constant table
	"can", "filemd5", "length", "md5", "sha1", "sha256", "sha512", "base64sha256", "base64sha512",
}

// shownTraversals returns the references whose values become a part of the value of an expression. They are references
// themselves, and those in interpolations, parentheses, lists, values of objects, both results of a condition, and
// arguments of functions that are not concealing. Expressions of other kinds, such as comparisons, have none.
func shownTraversals(expression hclsyntax.Expression) []hcl.Traversal {
	var parts []hclsyntax.Expression
	switch e := expression.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return []hcl.Traversal{e.Traversal}
	case *hclsyntax.TemplateExpr:
		parts = e.Parts
	case *hclsyntax.TemplateWrapExpr:
		parts = []hclsyntax.Expression{e.Wrapped}
	case *hclsyntax.ParenthesesExpr:
		parts = []hclsyntax.Expression{e.Expression}
	case *hclsyntax.TupleConsExpr:
		parts = e.Exprs
	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			parts = append(parts, item.ValueExpr)
		}
	case *hclsyntax.ConditionalExpr:
		parts = []hclsyntax.Expression{e.TrueResult, e.FalseResult}
	case *hclsyntax.FunctionCallExpr:
		if !slices.Contains(concealing, e.Name) {
			parts = e.Args
		}
	}
	var all []hcl.Traversal
	for _, part := range parts {
		all = append(all, shownTraversals(part)...)
	}
	return all
}
