package semantics_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
)

// published is the file of cases whose results docs/compatibility.md counts.
const published = "semantics.jsonl"

// recorded is a case that was played through the reference broker.
type recorded struct {
	ID         string
	Group      string
	Note       string
	Definition string
	// Env and ProcessEnv are the operator's environment for the case.
	Env        map[string]string
	ProcessEnv map[string]string `json:"process_env"`
	Steps      []step
	// Volatile marks a case whose values differ every time; Unstable are the places of such values.
	Volatile bool
	Unstable []string

	// file is the name of the file that has the case.
	file string
}

// step is one request of a case and how the reference broker answered it.
type step struct {
	Op string
	// Body is the request, an object. A JSON text holds the request as it was sent, where a decoder would have changed
	// it; some recordings have that text beside the body.
	Body    json.RawMessage
	Raw     string `json:"raw"`
	RawBody string `json:"raw_body"`
	BodyRaw string `json:"body_raw"`
	// BindingID is the binding's id where the recording tells it.
	BindingID string `json:"binding_id"`
	Status    int
	Response  json.RawMessage
	// LastOperation is how an asynchronous step ended.
	LastOperation struct{ State string } `json:"last_operation"`

	// refused is a part of what the adapter must say, in cases of our own.
	refused string
}

// caseComment is the line with which each template names its case. Without it, equal templates are prepared once.
var caseComment = regexp.MustCompile(`# case: \S+ (provision|bind)(\\n|\n)`)

// readRecorded returns the cases of every file of cases in testdata.
func readRecorded() []recorded {
	files, err := filepath.Glob("testdata/*.jsonl")
	Expect(err).NotTo(HaveOccurred())
	var cases []recorded
	seen := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		for line := range strings.Lines(string(text)) {
			if strings.TrimSpace(line) == "" {
				continue
			}
			c := recorded{file: filepath.Base(file)}
			Expect(json.Unmarshal([]byte(line), &c)).To(Succeed(), file)
			Expect(seen).NotTo(HaveKey(c.ID), "%s has it as well", seen[c.ID])
			seen[c.ID] = file
			if bound := answers[c.ID].Bound; bound != "" {
				c.Steps = append(c.Steps, c.bindStep(bound))
			}
			c.Definition = caseComment.ReplaceAllString(c.Definition, "$2")
			cases = append(cases, c)
		}
	}
	return cases
}

// bindStep is a bind to the instance that the first step made.
func (c recorded) bindStep(credentials string) step {
	var ids struct {
		Service string `json:"service_id"`
		Plan    string `json:"plan_id"`
	}
	Expect(json.Unmarshal(c.Steps[0].Body, &ids)).To(Succeed())
	return step{
		Op: "bind", Body: fmt.Appendf(nil, `{"service_id": %q, "plan_id": %q}`, ids.Service, ids.Plan),
		Status: http.StatusCreated, Response: fmt.Appendf(nil, `{"credentials": %s}`, credentials),
	}
}

// request is the JSON body of a step's request, "" when it has none.
func (c recorded) request(number int) (string, error) {
	s := c.Steps[number]
	if text, ok := answers[c.ID].Bodies[number]; ok {
		return text, nil
	}
	for _, text := range []string{s.Raw, s.RawBody, s.BodyRaw} {
		if text != "" {
			return text, nil
		}
	}
	var text string
	switch {
	case json.Unmarshal(s.Body, &text) == nil && text != "":
		return text, nil
	case len(s.Body) > 0 && string(s.Body) != "null":
		return string(s.Body), nil
	case s.Op == "unbind":
		return "", nil // the Open Service Broker API has none there
	default:
		return "", fmt.Errorf("the recording has no request: put it under `bodies` of testdata/answers.yml")
	}
}

// id matches what the reference broker and its platform use as ids.
var id = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// instanceID is the id that the reference broker had given to the instance; some expressions use it.
func (c recorded) instanceID() string {
	var answer struct{ Operation string }
	if err := json.Unmarshal(c.Steps[0].Response, &answer); err == nil {
		if parts := strings.Split(answer.Operation, ":"); len(parts) == 3 {
			return parts[1]
		}
	}
	return "instance-" + c.ID
}

// bindingID is the id of the binding of a step; some expressions use it. Where the recording does not tell it, it is
// the one id in its answers that nothing else explains. One case has one binding then.
func (c recorded) bindingID(number int) string {
	if given := c.Steps[number].BindingID; given != "" {
		return given
	}
	known := c.Definition + c.instanceID()
	for _, s := range c.Steps {
		known += string(s.Body) + s.Raw + s.RawBody + s.BodyRaw
	}
	for _, s := range c.Steps {
		for _, found := range id.FindAllString(string(s.Response), -1) {
			if s.Op == "bind" && !strings.Contains(known, found) {
				return found
			}
		}
	}
	return "binding-" + c.ID
}

// accepted tells whether the reference broker did what was asked for.
func (s step) accepted() bool {
	return s.Status >= 200 && s.Status < 300 && s.LastOperation.State != "failed"
}

// unstable tells whether the variables of a bind differ every time.
func (c recorded) unstable(number int) bool {
	return c.Volatile || slices.Contains(c.Unstable, fmt.Sprintf("[%d].response.body.credentials.vars", number))
}
