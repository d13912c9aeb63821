package semantics_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The exit codes of the adapter. Each code other than exitFailure has a meaning for the broker.
const (
	exitFailure       = 1
	exitNotFound      = 41
	exitAppGUID       = 42
	exitAlreadyExists = 49
)

// An outcome is the result of a step.
type outcome struct {
	// leftOut is true if the broker did not call the adapter.
	leftOut bool
	// problem is an error of the test itself. It fails every expectation.
	problem error
	exit    int
	// said is the standard output and the standard error of a command that failed.
	said string
	// credentials is the JSON of the credentials that a bind returned.
	credentials json.RawMessage
}

// String describes the outcome for the message of a failure.
func (o outcome) String() string {
	switch {
	case o.leftOut:
		return "the adapter was not asked"
	case o.problem != nil:
		return o.problem.Error()
	case o.exit != 0:
		return fmt.Sprintf("exit %d: %s", o.exit, o.said)
	case o.credentials != nil:
		return "credentials " + string(o.credentials)
	default:
		return "done"
	}
}

// An expectation is the required result of a step.
type expectation struct {
	leftOut bool
	exit    int
	// says contains texts that must occur in the output of a command that fails.
	says []string
	// credentials is the JSON of the credentials that a bind must return. It is nil for other steps.
	credentials json.RawMessage
	// kinds is true if only the JSON types of the variables are compared, because the values differ in every run.
	kinds bool
}

// operations contains the requests for which the broker calls an adapter.
var operations = []string{"provision", "update", "bind", "unbind"}

// expectations returns the required results of all steps of a case. The broker does not call the adapter for an
// instance that was never deployed.
func (c recorded) expectations() ([]expectation, error) {
	all := make([]expectation, len(c.Steps))
	deployed := false
	for number, s := range c.Steps {
		created := s.Op == "provision" || s.Op == "update"
		if !slices.Contains(operations, s.Op) || !created && !deployed {
			all[number].leftOut = true
			continue
		}
		own, ok := c.own(number)
		if !ok {
			var err error
			if own, err = c.expectation(number); err != nil {
				return nil, err
			}
		}
		all[number] = own
		deployed = deployed || own.exit == 0
	}
	return all, nil
}

// expectation returns the recorded result of a step as the required one.
func (c recorded) expectation(number int) (expectation, error) {
	s := c.Steps[number]
	e := expectation{kinds: c.unstable(number)}
	switch {
	case !s.accepted():
		e.exit, e.says = s.exit(), s.reasons()
	case s.Op == "bind":
		var body struct{ Credentials json.RawMessage }
		if err := json.Unmarshal(s.Response, &body); err != nil {
			return e, fmt.Errorf("reading the recorded response: %w", err)
		}
		e.credentials = body.Credentials
	}
	return e, nil
}

// own returns the adapter's own required result of a step, and whether there is one.
func (c recorded) own(number int) (expectation, bool) {
	own, ok := answers[c.ID].Steps[number]
	e := expectation{kinds: c.unstable(number)}
	if own.Refused != "" {
		e.exit, e.says = exitFailure, []string{own.Refused}
	}
	if own.Credentials != "" {
		e.credentials = json.RawMessage(own.Credentials)
	}
	return e, ok
}

// exit returns the exit code that corresponds to an HTTP status of the reference broker.
func (s step) exit() int {
	switch s.Status {
	case http.StatusGone:
		return exitNotFound
	case http.StatusConflict:
		return exitAlreadyExists
	case http.StatusUnprocessableEntity:
		return exitAppGUID
	default:
		return exitFailure
	}
}

// reasons match the inputs or parameters that the reference broker names when it rejects a request.
var reasons = []*regexp.Regexp{
	regexp.MustCompile(`couldn't compute the value for "([^"]+)"`),
	regexp.MustCompile(`additional properties are not allowed: (.+)`),
	regexp.MustCompile(`plan defined properties cannot be changed: (.+)`),
	regexp.MustCompile(`error\(s\) occurred: (\w+): `),
}

// reasons returns the names that the adapter's message must contain as well.
func (s step) reasons() []string {
	if s.refused != "" {
		return []string{s.refused}
	}
	var body struct{ Description string }
	if json.Unmarshal(s.Response, &body) != nil {
		return nil // the connection was closed
	}
	for _, reason := range reasons {
		match := reason.FindStringSubmatch(body.Description)
		if match == nil || match[1] == "json" { // an error of a decoder, which names no input
			continue
		}
		var names []string
		for name := range strings.SplitSeq(match[1], ", ") {
			names = append(names, strconv.Quote(name))
		}
		return names
	}
	return nil
}

// difference describes how an outcome differs from the expectation. It returns "" if the outcome meets it.
func (e expectation) difference(got outcome) string {
	switch {
	case got.problem != nil:
		return got.problem.Error()
	case e.leftOut != got.leftOut:
		return fmt.Sprintf("asking the adapter: expected %v; %s", !e.leftOut, got)
	case e.leftOut:
		return ""
	case e.exit != got.exit:
		return fmt.Sprintf("expected exit code %d and credentials %s, got %s", e.exit, e.credentials, got)
	}
	for _, text := range e.says {
		if !strings.Contains(got.said, text) {
			return fmt.Sprintf("expected it to say %q, got %s", text, got)
		}
	}
	wanted, err := canonical(e.credentials, e.kinds)
	if err != nil {
		return err.Error()
	}
	actual, err := canonical(got.credentials, e.kinds)
	if err != nil {
		return err.Error()
	}
	if wanted != actual {
		return fmt.Sprintf("expected credentials %s, got %s", wanted, actual)
	}
	return ""
}

// canonical returns a JSON document in a canonical form, with every number as it was written. With kinds, the
// credential "vars", which is JSON itself, has the types of its values instead of the values.
func canonical(document json.RawMessage, kinds bool) (string, error) {
	if document == nil {
		return "", nil
	}
	decoded, err := decode(string(document))
	if err != nil {
		return "", err
	}
	if credentials, ok := decoded.(map[string]any); ok && kinds {
		text, _ := credentials["vars"].(string)
		variables, err := decode(text)
		if err != nil {
			return "", err
		}
		credentials["vars"] = types(variables)
	}
	encoded, err := json.Marshal(decoded)
	return string(encoded), err
}

// decode decodes JSON. Numbers keep all digits.
func decode(text string) (any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		return nil, fmt.Errorf("decoding %q: %w", text, err)
	}
	return decoded, nil
}

// types replaces the values of variables with their types.
func types(variables any) any {
	object, ok := variables.(map[string]any)
	if !ok {
		return fmt.Sprintf("%T", variables)
	}
	for name, item := range object {
		object[name] = fmt.Sprintf("%T", item)
	}
	return object
}
