package expr_test

import (
	"encoding/json"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
)

// A recorded is a case that was executed with the reference broker.
type recorded struct {
	ID         string
	Group      string
	Definition string
	Volatile   bool
	Steps      []struct {
		Op       string
		Body     json.RawMessage
		Response json.RawMessage
	}

	service struct {
		Plans []struct {
			Properties map[string]any
		}
		Provision struct{ Template string }
		Bind      struct {
			ComputedInputs []struct {
				Name, Type string
				Default    any
			} `yaml:"computed_inputs"`
		}
	}
	// credentials are the credentials that the bind returned, or nil if it failed.
	credentials map[string]any
}

// different contains the results that differ from those of the reference broker by design, by the ID of the case: the
// resulting text, or a part of the error. Each comment says what the reference broker returned.
var different = map[string]string{
	"hil-truncate-utf8-whole": "aé日",                        // counts bytes
	"hil-rand-negative":       "count must not be negative", // does not answer
	"hil-config-non-string":   "false",                      // does not answer
	// This case and the next five: cannot index a map with values of several types.
	"hil-json-map":           `{"k1":"v1","k2":"v2"}`,
	"hil-flatten-map":        "k1:v1;k2:v2",
	"hil-details-number":     "5",
	"hil-details-float":      "1.5",
	"hil-details-bool-false": "0",
	"hil-details-object":     `{"k":"v","n":"1"}`,
	"hil-escape":             "${literal}",          // OpenTofu evaluates the text again
	"hil-builtin-upper":      "A",                   // does not have the function
	"cast-number-s-max":      "9223372036854775807", // rounds to a double
	"hil-param-big-int":      "p=12345678901234567890",
}

var _ = It("agrees with the cases recorded with the reference broker", func() {
	cases := readRecorded()
	details := map[string]map[string]any{}
	for _, c := range cases {
		if c.credentials != nil {
			details[c.provisionTemplate()] = c.credentials
		}
	}
	evaluated := 0
	for _, c := range cases {
		computed := c.service.Bind.ComputedInputs
		if c.Volatile || len(computed) != 1 || c.ID == "hil-request-originating-identity" ||
			strings.HasPrefix(c.ID, "hil-real-subst") {
			continue
		}
		text, ok := computed[0].Default.(string)
		if !ok {
			continue
		}
		evaluated++
		By(c.ID)
		got, err := evaluate(text, computed[0].Type, c.scope(details[c.provisionTemplate()]))
		expected, differs := different[c.ID]
		switch {
		case differs && err != nil:
			Expect(err).To(MatchError(ContainSubstring(expected)), c.ID)
		case differs:
			Expect(value.Text(got)).To(Equal(expected), c.ID)
		case c.credentials == nil:
			Expect(err).To(HaveOccurred(), c.ID)
		default:
			Expect(err).NotTo(HaveOccurred(), c.ID)
			vars, err := value.DecodeObject([]byte(c.credentials["vars"].(string)))
			Expect(err).NotTo(HaveOccurred(), c.ID)
			Expect([]any{got}).To(Equal([]any{vars["out"]}), c.ID)
		}
	}
	Expect(evaluated).To(BeNumerically(">", 200))
})

// readRecorded returns the recorded cases about expressions.
func readRecorded() []recorded {
	GinkgoHelper()
	text, err := os.ReadFile("../../spec/semantics/testdata/semantics.jsonl")
	Expect(err).NotTo(HaveOccurred())
	var cases []recorded
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var c recorded
		Expect(json.Unmarshal([]byte(line), &c)).To(Succeed())
		if c.Group != "hil" && c.Group != "cast" {
			continue
		}
		Expect(yaml.Unmarshal([]byte(c.Definition), &c.service)).To(Succeed())
		answer, err := value.DecodeJSON(c.Steps[len(c.Steps)-1].Response)
		Expect(err).NotTo(HaveOccurred())
		if object, ok := answer.(map[string]any); ok {
			c.credentials, _ = object["credentials"].(map[string]any)
		}
		cases = append(cases, c)
	}
	return cases
}

// provisionTemplate returns the provision template without its first line, which contains the ID of the case. Cases
// with the same template have the same instance details.
func (c recorded) provisionTemplate() string {
	_, template, _ := strings.Cut(c.service.Provision.Template, "\n")
	return template
}

// scope returns the scope in which the broker evaluated the bind's expressions. The credentials must be those of a
// successful bind to an instance with the same provision template; they contain the instance's details.
func (c recorded) scope(credentials map[string]any) *expr.Scope {
	details := value.CloneMap(credentials)
	delete(details, "vars")
	var provisioned struct{ Operation string }
	Expect(json.Unmarshal(c.Steps[0].Response, &provisioned)).To(Succeed())
	body, err := value.DecodeObject(c.Steps[len(c.Steps)-1].Body)
	Expect(err).NotTo(HaveOccurred())
	context, _ := body["context"].(map[string]any)
	variables := vars{
		"request.plan_properties": value.Normalise(c.service.Plans[0].Properties),
		"request.context":         context,
		"request.instance_id":     strings.Split(provisioned.Operation, ":")[1],
		"request.app_guid":        "",
		"instance.name":           "",
		"instance.details":        details,
	}
	parameters, _ := body["parameters"].(map[string]any)
	for name, parameter := range parameters {
		variables[name] = parameter
	}
	return &expr.Scope{
		Variables: variables,
		Env: func(name string) (string, bool) {
			variable, ok := map[string]string{
				"ORACLE_SET": "env value", "ORACLE_EMPTY": "",
				"ORACLE_SPACES": "  sp ",
			}[name]
			return variable, ok
		},
		Config: func(key string) (any, bool) {
			setting, ok := vars{
				"oracle.mapped": " mapped value\n", "oracle.empty": "", "db.port": int64(3306),
				"db.custom_certs.tls_skip_verify": false,
			}[key]
			return setting, ok
		},
	}
}

// evaluate returns the value of an expression, cast to a JSON type.
func evaluate(text, typ string, scope *expr.Scope) (any, error) {
	template, err := expr.Parse(expr.Source{Text: text})
	if err != nil {
		return nil, err
	}
	result, err := template.Eval(scope)
	if err != nil {
		return nil, err
	}
	return expr.Cast(result, typ)
}
