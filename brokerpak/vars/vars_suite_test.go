package vars_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

func TestVars(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "brokerpak/vars")
}

// values are variables by name.
type values = map[string]any

// definition is where the expressions of the specs stand.
var definition = diag.Pos{File: "redis.yml", Line: 7, Column: 14}

func template(text string) *expr.Template {
	GinkgoHelper()
	parsed, err := expr.Parse(expr.Source{Text: text, Pos: definition})
	Expect(err).NotTo(HaveOccurred())
	return parsed
}

// input is a user input whose default is an expression when it is a string; nil is no default.
func input(name, typ string, standard any) brokerpak.Variable {
	GinkgoHelper()
	v := brokerpak.Variable{Name: name, Type: typ, Default: standard, HasDefault: standard != nil, Pos: definition}
	if text, ok := standard.(string); ok {
		v.DefaultExpr = template(text)
	}
	return v
}

// computed is a computed input.
func computed(name, typ string, overwrite bool, item any) brokerpak.Variable {
	GinkgoHelper()
	c := brokerpak.Variable{Name: name, Type: typ, Overwrite: overwrite, Default: item, Pos: definition}
	if text, ok := item.(string); ok {
		c.DefaultExpr = template(text)
	}
	return c
}
