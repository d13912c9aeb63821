package expr

import "github.com/hashicorp/hil/ast"

// Simple shows simple to the tests.
func Simple(text string) (ast.Node, bool) { return simple(text) }
