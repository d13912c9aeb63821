package test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/instance"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/strictyaml"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// wildcard is the part of an expected text that matches any text. A value that is the wildcard alone matches any value.
const wildcard = "<any>"

// compare returns a mismatch if the outcome of a step or a case differs from what is expected, and else nil. Its text
// has one line for each difference. Both maps are keyed by section; sections that only the outcome has are not
// compared.
func compare(expect, outcome map[string]any) error {
	var failed []error
	for _, section := range value.Keys(expect) {
		if actual, ok := outcome[section]; ok {
			failed = append(failed, differences(section, expect[section], actual))
		} else {
			failed = append(failed,
				fmt.Errorf("%s: expected %s, there is none", section, value.MustJSON(expect[section])))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return mismatch{err}
	}
	return nil
}

// A mismatch is the error for an outcome that differs from its expectation. Unlike any other failure of a case, it
// can be resolved by an update of the expectation.
type mismatch struct{ error }

// differences returns an error that lists the paths, in the notation of ops files, at which two values differ. It
// returns nil if they match. path is the prefix of the paths. A wildcard in an expected text matches any text, and an
// expected mapping whose keys are paths is compared only with the values at these paths; see applyForm.
func differences(path string, expected, actual any) error {
	var failed []error
	for _, change := range manifestdiff.Diff(path, expected, applyForm(expected, actual)) {
		location := strings.ReplaceAll(change.Path, "//", "/") // a path that is a key begins with a slash
		failed = append(failed, fmt.Errorf("%s: expected %s, found %s", location,
			formatValue(change.Deployed), formatValue(change.Generated)))
	}
	return errors.Join(failed...)
}

// formatValue returns a value as JSON for a message. nil is "nothing".
func formatValue(item any) string {
	if item == nil {
		return "nothing"
	}
	return string(value.MustJSON(item))
}

// children returns the entries of a mapping or a list by the token that selects them in a path of an ops file: a key,
// "name=NAME" or an index. The index is the token of a list entry without a name, and of one with the name of an
// earlier entry. For a list, tokens are these tokens in the order of the list, and not nil. For a mapping, tokens is
// nil. For a scalar, both results are nil.
func children(parent any) (entries map[string]any, tokens []string) {
	list, ok := parent.([]any)
	if !ok {
		entries, _ = parent.(map[string]any)
		return entries, nil
	}
	entries, tokens = map[string]any{}, []string{}
	for i, item := range list {
		token := strconv.Itoa(i)
		if entry, ok := item.(map[string]any); ok && entry["name"] != nil {
			token = "name=" + value.Text(entry["name"])
		}
		if _, duplicate := entries[token]; duplicate {
			token = strconv.Itoa(i)
		}
		entries[token], tokens = item, append(tokens, token)
	}
	return entries, tokens
}

// isPaths reports whether the keys of an expected mapping are paths of an ops file, such as
// "/instance_groups/name=a/vm_type", which select values at any depth. An empty mapping has no paths.
func isPaths(expected map[string]any) bool {
	for key := range expected {
		if !strings.HasPrefix(key, "/") {
			return false
		}
	}
	return len(expected) > 0
}

// valuesAt returns the values at the paths that are the keys of a mapping. The value of a path that does not exist is
// nil.
func valuesAt(actual any, paths map[string]any) map[string]any {
	view := instance.View{Manifest: value.MustJSON(actual)} // a View finds paths in any YAML document
	values := map[string]any{}
	for path := range paths {
		values[path], _ = view.GetRaw(path)
	}
	return values
}

// matches reports whether a value is a text that matches an expected text, which may contain wildcards.
func matches(expected string, actual any) bool {
	text, ok := actual.(string)
	parts := strings.Split(regexp.QuoteMeta(expected), wildcard)
	return ok && regexp.MustCompile(`(?s)^`+strings.Join(parts, ".*")+`$`).MatchString(text)
}

// applyForm returns an actual value in the form of the expected one, so that the two can be compared, and so that an
// updated expectation keeps its form. Where the keys of an expected mapping are paths, so are those of the result.
// Where an expected text with wildcards matches, the result contains that text instead of the actual one.
func applyForm(expected, actual any) any {
	expectedEntries, _ := children(expected)
	entries, tokens := children(actual)
	text, isText := expected.(string)
	switch {
	case isText && (text == wildcard || matches(text, actual)):
		return expected
	case entries == nil:
		return actual
	case isPaths(expectedEntries):
		entries, tokens = valuesAt(actual, expectedEntries), nil
	}
	formed := map[string]any{}
	for key := range entries {
		formed[key] = applyForm(expectedEntries[key], entries[key])
	}
	if tokens == nil {
		return formed
	}
	list := []any{}
	for _, token := range tokens {
		list = append(list, formed[token])
	}
	return list
}

// failureSections returns the sections that only the outcome of a rejected request has.
func failureSections() []string { return []string{"error", "exit", "operator_error"} }

// Updatable reports whether Update can write the outcome of a case to its file. This is so if the case passed, if its
// outcome differs from the expectation, or if a request was rejected in a way that an author can expect: with a
// message to the user, or in a case that expects a rejection. An example has no file and is not updatable.
func (r Result) Updatable() bool {
	var rejected *rejection
	switch {
	case r.Case.File == "":
		return false
	case errors.As(r.Err, &rejected):
		return rejected.user != "" || r.Case.Expect.Fails()
	default:
		return r.Err == nil || errors.As(r.Err, new(mismatch))
	}
}

// Update writes the outcome of a case to its file as the new expectation and reports whether the file changed. It
// writes the sections that the case and its steps already expect. If they expect none, it writes the manifest, the
// outputs and the binding, or the error of a rejected request. Everything else in the file is kept, though it may be
// formatted anew. The error is not nil if the file cannot be read, parsed or written. The case must be Updatable.
func Update(result Result) (changed bool, err error) {
	text, err := os.ReadFile(result.Case.File)
	if err != nil {
		return false, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return false, fmt.Errorf("reading %s: %w", result.Case.File, err)
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	if len(document.Content) > 0 {
		root = document.Content[0]
	}
	byStep := false
	_, steps := yamltree.Get(root, "steps")
	for i, step := range result.Case.Steps {
		if step.line == 0 || i >= len(result.Outcomes) {
			continue // the file has no such step, or it was not played
		}
		if step.Expect.sections == nil && result.Outcomes[i]["exit"] == nil {
			continue
		}
		byStep = true
		if err := setExpect(steps.Content[i], step.Expect.sections, result.Outcomes[i]); err != nil {
			return false, err
		}
	}
	if !byStep || result.Case.Expect.sections != nil {
		if err := setExpect(root, result.Case.Expect.sections, mergeOutcomes(result.Outcomes)); err != nil {
			return false, err
		}
	}
	updated, err := yamltree.Encode(root)
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", result.Case.File, err)
	}
	if bytes.Equal(updated, text) {
		return false, nil
	}
	return true, os.WriteFile(result.Case.File, updated, 0o644) //nolint:gosec // a source file of the author
}

// setExpect sets the key "expect" of a mapping, a step or the root of a case file, to the sections of an outcome that
// Update writes, and removes all others. expect is the expectation that the mapping has so far; nil means none.
// setExpect returns an error if a value cannot be written as YAML.
func setExpect(mapping *yaml.Node, expect, outcome map[string]any) error {
	sections, _ := strictyaml.Fields(reflect.TypeFor[Expectation]())
	sections = slices.DeleteFunc(sections, func(section string) bool {
		return slices.Contains(failureSections(), section)
	})
	defaults := []string{"manifest", "outputs", "binding"}
	if _, rejected := outcome["exit"]; rejected {
		sections, defaults = failureSections(), []string{"error", "operator_error"}
		if outcome["error"] != nil {
			defaults = []string{"error"}
		}
	}
	sections = slices.DeleteFunc(sections, func(section string) bool { return expect[section] == nil })
	if len(sections) == 0 {
		sections = defaults
	}
	_, expectNode := yamltree.Get(mapping, "expect")
	if expectNode == nil || expectNode.Kind != yaml.MappingNode {
		expectNode = &yaml.Node{Kind: yaml.MappingNode}
		yamltree.Set(mapping, "expect", expectNode)
	}
	for i := len(expectNode.Content) - 2; i >= 0; i -= 2 {
		if name := expectNode.Content[i].Value; !slices.Contains(sections, name) || outcome[name] == nil {
			expectNode.Content = slices.Delete(expectNode.Content, i, i+2)
		}
	}
	for _, section := range sections {
		updated := applyForm(expect[section], outcome[section])
		if updated != nil && !reflect.DeepEqual(updated, expect[section]) {
			node := &yaml.Node{}
			if err := node.Encode(updated); err != nil {
				return err
			}
			yamltree.Set(expectNode, section, node)
		}
	}
	return nil
}
