package paktest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

// anything stands in an expected text for what differs from run to run.
const anything = "<any>"

// compare holds the outcome against what the case expects.
func (r *run) compare(failure error) error {
	expect := r.testCase.Expect
	if expect.Error != "" || failure != nil {
		if failure != nil && expect.Error == "" {
			return failure
		}
		if !matches(expect.Error, r.outcome.Error) {
			return fmt.Errorf("expected the error %q, found %q", expect.Error, r.outcome.Error)
		}
		return nil
	}
	var failed []error
	if expect.Manifest != nil {
		failed = append(failed, differences("manifest", expect.Manifest, r.outcome.Manifest)...)
	}
	if expect.Outputs != nil {
		failed = append(failed, differences("outputs", expect.Outputs, r.outcome.Outputs)...)
	}
	if expect.Binding != nil {
		failed = append(failed, differences("binding", expect.Binding, r.outcome.Binding)...)
	}
	return errors.Join(failed...)
}

// differences lists where two values differ, by path.
func differences(path string, expected, found any) []error {
	switch e := expected.(type) {
	case map[string]any:
		f, ok := found.(map[string]any)
		if !ok {
			break
		}
		var all []error
		for _, key := range value.Keys(e) {
			if item, ok := f[key]; ok {
				all = append(all, differences(path+"/"+key, e[key], item)...)
			} else {
				all = append(all, fmt.Errorf("%s/%s is missing", path, key))
			}
		}
		for _, key := range value.Keys(f) {
			if _, ok := e[key]; !ok {
				all = append(all, fmt.Errorf("%s/%s is not expected: %s", path, key, value.Text(f[key])))
			}
		}
		return all
	case []any:
		f, ok := found.([]any)
		if !ok || len(f) != len(e) {
			break
		}
		var all []error
		for i := range e {
			all = append(all, differences(fmt.Sprintf("%s/%d", path, i), e[i], f[i])...)
		}
		return all
	case string:
		if f, ok := found.(string); ok && matches(e, f) || e == anything {
			return nil
		}
	default:
		if expected == found {
			return nil
		}
	}
	return []error{fmt.Errorf("%s: expected %s, found %s", path, value.MustJSON(expected), value.MustJSON(found))}
}

// matches compares texts; <any> stands for any text.
func matches(expected, found string) bool {
	if !strings.Contains(expected, anything) {
		return expected == found
	}
	parts := strings.Split(expected, anything)
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	pattern, err := regexp.Compile(`(?s)^` + strings.Join(parts, ".*") + `$`)
	return err == nil && pattern.MatchString(found)
}

// Update rewrites the case's file with what the case gave. Expected texts with <any> that still match are kept.
func Update(testCase Case, outcome Expectation) error {
	if testCase.File == "" {
		return errors.New("an example expects nothing; write a file in tests/")
	}
	if outcome.Error != "" {
		outcome.Manifest, outcome.Outputs, outcome.Binding = nil, nil, nil
	}
	if matches(testCase.Expect.Error, outcome.Error) {
		outcome.Error = testCase.Expect.Error
	}
	outcome.Manifest, _ = keep(testCase.Expect.Manifest, outcome.Manifest).(map[string]any)
	outcome.Outputs, _ = keep(testCase.Expect.Outputs, outcome.Outputs).(map[string]any)
	outcome.Binding, _ = keep(testCase.Expect.Binding, outcome.Binding).(map[string]any)
	testCase.Expect = outcome
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(testCase), encoder.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", testCase.File, err)
	}
	return os.WriteFile(testCase.File, out.Bytes(), 0o644) //nolint:gosec // a source file of the author
}

// keep puts expected texts with <any> back where they match.
func keep(expected, found any) any {
	switch f := found.(type) {
	case map[string]any:
		e, _ := expected.(map[string]any)
		for key := range f {
			f[key] = keep(e[key], f[key])
		}
	case []any:
		e, _ := expected.([]any)
		for i := range f {
			if i < len(e) {
				f[i] = keep(e[i], f[i])
			}
		}
	case string:
		if e, ok := expected.(string); ok && matches(e, f) {
			return e
		}
	}
	return found
}
