package semantics_test

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega"

	"service-adapter/internal/value"
)

// recorded is a case that was played through the reference broker.
type recorded struct {
	ID         string
	Group      string
	Note       string
	Definition string
	// Env is the operator's environment for the case.
	Env   map[string]string
	Steps []step
	// Volatile marks a case whose values differ every time; Unstable are the places of such values.
	Volatile bool
	Unstable []string
}

// step is one request of a case and how the reference broker answered it.
type step struct {
	Op       string
	Body     json.RawMessage
	Status   int
	Response json.RawMessage
	// LastOperation is how an asynchronous step ended.
	LastOperation struct{ State string } `json:"last_operation"`
}

// unrecorded are request bodies that the recording left out, because Python would have rounded the numbers in them.
var unrecorded = map[string]string{
	"val-big-number":  `{"parameters": {"n": 9007199254740993}, "bind_resource": {"app_guid": "app-1"}}`,
	"val-huge-number": `{"parameters": {"n": 1e400}, "bind_resource": {"app_guid": "app-1"}}`,
	"val-exp-integer": `{"parameters": {"n": 1e3}, "bind_resource": {"app_guid": "app-1"}}`,
}

// caseComment is the line with which each template names its case. Without it, equal templates are prepared once.
var caseComment = regexp.MustCompile(`# case: [a-z0-9-]+ (provision|bind)(\\n|\n)`)

func readRecorded() []recorded {
	text, err := os.ReadFile(repository("brokerpak", "testdata", "semantics.jsonl"))
	Expect(err).NotTo(HaveOccurred())
	var cases []recorded
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		var c recorded
		Expect(json.Unmarshal([]byte(line), &c)).To(Succeed())
		c.Definition = caseComment.ReplaceAllString(c.Definition, "$2")
		cases = append(cases, c)
	}
	return cases
}

// body is the JSON of a step's request.
func (c recorded) body(s step) string {
	if left, ok := unrecorded[c.ID]; ok && s.Op == "bind" {
		return left
	}
	return string(s.Body)
}

// instanceID is the id that the reference broker had given to the instance; some expressions use it.
func (c recorded) instanceID() string {
	var answer struct{ Operation string }
	if err := json.Unmarshal(c.Steps[0].Response, &answer); err == nil {
		if parts := strings.Split(answer.Operation, ":"); len(parts) == 3 {
			return parts[1]
		}
	}
	return "refused-" + c.ID
}

// accepted tells whether the reference broker did what was asked for.
func (s step) accepted() bool {
	return s.Status >= 200 && s.Status < 300 && s.LastOperation.State != "failed"
}

// compare returns how an outcome differs from what was recorded for a step of the case, "" when it does not.
func (c recorded) compare(i int, got outcome) string {
	s := c.Steps[i]
	switch {
	case s.accepted() && got.err != nil:
		return fmt.Sprintf("it was accepted, now: %v", got.err)
	case !s.accepted() && got.err == nil:
		return fmt.Sprintf("it was refused with %s, now: %s", s.Response, value.MustJSON(got.credentials))
	case s.Op == "unbind" && (s.Status == 410) != (got.exit == exitNotFound):
		return fmt.Sprintf("the status was %d, the exit code is %d", s.Status, got.exit)
	case !s.accepted() || s.Op != "bind":
		return ""
	}
	var answer struct{ Credentials json.RawMessage }
	if err := json.Unmarshal(s.Response, &answer); err != nil {
		return err.Error()
	}
	wanted, err := value.DecodeObject(answer.Credentials)
	if err != nil {
		return err.Error()
	}
	if c.unstable(i) {
		wanted["vars"], got.credentials["vars"] = kinds(wanted["vars"]), kinds(got.credentials["vars"])
	}
	if a, b := value.MustJSON(wanted), value.MustJSON(got.credentials); string(a) != string(b) {
		return fmt.Sprintf("the credentials were %s, now: %s", a, b)
	}
	return ""
}

// unstable tells whether the variables of a bind differ every time.
func (c recorded) unstable(i int) bool {
	return c.Volatile || slices.Contains(c.Unstable, fmt.Sprintf("[%d].response.body.credentials.vars", i))
}

// kinds replaces the values of recorded variables by their JSON types.
func kinds(variables any) any {
	text, _ := variables.(string)
	decoded, err := value.DecodeObject([]byte(text))
	if err != nil {
		return variables
	}
	result := map[string]any{}
	for name, item := range decoded {
		result[name] = value.Kind(item)
	}
	return result
}
