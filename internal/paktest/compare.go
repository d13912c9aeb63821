package paktest

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"service-adapter/adapter"
	"service-adapter/brokerpak/instance"
	"service-adapter/internal/value"
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
