package manifestgen

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// places finds where something stands in the documents that one result is made of: a template, then its ops files.
type places []brokerpak.Document

func (p places) of(text string) diag.Pos {
	for _, document := range p {
		if at := strings.Index(document.Text, text); at >= 0 {
			return document.AtByte(at)
		}
	}
	return diag.Pos{File: p[0].Pos.File}
}

// inspection is the last operation on a template before the library interpolates it. It resolves keys, which the library does in
// random order, and refuses what the library does silently or explains badly.
type inspection struct {
	variables variables
	places    places
	diags     *diag.List
}

// Apply returns the document with its keys resolved. The error is a diag.Errors.
func (i inspection) Apply(document any) (any, error) {
	tree := value.Normalise(document)
	i.declarations(tree)
	tree = i.walk("", tree)
	return value.AnyKeys(tree, nil), i.diags.Err()
}

func (i inspection) errorf(text, format string, args ...any) {
	i.diags.Errorf(i.places.of(text), "bosh-variable", format, args...)
}

// declarations refuses a declared variable with the name of an input or secret: interpolation would drop its declaration.
func (i inspection) declarations(tree any) {
	for _, name := range declaredVariables(tree) {
		if _, taken := i.variables[name]; taken {
			i.errorf("name: "+name, "variable %q under `variables:` has the name of an input or secret; rename one", name)
		}
	}
}

func (i inspection) walk(path string, node any) any {
	switch item := node.(type) {
	case map[string]any:
		i.keys(path, item)
		for _, key := range value.Keys(item) {
			item[key] = i.walk(path+"/"+key, item[key])
		}
	case []any:
		for n, element := range item {
			item[n] = i.walk(path+"/"+strconv.Itoa(n), element)
		}
	case string:
		if i.text(path, item) {
			return i.parts(item)
		}
	}
	return node
}

// stored is a reference to a credential that CredHub has already, masked. A template may name a part of it, which BOSH reads.
type stored string

// parts puts the paths of credentials into the references to their parts: ((ca.certificate)) becomes ((/path/of/ca.certificate)).
func (i inspection) parts(text string) string {
	return vars.Reference.ReplaceAllStringFunc(text, func(found string) string {
		full, _ := vars.ReferenceName(found, found == text)
		name, part, nested := strings.Cut(full, ".")
		whole, known := i.variables[name].(stored)
		if !known || !nested {
			return found
		}
		end := strings.Repeat(string(trustedClose), 2)
		return strings.TrimSuffix(string(whole), end) + "." + part + end
	})
}

// keys replaces variables in the keys of a mapping. Every key must become a text of its own.
func (i inspection) keys(path string, mapping map[string]any) {
	for _, key := range value.Keys(mapping) {
		if !i.text(path, key) || !strings.Contains(key, "((") {
			continue
		}
		resolved, err := i.key(key)
		if err != nil {
			i.errorf(key, "the key %s at %s: %s", key, path, err)
			continue
		}
		if _, taken := mapping[resolved]; taken {
			i.errorf(key, "the key %s at %s becomes a key that is already there", key, path)
			continue
		}
		mapping[resolved] = mapping[key]
		delete(mapping, key)
	}
}

// key resolves the variables in a key.
func (i inspection) key(key string) (string, error) {
	text, err := yaml.Marshal(key)
	if err != nil {
		return "", err
	}
	resolved, err := interpolated(text, nil, i.variables)
	if err != nil {
		return "", err
	}
	switch resolved.(type) {
	case string, bool, int64, uint64:
	default:
		return "", fmt.Errorf("a key must be a string, not %s", value.Kind(resolved))
	}
	plain := unmask(unmask(value.Text(resolved), trustedOpen, trustedClose), userOpen, userClose)
	if vars.HasReference(plain) {
		return "", errors.New("BOSH does not resolve references in keys")
	}
	return value.Text(resolved), nil
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
	for _, found := range vars.Reference.FindAllString(text, -1) {
		if fault := i.fault(found, found == text); fault != "" {
			i.errorf(found, "%s at %s %s", found, path, fault)
			fine = false
		}
	}
	return fine
}

// fault says what is wrong with a variable, as the end of a sentence; "" for nothing.
func (i inspection) fault(found string, whole bool) string {
	full, wrong := vars.ReferenceName(found, whole)
	if wrong != "" {
		return wrong
	}
	name, below, nested := strings.Cut(full, ".")
	item, ok := i.variables[name]
	if !ok {
		return "" // for BOSH; checkReferences looks whether it can
	}
	if _, ours := item.(stored); ours && nested {
		return ""
	}
	if nested {
		for _, key := range strings.FieldsFunc(below, func(r rune) bool { return r == '.' || r == '/' }) {
			if item, ok = child(item, key); !ok {
				return fmt.Sprintf("has no key %q: %s is %s", key, name, value.Kind(value.Normalise(i.variables[name])))
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
