package test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/instance"
	"service-adapter/internal/operate/manifestdiff"
	"service-adapter/internal/outfile"
	"service-adapter/internal/strictyaml"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// wildcard is the part of an expected text that matches any text. A value that is the wildcard alone matches any value.
const wildcard = "<any>"

// compare returns a mismatch if the outcome of a step or a case differs from the expected sections, and else nil. The
// text of the mismatch has one line for each difference. Both maps are keyed by section, such as "manifest". The
// values of a section are compared with wildcards and paths, as by differences. Sections that are missing in expect
// are not compared, and a section that is missing in outcome is a difference. A nil expect matches every outcome.
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

// A mismatch is the error for an outcome that differs from its expectation. The error that it embeds lists the
// differences. In a case with a file, a mismatch can be resolved by writing the outcome into the file as the new
// expectation; see Update. Of all other failures of a case, only some rejections can be resolved in this way; see
// Result.Updatable.
type mismatch struct{ error }

// differences returns an error with one line for each path at which two normalised values (see value.Normalise)
// differ: "PATH: expected JSON, found JSON", with "nothing" in place of a value that is missing or null. It returns
// nil if the values match. A key that only one of two mappings has is a difference, even if its value is null; lists
// are compared as by manifestdiff.Diff. path is the prefix of the paths, which have the notation of ops files.
//
// The wildcard <any> in an expected text matches any text. An expected text that is <any> alone matches any value,
// also null, but not a key that the actual mapping lacks. If an expected mapping is not empty and all its keys are
// paths, such as /instance_groups/name=a/vm_type, and the actual value is a mapping or a list, only the values at
// these paths are compared, which are those of valuesAt. A path without a value is nil there, so null and <any> alone
// match it.
func differences(path string, expected, actual any) error {
	var failed []error
	for _, change := range manifestdiff.Diff(path, expected, applyForm(expected, actual)) {
		location := strings.ReplaceAll(change.Path, "//", "/") // a path that is a key begins with a slash
		failed = append(failed, fmt.Errorf("%s: expected %s, found %s", location,
			formatValue(change.Deployed), formatValue(change.Generated)))
	}
	return errors.Join(failed...)
}

// formatValue returns a value as JSON for a message, and "nothing" for nil, which represents a value that is missing or
// null.
func formatValue(item any) string {
	if item == nil {
		return "nothing"
	}
	return string(value.MustJSON(item))
}

// children returns the entries of a mapping or a list by the token that selects them in a path of an ops file. For a
// mapping, the tokens are its keys, the entries are the mapping itself, and the result tokens is nil. For a list, a
// token is "name=NAME" for an entry with a name, and its index, such as "2", for an entry without a name or with the
// name of an earlier entry; the result tokens contains them in the order of the list and is not nil, even if it is
// empty. For any other value, both results are nil.
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

// isPaths reports whether all keys of an expected mapping begin with a slash. They are then paths of an ops file, such
// as "/instance_groups/name=a/vm_type", which select values at any depth. The result is false for an empty or nil
// mapping.
func isPaths(expected map[string]any) bool {
	for key := range expected {
		if !strings.HasPrefix(key, "/") {
			return false
		}
	}
	return len(expected) > 0
}

// valuesAt returns the values within actual at the paths that are the keys of the mapping paths, by path. The values
// of that mapping are not used. A path that is invalid, does not exist in actual or matches several elements has the
// value nil; see instance.View.GetRaw for paths with optional parts. The result has all the paths as keys.
func valuesAt(actual any, paths map[string]any) map[string]any {
	view := instance.View{Manifest: value.MustJSON(actual)} // a View finds paths in any YAML document
	values := map[string]any{}
	for path := range paths {
		values[path], _ = view.GetRaw(path)
	}
	return values
}

// matches reports whether a value is a text that equals an expected text. Each wildcard <any> in the expected text
// represents any text, also of several lines. The result is false for a value that is not a text.
func matches(expected string, actual any) bool {
	text, ok := actual.(string)
	parts := strings.Split(regexp.QuoteMeta(expected), wildcard)
	return ok && regexp.MustCompile(`(?s)^`+strings.Join(parts, ".*")+`$`).MatchString(text)
}

// applyForm returns an actual value in the form of the expected one, so that the two can be compared, and so that an
// updated expectation keeps its form. Entries of lists correspond by name, and without a name by index; see children.
// The result equals actual, except in two cases:
//
//   - Where an expected mapping has keys, all of which are paths of an ops file, and the actual value is a mapping or
//     a list, the result has the actual values at these paths by path. A path that is invalid or does not exist has
//     the value nil.
//   - Where an expected text matches because of a wildcard, the result contains that text instead of the actual value.
//     <any> alone matches any value, also the nil of a path that does not exist, but not a key that the actual mapping
//     lacks, because the result then lacks it as well.
//
// actual is not modified, but the result may share values with it.
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

// failureSections returns the names of the sections that only the outcome of a rejected request has: "error", "exit"
// and "operator_error".
func failureSections() []string { return []string{"error", "exit", "operator_error"} }

// Updatable reports whether Update can write the outcome of a case to its file. This is so if the case passed, or if
// its only failures are outcomes that differ from the expectation, and requests that were rejected in a way that an
// author can expect: with a message to the user, or in a case whose own expectation is a rejection. With any other
// failure, such as that of OpenTofu, of the server or of the removal of the resources, the case is not updatable,
// because its outcome may be incomplete. An example is not updatable either, because it has no file.
func (r Result) Updatable() bool {
	return r.Case.File != "" && (r.Err == nil || r.canExpect(r.Err))
}

