package expr_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

func TestExpr(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "brokerpak/expr")
}

// parse parses a valid text, which starts at line 12, column 10 of svc.yml.
func parse(text string) *expr.Template {
	GinkgoHelper()
	template, err := expr.Parse(expr.Source{Text: text, Pos: diag.Pos{File: "svc.yml", Line: 12, Column: 10}})
	Expect(err).NotTo(HaveOccurred())
	return template
}

// vars are variables by name.
type vars = map[string]any

// scopeOf returns a scope with only these variables.
func scopeOf(variables vars) *expr.Scope { return &expr.Scope{Variables: variables} }
