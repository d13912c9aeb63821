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
	RunSpecs(t, "internal/vars")
}

// values are variables by name.
type values = map[string]any

// definition is the position of the expressions of the specs.
var definition = diag.Pos{File: "redis.yml", Line: 7, Column: 14}

// template parses a valid expression.
func template(text string) *expr.Template {
	GinkgoHelper()
	parsed, err := expr.Parse(expr.Source{Text: text, Pos: definition})
	Expect(err).NotTo(HaveOccurred())
	return parsed
}

// input returns a user input. A default that is a string is an expression; nil means no default.
func input(name, typ string, standard any) brokerpak.Variable {
	GinkgoHelper()
	v := brokerpak.Variable{Name: name, Type: typ, Pos: definition}
	v.Default, v.HasDefault = standard, standard != nil
	if text, ok := standard.(string); ok {
		v.DefaultExpr = template(text)
	}
	return v
}

// computed returns a computed input. A value that is a string is an expression.
func computed(name, typ string, overwrite bool, item any) brokerpak.Variable {
	GinkgoHelper()
	c := brokerpak.Variable{Name: name, Type: typ, Pos: definition}
	c.Default, c.Overwrite = item, overwrite
	if text, ok := item.(string); ok {
		c.DefaultExpr = template(text)
	}
	return c
}