// canExpect reports whether an expectation can describe all failures in err, a possibly wrapped or joined error of
// the case. These failures are a mismatch, a rejection with a message to the user and, if the expectation of the case
// itself is a rejection, any other rejection. No expectation can describe another failure, or one in a cleanUpError.
// The result is false for nil.
func (r Result) canExpect(err error) bool {
	switch failure := err.(type) { //nolint:errorlint // all errors of the tree are inspected, one by one
	case mismatch:
		return true
	case *rejection:
		return failure.user != "" || r.Case.Expect.Fails()
	case cleanUpError:
		return false
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(failure.Unwrap(), func(err error) bool { return !r.canExpect(err) })
	default:
		wrapped := errors.Unwrap(err)
		return wrapped != nil && r.canExpect(wrapped)
	}
}

// Update writes the outcome of a case to its file as the new expectation. For a rejected request, it writes the
// sections of a rejection, such as "error", and for any other outcome the other sections, such as "manifest"; see
// setExpect. Expected sections of the other kind, and those that the outcome lacks, are removed. Update considers the
// case and the steps that the file lists and that were played:
//   - A step with an expectation, even an empty one, gets those sections of the outcome that it already expects. If
//     it expects none of them, it gets the manifest, the outputs and the binding, or the message of a rejection.
//   - A step without an expectation is changed only if it was rejected. It gets the message of the rejection.
//   - The case is changed if it has an expectation of its own, or if no step gets sections. It gets its sections in
//     the same way as a step with an expectation.
//
// The other keys of the file and their comments are kept, though they may be formatted anew. Comments within a
// section that is replaced or removed are lost, and so are those of a file that contains nothing but comments. The
// new file replaces the old one and has its mode.
//
// The case must be Updatable. ctx does not interrupt the writing of a regular file. changed reports whether the text of
// the file changes, if only in its format; the file is not written if it does not.
//
// Update returns an error if the file cannot be read, is not valid YAML, or cannot be written, if a value cannot be
// encoded, or if a step is behind an alias or a merge key (<<), so that it has no expectation of its own. It then keeps
// the old file, unless only the last sync of its directory failed. changed may be true with an error.
func Update(ctx context.Context, result Result) (changed bool, err error) {
	info, err := os.Stat(result.Case.File)
	if err != nil {
		return false, err
	}
	text, err := os.ReadFile(result.Case.File)
	if err != nil {
		return false, err
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return false, fmt.Errorf("reading %s: %w", result.Case.File, err)
	}
	if len(document.Content) == 0 { // the file is empty
		document = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode}}}
	}
	if err := setExpectations(document.Content[0], result); err != nil {
		return false, err
	}
	updated, err := yamltree.Encode(&document) // the document has the comments at the beginning and end of the file
	if err != nil {
		return false, fmt.Errorf("writing %s: %w", result.Case.File, err)
	}
	if bytes.Equal(updated, text) {
		return false, nil
	}
	return true, outfile.Write(ctx, result.Case.File, info.Mode().Perm(), func(to io.Writer) error {
		_, err := to.Write(updated)
		return err
	})
}

// setExpectations sets the expectations of the steps and of the case to the outcomes of result; see Update for the
// choice. root is the root of the case file. setExpectations returns an error if an expectation is written elsewhere in
// the file, because of an alias or a merge key, or if a value cannot be encoded; root may be partly changed then.
func setExpectations(root *yaml.Node, result Result) error {
	shared := func(whose string) error {
		return fmt.Errorf("%s: the expectation of %s cannot be updated, because it is an alias or belongs to one; "+
			"replace the alias by the text of its anchor", result.Case.File, whose)
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
		if steps == nil || i >= len(steps.Content) || steps.Content[i].Kind != yaml.MappingNode ||
			sharesExpect(steps.Content[i], step.Expect.sections) {
			return shared(fmt.Sprintf("step %d", i+1))
		}
		if err := setExpect(steps.Content[i], step.Expect.sections, result.Outcomes[i]); err != nil {
			return err
		}
	}
	if byStep && result.Case.Expect.sections == nil {
		return nil
	}
	if sharesExpect(root, result.Case.Expect.sections) {
		return shared("the case")
	}
	return setExpect(root, result.Case.Expect.sections, mergeOutcomes(result.Outcomes))
}

// sharesExpect reports whether sections of the expectation of mapping, which is a step or the root of a case file,
// may be written elsewhere in the file: the value of the key "expect" is an alias or has a merge key (<<), or mapping
// has a merge key and no key "expect" of its own. sections are the sections of the expectation; without any, the
// result is false.
func sharesExpect(mapping *yaml.Node, sections map[string]any) bool {
	if len(sections) == 0 {
		return false
	}
	_, expect := yamltree.Get(mapping, "expect")
	if expect == nil {
		expect = mapping
	}
	merge, _ := yamltree.Get(expect, "<<")
	return expect.Kind == yaml.AliasNode || merge != nil
}

// setExpect sets the key "expect" of mapping, which is a step or the root of a case file, to sections of an outcome.
// expect is the expectation that the mapping has so far, by section; nil means none. For a rejected request, the
// sections are those of a rejection, and else all others. Those that expect contains are updated, in the form of the
// expected value (see applyForm), and all others are removed. If expect contains none of these sections, the new ones
// are manifest, outputs and binding, or for a rejection "error", the message to the user, or without one
// "operator_error". A section that is missing or null in outcome is left out; if no section remains, the value of
// "expect" is an empty mapping. setExpect returns an error if a value cannot be encoded as YAML; mapping may be
// partly changed then.
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
