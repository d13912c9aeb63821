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

// parse parses a text that stands alone in svc.yml, from line 12, column 10 on.
func parse(text string) *expr.Template {
	GinkgoHelper()
	template, err := expr.Parse(expr.Source{Text: text, Pos: diag.Pos{File: "svc.yml", Line: 12, Column: 10}})
	Expect(err).NotTo(HaveOccurred())
	return template
}

type vars = map[string]any

func scopeOf(variables vars) *expr.Scope { return &expr.Scope{Variables: variables} }
