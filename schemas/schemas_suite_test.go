package schemas_test

import (
	"errors"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/fault"
	"service-adapter/internal/value"
)

func TestSchemas(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Schemas")
}

// userMessage returns the message of a UserError, or "" for nil. Any other error fails the test.
func userMessage(err error) string {
	GinkgoHelper()
	if err == nil {
		return ""
	}
	var user *fault.UserError
	Expect(errors.As(err, &user)).To(BeTrue(), "not for the user: %v", err)
	return user.Message
}

// object decodes a JSON object.
func object(text string) map[string]any {
	GinkgoHelper()
	decoded, err := value.DecodeObject([]byte(text))
	Expect(err).NotTo(HaveOccurred())
	return decoded
}

// input returns the variable n of a definition, at line 7.
func input(typeName, constraints string) brokerpak.Variable {
	GinkgoHelper()
	v := brokerpak.Variable{
		Name: "n", Type: typeName, Details: "the details",
		Pos: diag.Pos{File: "definitions/redis.yml", Line: 7, Column: 5},
	}
	if constraints != "" {
		v.Constraints = object(constraints)
	}
	return v
}

func template(text string) *expr.Template {
	GinkgoHelper()
	parsed, err := expr.Parse(expr.Source{Text: text})
	Expect(err).NotTo(HaveOccurred())
	return parsed
}

func enum(values ...any) []brokerpak.EnumValue {
	var list []brokerpak.EnumValue
	for _, v := range values {
		list = append(list, brokerpak.EnumValue{Value: v, Description: "one"})
	}
	return list
}
