package paktest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"

	"gopkg.in/yaml.v3"

	"service-adapter/adapter"
	"service-adapter/internal/yamltree"
)

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
