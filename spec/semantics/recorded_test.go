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

// published is the file with the cases that docs/compatibility.md counts.
const published = "semantics.jsonl"

// A recorded is a case that was recorded with the reference broker.
type recorded struct {
	ID         string
	Group      string
	Note       string
	Definition string
	// Env and ProcessEnv are the operator's environment for the case.
	Env        map[string]string
	ProcessEnv map[string]string `json:"process_env"`
	Steps      []step
	// Volatile marks a case with values that differ in every run. Unstable contains the paths of such values.
	Volatile bool
	Unstable []string

	// file is the name of the file that contains the case.
	file string
}

// A step is a request of a case and the answer of the reference broker.
type step struct {
	Op string
	// Body is the request, an object. A JSON text contains the request as it was sent, if a decoder would have changed
	// it. Some recordings contain this text next to the body.
	Body    json.RawMessage
	Raw     string `json:"raw"`
	RawBody string `json:"raw_body"`
	BodyRaw string `json:"body_raw"`
	// BindingID is the id of the binding, and "" if the recording does not contain it.
	BindingID string `json:"binding_id"`
	Status    int
	Response  json.RawMessage
	// LastOperation is the result of an asynchronous step.
	LastOperation struct{ State string } `json:"last_operation"`

	// refused is a part of the adapter's required message, in the cases of this project.
	refused string
}

// caseComment matches the line with which each template names its case. Equal templates share a prepared directory if
// this line is removed.
var caseComment = regexp.MustCompile(`# case: \S+ (provision|bind)(\\n|\n)`)

// readRecorded returns the cases of all files testdata/*.jsonl.
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

// bindStep returns a bind to the instance that the first step created, which must return these credentials.
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

// request returns the JSON body of a step's request, and "" for a step without one. It returns an error if the
// recording lacks the body.
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
		return "", nil // the Open Service Broker API defines no body for the other operations
	default:
		return "the recording has no request: add it under `bodies` in testdata/answers.yml",
			fmt.Errorf("the recording has no request: put it under `bodies` of testdata/answers.yml")
	}
}

// id matches the ids that the reference broker and its platform generate.
var id = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// instanceID returns the id of the instance in the recording, which some expressions use.
func (c recorded) instanceID() string {
	var answer struct{ Operation string }
	if err := json.Unmarshal(c.Steps[0].Response, &answer); err == nil {
		if parts := strings.Split(answer.Operation, ":"); len(parts) == 3 {
			return parts[1]
		}
	}
	return "instance-" + c.ID
}

// bindingID returns the id of a step's binding, which some expressions use. If the recording does not contain it, it is
// the only id in the answers that has no other origin; such a case has one binding.
func (c recorded) bindingID(number int) string {
	if recordedID := c.Steps[number].BindingID; recordedID != "" {
		return recordedID
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

// accepted reports whether the reference broker fulfilled the request.
func (s step) accepted() bool {
	return s.Status >= 200 && s.Status < 300 && s.LastOperation.State != "failed"
}

// unstable reports whether the variables of a bind differ in every run.
func (c recorded) unstable(number int) bool {
	return c.Volatile || slices.Contains(c.Unstable, fmt.Sprintf("[%d].response.body.credentials.vars", number))
}
