package manifestgen

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// variableForm is what the BOSH library replaces; the name is its group.
var variableForm = regexp.MustCompile(`^\(\( ?!?([-/.\w\pL]+) ?\)\)$`)

// places finds where something stands in the documents that one result is made of: a template, then its ops files.
type places []brokerpak.Document

func (p places) of(text string) diag.Pos {
	for _, document := range p {
		at := strings.Index(document.Text, text)
		if at < 0 {
			continue
		}
		before := document.Text[:at]
		column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
		return document.At(strings.Count(before, "\n")+1, column)
	}
	return diag.Pos{File: p[0].Pos.File}
}

// inspection is the last operation on a template before the library interpolates it. It resolves keys, which the library does in
// random order, and refuses what the library does silently or explains badly.
type inspection struct {
	variables documentVariables
	places    places
	diags     *diag.List
}

// Apply inspects the document and returns it. The error is a diag.Errors.
func (i inspection) Apply(document any) (any, error) {
	i.diags = &diag.List{}
	i.declarations(document)
	i.walk("", document)
	return document, i.diags.Err()
}

func (i inspection) errorf(text, format string, args ...any) {
	i.diags.Errorf(i.places.of(text), "bosh-variable", format, args...)
}

// declarations refuses a declared variable with the name of an input or secret: interpolation would drop its declaration.
func (i inspection) declarations(document any) {
	root, _ := document.(map[any]any)
	list, _ := root["variables"].([]any)
	for _, item := range list {
		entry, _ := item.(map[any]any)
		name, _ := entry["name"].(string)
		if _, taken := i.variables.values[name]; taken {
			i.errorf("name: "+name, "variable %q under `variables:` has the name of an input or secret; rename one", name)
		}
	}
}

func (i inspection) walk(path string, node any) {
	switch item := node.(type) {
	case map[any]any:
		keys := i.keys(path, item)
		for _, key := range keys {
			i.walk(path+"/"+value.Text(value.Normalise(key)), item[key])
		}
	case []any:
		for n, element := range item {
			i.walk(path+"/"+strconv.Itoa(n), element)
		}
	case string:
		i.text(path, item)
	}
}

func sortedKeys(mapping map[any]any) []any {
	type named struct {
		key  any
		text string
	}
	keys := make([]named, 0, len(mapping))
	for key := range mapping {
		text, ok := key.(string)
		if !ok {
			text = fmt.Sprint(key)
		}
		keys = append(keys, named{key, text})
	}
	slices.SortFunc(keys, func(a, b named) int { return strings.Compare(a.text, b.text) })
	sorted := make([]any, len(keys))
	for n, item := range keys {
		sorted[n] = item.key
	}
	return sorted
}

// keys replaces variables in the keys of a mapping and returns the keys, sorted. Every key must become a text of its own.
func (i inspection) keys(path string, mapping map[any]any) []any {
	keys, changed := sortedKeys(mapping), false
	for _, key := range keys {
		text, ok := key.(string)
		if !ok || !i.text(path, text) || !strings.Contains(text, "((") {
			continue
		}
		resolved, err := i.interpolate(text)
		if err != nil {
			i.errorf(text, "the key %s at %s: %s", text, path, err)
			continue
		}
		if _, taken := mapping[resolved]; taken {
			i.errorf(text, "the key %s at %s becomes a key that is already there", text, path)
			continue
		}
		mapping[resolved] = mapping[key]
		delete(mapping, key)
		changed = true
	}
	if changed {
		return sortedKeys(mapping)
	}
	return keys
}

// interpolate resolves a key.
func (i inspection) interpolate(key string) (any, error) {
	source, err := yaml.Marshal(key)
	if err != nil {
		return nil, err
	}
	out, err := template.NewTemplate(source).Evaluate(i.variables, nil, template.EvaluateOpts{})
	if err != nil {
		return nil, err
	}
	var resolved any
	if err := yaml.Unmarshal(out, &resolved); err != nil {
		return nil, err
	}
	switch value.Normalise(resolved).(type) {
	case string, bool, int64, uint64:
	default:
		return nil, fmt.Errorf("a key must be a string, not %s", value.Kind(value.Normalise(resolved)))
	}
	plain := value.Text(unmask(unmask(value.Normalise(resolved), trustedOpen, trustedClose), userOpen, userClose))
	if strings.Contains(plain, "((") {
		return nil, fmt.Errorf("BOSH does not resolve references in keys")
	}
	return resolved, nil
}

// text checks the variables in a string of the template and tells whether all can be replaced or left to BOSH.
func (i inspection) text(path, text string) bool {
	if isMasked(text) {
		i.errorf(text, "the text at %s holds one of the characters U+E0F0 to U+E0F3, which the adapter reserves", path)
		return false
	}
	if !strings.Contains(text, "((") {
		return true
	}
	fine := true
	for _, found := range allReferences(text) {
		if fault := i.fault(found, found == text); fault != "" {
			i.errorf(found, "%s at %s %s", found, path, fault)
			fine = false
		}
	}
	return fine
}

// fault says what is wrong with a variable, as the end of a sentence; "" for nothing.
func (i inspection) fault(found string, whole bool) string {
	match := variableForm.FindStringSubmatch(found)
	if match == nil {
		return "is no BOSH variable: a name holds letters, digits and the characters - _ . / only"
	}
	if !whole && strings.Contains(found, " ") {
		return "is only replaced when it is the whole value; write it without blanks"
	}
	name, below, nested := strings.Cut(match[1], ".")
	item, ok := i.variables.values[name]
	if !ok {
		return "" // for BOSH; checkReferences looks whether it can
	}
	if nested {
		for _, key := range strings.FieldsFunc(below, func(r rune) bool { return r == '.' || r == '/' }) {
			if item, ok = child(item, key); !ok {
				return fmt.Sprintf("has no key %q: %s is %s", key, name, value.Kind(value.Normalise(i.variables.values[name])))
			}
		}
	}
	switch kind := value.Normalise(item).(type) {
	case string, int64, uint64:
		return ""
	default:
		if whole {
			return ""
		}
		return fmt.Sprintf("is %s, which BOSH cannot put into a text; make it the whole value, or a computed input of type string",
			value.Kind(kind))
	}
}

// child returns an entry of a list or mapping, as the library finds it.
func child(item any, key string) (any, bool) {
	switch parent := item.(type) {
	case map[any]any:
		element, ok := parent[key]
		return element, ok
	case []any:
		index, err := strconv.Atoi(key)
		if err != nil || index < 0 || index >= len(parent) {
			return nil, false
		}
		return parent[index], true
	default:
		return nil, false
	}
}
