package hclfile

import (
	"maps"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"service-adapter/internal/diag"
)

// An Exposure states that the value of a variable becomes a part of a command line, which all users of a machine may
// read. It contains the name of the variable, the name of the argument with the command line, and the position of the
// argument's expression.
type Exposure struct {
	Variable string // NAME of var.NAME
	Argument string // the argument with the command line: command, interpreter, program, or one of lifecycle_commands
	Pos      diag.Pos
}

// Exposures returns the variables whose values become parts of the command lines in the resources and data sources of
// a template, either directly or by local values. files maps the names of the template's files to their texts, which
// are all read as native syntax. A command line is an argument command, interpreter or program, or any argument of a
// block lifecycle_commands. The result is in the order of the file names, then of the blocks; each argument lists a
// variable once. The result is nil if there are none. Files with syntax errors are read as far as possible, without
// an error.
//
// Exposures follows references var.NAME and local.NAME in interpolations, parentheses, lists, values of objects,
// results of conditions, and arguments of functions. It does not follow the arguments of functions that do not show the
// value, such as sha256, nor conditions and other kinds of expressions, such as comparisons and for expressions. Values
// that a command reads from its environment do not count.
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
	return in.exposures
}

// An exposureSearch collects the exposures of a template. It contains the expressions of all local values of the
// template by name, and the exposures so far. In the zero value, the template has no local values, so that references
// to them are ignored.
type exposureSearch struct {
	locals    map[string]hclsyntax.Expression
	exposures []Exposure
}

// block appends the exposures in a block and in the blocks within it to s.exposures: for each argument with a command
// line, one for each variable whose value becomes a part of the argument's value, directly or by the local values in
// s.locals, which must be set before. Variables that the argument only hashes or compares do not count; see shown. An
// argument with a command line is command, interpreter or program, or any argument of a block lifecycle_commands. The
// block must be a resource or data source, or a block within one.
func (s *exposureSearch) block(block *hclsyntax.Block) {
	for _, name := range slices.Sorted(maps.Keys(block.Body.Attributes)) {
		if block.Type != commandBlock && !slices.Contains(commandArguments, name) {
			continue
		}
		expression := block.Body.Attributes[name].Expr
		for _, variable := range s.shown(expression, nil) {
			at := expression.Range()
			s.exposures = append(s.exposures, Exposure{Variable: variable, Argument: name, Pos: position(&at, "")})
		}
	}
	for _, inner := range block.Body.Blocks {
		s.block(inner)
	}
}

// shown returns the names of the variables, NAME of var.NAME, whose values become a part of the value of an expression,
// directly or by local values. The names are sorted, each once; the result is nil if there are none. seen contains the
// names of the local values that are being followed already and must not be followed again, so that a cycle of local
// values ends; it is nil for the first call. References to undeclared local values are ignored.
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

// shownTraversals returns the references, such as var.size or local.name, whose values become a part of the value of an
// expression. They are an expression that is itself a reference, and those in interpolations, parentheses, lists,
// values of objects, both results of a condition, and arguments of functions, except the functions in concealing, such
// as sha256. Expressions of other kinds, such as comparisons, for expressions, splats and computed indexes, have none.
// The references are in source order and may be repeated; the result is nil if there are none.
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
