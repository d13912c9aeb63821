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

// recorded is a case that was played through the reference broker.
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
	// credentials are what the bind answered, nil when it failed.
	credentials map[string]any
}

// different holds the results that differ from the reference broker's by design: texts, or parts of an error.
var different = map[string]string{
	"hil-truncate-utf8-whole": "aé日",                        // there: counts bytes
	"hil-rand-negative":       "count must not be negative", // there: no answer
	"hil-config-non-string":   "false",                      // there: no answer
	"hil-json-map":            `{"k1":"v1","k2":"v2"}`,      // there and below: a map with values of several types cannot be indexed
	"hil-flatten-map":         "k1:v1;k2:v2",
	"hil-details-number":      "5",
	"hil-details-float":       "1.5",
	"hil-details-bool-false":  "0",
	"hil-details-object":      `{"k":"v","n":"1"}`,
	"hil-escape":              "${literal}",          // there: evaluated once more by OpenTofu
	"hil-builtin-upper":       "A",                   // there: no such function
	"cast-number-s-max":       "9223372036854775807", // there: rounded to a double
	"hil-param-big-int":       "p=12345678901234567890",
}

var _ = It("agrees with the cases recorded with the reference broker", func() {
	cases := readRecorded()
	details := map[string]map[string]any{}
	for _, c := range cases {
		if c.credentials != nil {
			details[c.provisionTemplate()] = c.credentials
		}
	}
	played := 0
	for _, c := range cases {
		computed := c.service.Bind.ComputedInputs
		if c.Volatile || len(computed) != 1 || c.ID == "hil-request-originating-identity" || strings.HasPrefix(c.ID, "hil-real-subst") {
			continue
		}
		text, ok := computed[0].Default.(string)
		if !ok {
			continue
		}
		played++
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
	Expect(played).To(BeNumerically(">", 200))
})

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

// provisionTemplate returns the provision template without its first line, which names the case.
func (c recorded) provisionTemplate() string {
	_, template, _ := strings.Cut(c.service.Provision.Template, "\n")
	return template
}

// scope returns what the bind's expressions saw. The credentials of any bind to such an instance show its details.
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
			found, ok := map[string]string{"ORACLE_SET": "env value", "ORACLE_EMPTY": "", "ORACLE_SPACES": "  sp "}[name]
			return found, ok
		},
		Config: func(key string) (any, bool) {
			found, ok := vars{
				"oracle.mapped": " mapped value\n", "oracle.empty": "", "db.port": int64(3306), "db.custom_certs.tls_skip_verify": false,
			}[key]
			return found, ok
		},
	}
}

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
