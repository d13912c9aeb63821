package semantics_test

import (
	"net/http"
	"os"

	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

// A decision is a case written for this project that demonstrates a row of docs/compatibility.md.
type decision struct {
	Row string
	// Properties are the properties of the plan.
	Properties      map[string]any
	Provision, Bind map[string]any
	Steps           []struct {
		Op          string
		Body        map[string]any
		Refused     string
		Credentials map[string]any
	}
}

// The ids of the service and the plan of every decision.
const (
	decisionService = "6bbd9e8c-7b3c-4a3c-9d0f-0c9f2a0f4c11"
	decisionPlan    = "0f6d3a52-0f7a-4c67-8a1e-3f1b0a7d9e22"
)

// readDecisions returns the decisions as recorded cases.
func readDecisions() []recorded {
	text, err := os.ReadFile("testdata/decisions.yml")
	Expect(err).NotTo(HaveOccurred())
	var decisions []decision
	Expect(yaml.Unmarshal(text, &decisions)).To(Succeed())
	var cases []recorded
	for _, d := range decisions {
		cases = append(cases, d.recorded())
	}
	return cases
}

// recorded returns the decision as a recorded case.
func (d decision) recorded() recorded {
	link := "https://example.com"
	definition, err := yaml.Marshal(map[string]any{
		"version": 1, "name": d.Row, "id": decisionService, "description": d.Row, "display_name": d.Row,
		"image_url": link, "documentation_url": link, "support_url": link,
		"plans": []any{map[string]any{
			"name": "p", "id": decisionPlan, "description": "d", "display_name": "d", "properties": d.Properties,
		}},
		"provision": d.Provision, "bind": d.Bind,
	})
	Expect(err).NotTo(HaveOccurred())
	c := recorded{ID: "decision-" + d.Row, Group: "decision", Definition: string(definition)}
	for _, s := range d.Steps {
		body := map[string]any{"service_id": decisionService, "plan_id": decisionPlan}
		for name, item := range s.Body {
			body[name] = value.Normalise(item)
		}
		recordedStep := step{Op: s.Op, Body: value.MustJSON(body), Status: 200}
		recordedStep.Response = value.MustJSON(map[string]any{"credentials": value.Normalise(s.Credentials)})
		if s.Refused != "" {
			recordedStep.Status, recordedStep.refused = http.StatusBadRequest, s.Refused
		}
		c.Steps = append(c.Steps, recordedStep)
	}
	return c
}
