package manifestgen

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// sources are the documents behind one result: a template, followed by its ops files. The list is never empty.
type sources []brokerpak.Document

// position returns the position of the first occurrence of the text in the documents. If none contains it, the position
// is the file of the template, without a line.
func (s sources) position(text string) diag.Pos {
	for _, document := range s {
		if at := strings.Index(document.Text, text); at >= 0 {
			return document.AtByte(at)
		}
	}
	return diag.Pos{File: s[0].Pos.File}
}

// An inspection is an operation that checks a template after its ops files have been applied and before the library
// interpolates the variables. It resolves variables in keys itself, because the library does so in random order. It
// reports errors that the library ignores or explains poorly; they are added to diags, which must not be nil.
type inspection struct {
	variables variables
	sources   sources
	diags     *diag.List
}

// Apply implements patch.Op. It returns a copy of the document in which the variables in keys, and references to a part
// of an existing credential, are resolved; see walk. The error is a diag.Errors with all findings, which Apply also
// adds to i.diags.
func (i inspection) Apply(document any) (any, error) {
	tree := value.Normalise(document)
	i.checkDeclarations(tree)
	tree = i.walk("", tree)
	return value.AnyKeys(tree, nil), i.diags.Err()
}

// errorf adds a finding at the position of the text in the sources.
func (i inspection) errorf(text, format string, args ...any) {
	i.diags.Errorf(i.sources.position(text), "bosh-variable", format, args...)
}

// checkDeclarations adds a finding for each variable under `variables:` that has the name of an input or secret,
// because interpolation would replace its declaration.
func (i inspection) checkDeclarations(tree any) {
	for _, name := range declaredVariables(tree) {
		if _, exists := i.variables[name]; exists {
			i.errorf("name: "+name,
				"variable %q under `variables:` has the name of an input or secret; rename one", name)
		}
	}
}

// walk inspects a node and everything below it, and adds its findings to i.diags. It resolves the variables in keys,
// and replaces each reference to a part of an existing credential by one with the path of the credential; see
// resolveParts. Mappings and lists are changed in place. The caller must use the returned node, because a string is
// replaced by a new one. The path of the node, such as "/instance_groups/0", is used in findings; that of the root is
// "".
func (i inspection) walk(path string, node any) any {
	switch item := node.(type) {
	case map[string]any:
		i.resolveKeys(path, item)
		for _, key := range value.Keys(item) {
			item[key] = i.walk(path+"/"+key, item[key])
		}
	case []any:
		for n, element := range item {
			item[n] = i.walk(path+"/"+strconv.Itoa(n), element)
		}
	case string:
		if i.checkText(path, item) {
			return i.resolveParts(item)
		}
	}
	return node
}

// A credentialReference is the masked reference, with its parentheses, to a credential that CredHub has already. A
// template may refer to a part of it, which BOSH resolves.
type credentialReference string

// resolveParts returns the text with references to a part of an existing credential replaced by the credential's path
// and that part: ((ca.certificate)) becomes ((/path/of/ca.certificate)), with masked parentheses. Other references
// stay.
func (i inspection) resolveParts(text string) string {
	return vars.Reference.ReplaceAllStringFunc(text, func(reference string) string {
		full, _ := vars.ReferenceName(reference, reference == text)
		name, part, nested := strings.Cut(full, ".")
		credential, isCredential := i.variables[name].(credentialReference)
		if !isCredential || !nested {
			return reference
		}
		end := strings.Repeat(string(trustedClose), 2)
		return strings.TrimSuffix(string(credential), end) + "." + part + end
	})
}

// resolveKeys replaces the variables in the keys of a mapping, in place. It adds a finding for each key with a variable
// that cannot be replaced (see checkText), whose result resolveKey rejects, or that becomes equal to another key; such
// a key stays as it is. The path is that of the mapping.
func (i inspection) resolveKeys(path string, mapping map[string]any) {
	for _, key := range value.Keys(mapping) {
		if !i.checkText(path, key) || !strings.Contains(key, "((") {
			continue
		}
		resolved, err := i.resolveKey(key)
		if err != nil {
			i.errorf(key, "the key %s at %s: %s", key, path, err)
			continue
		}
		if _, exists := mapping[resolved]; exists {
			i.errorf(key, "the key %s at %s becomes a key that is already there", key, path)
			continue
		}
		mapping[resolved] = mapping[key]
		delete(mapping, key)
	}
}

// resolveKey returns the key with its variables replaced, as a text whose parentheses are still masked. It returns an
// error if the result is neither a string nor a boolean or an integer, if it contains a reference, which BOSH does not
// resolve in keys, or if the library cannot replace the variables.
func (i inspection) resolveKey(key string) (string, error) {
	text, err := yaml.Marshal(key)
	if err != nil {
		return "", err
	}
	resolved, err := evaluateYAML(text, nil, i.variables)
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

// checkText reports whether all variables in a string can be replaced or left to BOSH, and adds a finding for each one
// that cannot. It also adds a finding and returns false for a string that contains one of the reserved characters. The
// path is that of the string. A variable that is not known is left to BOSH.
func (i inspection) checkText(path, text string) bool {
	if isMasked(text) {
		i.errorf(text, "the text at %s holds one of the characters U+E0F0 to U+E0F3, which the adapter reserves", path)
		return false
	}
	if !strings.Contains(text, "((") {
		return true
	}
	ok := true
	for _, reference := range vars.Reference.FindAllString(text, -1) {
		if problem := i.problem(reference, reference == text); problem != "" {
			i.errorf(reference, "%s at %s %s", reference, path, problem)
			ok = false
		}
	}
	return ok
}

// problem explains why the library cannot replace a variable. The explanation is the end of a sentence that begins with
// the reference. It returns "" if the library can replace the variable or leaves it to BOSH. The whole argument says
// that the reference is the complete string.
func (i inspection) problem(reference string, whole bool) string {
	full, syntaxError := vars.ReferenceName(reference, whole)
	if syntaxError != "" {
		return syntaxError
	}
	name, below, nested := strings.Cut(full, ".")
	item, ok := i.variables[name]
	if !ok {
		return "" // left to BOSH; checkReferences checks whether it can resolve it
	}
	if _, isCredential := item.(credentialReference); isCredential && nested {
		return ""
	}
	if nested {
		for _, key := range strings.FieldsFunc(below, func(r rune) bool { return r == '.' || r == '/' }) {
			if item, ok = childOf(item, key); !ok {
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
		return fmt.Sprintf("is %s, which BOSH cannot put into a text; "+
			"make it the whole value, or a computed input of type string",
			value.Kind(kind))
	}
}

// childOf returns the entry of a mapping or list that the library selects for the key, and whether it exists. In a
// list, the key is an index.
func childOf(item any, key string) (any, bool) {
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
