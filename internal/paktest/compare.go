package paktest

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

	"service-adapter/adapter"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// anything stands in an expected text for what differs from run to run.
const anything = "<any>"

// compare holds what came of something against what is expected of it, by section. The error names every difference.
func compare(expect, outcome map[string]any) error {
	var failed []error
	for _, section := range value.Keys(expect) {
		if found, ok := outcome[section]; ok {
			failed = append(failed, differences(section, expect[section], found))
		} else {
			failed = append(failed, fmt.Errorf("%s: expected %s, there is none", section, value.MustJSON(expect[section])))
		}
	}
	if err := errors.Join(failed...); err != nil {
		return mismatch{err}
	}
	return nil
}

// mismatch is what compare found.
type mismatch struct{ error }

// differences lists where two values differ, by paths as ops files have them.
func differences(path string, expected, found any) error {
	var failed []error
	for _, change := range adapter.Diff(path, expected, keep(expected, found)) {
		at := strings.ReplaceAll(change.Path, "//", "/") // a path that is a key begins with a slash
		failed = append(failed, fmt.Errorf("%s: expected %s, found %s", at, shown(change.Deployed), shown(change.Generated)))
	}
	return errors.Join(failed...)
}

func shown(item any) string {
	if item == nil {
		return "nothing"
	}
	return string(value.MustJSON(item))
}

// entries are those of a mapping, or those of a list by the steps that lead to them in the paths of ops files; nil for a scalar. Names
// are the steps of a list in its order, not nil.
func entries(of any) (all map[string]any, names []string) {
	list, ok := of.([]any)
	if !ok {
		all, _ = of.(map[string]any)
		return all, nil
	}
	all, names = map[string]any{}, []string{}
	for i, item := range list {
		step := strconv.Itoa(i)
		if entry, ok := item.(map[string]any); ok && entry["name"] != nil {
			step = "name=" + value.Text(entry["name"])
		}
		if _, twice := all[step]; twice {
			step = strconv.Itoa(i)
		}
		all[step], names = item, append(names, step)
	}
	return all, names
}

// isPaths tells whether an expected mapping has places of what is found instead of its keys.
func isPaths(expected map[string]any) bool {
	for key := range expected {
		if !strings.HasPrefix(key, "/") {
			return false
		}
	}
	return len(expected) > 0
}

// at are the values at paths; null where there is nothing.
func at(found any, paths map[string]any) map[string]any {
	view := instance.View{Manifest: value.MustJSON(found)} // any YAML will do
	all := map[string]any{}
	for path := range paths {
		all[path], _ = view.Find(path)
	}
	return all
}

// matches compares a text with one that was found; <any> stands for any text.
func matches(expected string, found any) bool {
	text, ok := found.(string)
	parts := strings.Split(regexp.QuoteMeta(expected), anything)
	return ok && regexp.MustCompile(`(?s)^`+strings.Join(parts, ".*")+`$`).MatchString(text)
}

// keep is what was found, in the form that is expected: with the same paths, and with expected texts with <any> that match.
func keep(expected, found any) any {
	e, _ := entries(expected)
	f, names := entries(found)
	text, isText := expected.(string)
	switch {
	case isText && (text == anything || matches(text, found)):
		return expected
	case f == nil:
		return found
	case isPaths(e):
		f, names = at(found, e), nil
	}
	made := map[string]any{}
	for key := range f {
		made[key] = keep(e[key], f[key])
	}
	if names == nil {
		return made
	}
	list := []any{}
	for _, name := range names {
		list = append(list, made[name])
	}
	return list
}

// failing are the sections of a refused request.
func failing() []string { return []string{"error", "exit", "operator_error"} }

// Updatable tells whether what a case gave can be written into its file: not where anything failed that nobody can mean to expect.
func (r Result) Updatable() bool {
	var refused *refusal
	switch {
	case r.Case.File == "":
		return false
	case errors.As(r.Err, &refused):
		return refused.user != "" || r.Case.Expect.Fails()
	default:
		return r.Err == nil || errors.As(r.Err, new(mismatch))
	}
}

// Update writes what a case gave into its file, and keeps everything else there: the sections that the case and its steps expect already, or,
// where there are none, manifest, outputs and binding, or the error. It reports whether the file is another one now.
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
		if step.line == 0 || i >= len(result.Outcomes) || step.Expect.sections == nil && result.Outcomes[i]["exit"] == nil {
			continue
		}
		byStep = true
		if err := setExpect(steps.Content[i], step.Expect.sections, result.Outcomes[i]); err != nil {
			return false, err
		}
	}
	if !byStep || result.Case.Expect.sections != nil {
		if err := setExpect(root, result.Case.Expect.sections, together(result.Outcomes)); err != nil {
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

// setExpect sets what a mapping of the file expects.
func setExpect(mapping *yaml.Node, expect, outcome map[string]any) error {
	sections, _ := adapter.FieldsOf(reflect.TypeFor[Expectation]())
	sections = slices.DeleteFunc(sections, func(section string) bool { return slices.Contains(failing(), section) })
	otherwise := []string{"manifest", "outputs", "binding"}
	if _, refused := outcome["exit"]; refused {
		sections, otherwise = failing(), []string{"error", "operator_error"}
		if outcome["error"] != nil {
			otherwise = []string{"error"}
		}
	}
	sections = slices.DeleteFunc(sections, func(section string) bool { return expect[section] == nil })
	if len(sections) == 0 {
		sections = otherwise
	}
	_, written := yamltree.Get(mapping, "expect")
	if written == nil || written.Kind != yaml.MappingNode {
		written = &yaml.Node{Kind: yaml.MappingNode}
		yamltree.Set(mapping, "expect", written)
	}
	for i := len(written.Content) - 2; i >= 0; i -= 2 {
		if name := written.Content[i].Value; !slices.Contains(sections, name) || outcome[name] == nil {
			written.Content = slices.Delete(written.Content, i, i+2)
		}
	}
	for _, section := range sections {
		if kept := keep(expect[section], outcome[section]); kept != nil && !reflect.DeepEqual(kept, expect[section]) {
			node := &yaml.Node{}
			if err := node.Encode(kept); err != nil {
				return err
			}
			yamltree.Set(written, section, node)
		}
	}
	return nil
}
