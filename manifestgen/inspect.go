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

// sources are the documents from which one result is computed, usually a template followed by its ops files. They are
// searched for the positions of errors. The list is never empty.
type sources []brokerpak.Document

// position returns the position of the first occurrence of the text in the documents, searched in their order. If none
// of them contains the text, the position is the file of the first document, without a line. s must not be empty.
func (s sources) position(text string) diag.Pos {
	for _, document := range s {
		if at := strings.Index(document.Text, text); at >= 0 {
			return document.AtByte(at)
		}
	}
	return diag.Pos{File: s[0].Pos.File}
}

// An inspection is an operation (patch.Op) that checks a template after its ops files have been applied and before the
// BOSH library interpolates the variables. It resolves variables in keys itself, because the library does so in random
// order, and references to parts of existing credentials. It reports errors that the library ignores or explains
// poorly, as findings with positions; they are added to the field diags. All fields must be set, so the zero value
// cannot be used.
type inspection struct {
	variables variables
	sources   sources
	diags     *diag.List
}

// Apply implements patch.Op. document is a decoded YAML document; it is not changed. Apply returns a copy of it, with
// mappings of the type map[any]any, in which the variables in keys and the references to parts of existing credentials
// are resolved; see walk. It adds its findings to i.diags; see checkDeclarations and walk.
//
// The error is a diag.Errors with all findings in i.diags, those of this call and earlier ones, or nil if i.diags has
// none. The copy must not be used if there is an error.
func (i inspection) Apply(document any) (any, error) {
	tree := value.Normalise(document)
	i.checkDeclarations(tree)
	tree = i.walk("", tree)
	return value.AnyKeys(tree, nil), i.diags.Err()
}

// errorf adds a finding of the rule "bosh-variable" to i.diags, with a message that is formatted as by fmt.Sprintf. Its
// position is that of the first occurrence of text in the sources, or only the file of the first document if they do
// not contain the text.
func (i inspection) errorf(text, format string, args ...any) {
	i.diags.Errorf(i.sources.position(text), "bosh-variable", format, args...)
}

// checkDeclarations adds a finding to i.diags for each entry under `variables:` of the manifest in tree whose name is
// that of a template variable, such as an input, an output or a secret, because interpolation would remove the
// declaration. A tree that is not a mapping or has no such list has no entries.
func (i inspection) checkDeclarations(tree any) {
	for _, name := range declaredVariables(tree) {
		if _, exists := i.variables[name]; exists {
			i.errorf("name: "+name,
				"variable %q under `variables:` has the name of an input or secret; rename one", name)
		}
	}
}

// walk inspects a node of the types that package value defines, and everything below it, and adds its findings to
// i.diags. It resolves the variables in keys (see resolveKeys), checks the variables in texts (see checkText), and
// replaces each reference to a part of an existing credential by a reference with the path of the credential (see
// resolveParts). Mappings and lists are changed in place. The caller must use the returned node, because a string is
// replaced by a new string. path is the path of the node, such as "/instance_groups/0", for the findings; that of the
// root is "".
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

// A credentialReference is the value of a template variable for a credential that already exists in CredHub: the
// reference with the credential's absolute path, such as ((/path/of/ca)), with masked parentheses (see masked). A
// template may refer to any part of it, as in ((ca.certificate)), which BOSH resolves; a part of any other variable
// must exist in its value. Values are never empty.
type credentialReference string

// resolveParts returns the text in which each reference to a part of an existing credential has the path of the
// credential: ((ca.certificate)) becomes ((/path/of/ca.certificate)), with masked parentheses. All other references,
// including ((ca)), and the rest of the text are not changed.
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

// resolveKeys replaces the variables in the keys of a mapping, in place; the values are not changed. Parentheses in the
// values of the variables are still masked in the new keys (see masked). resolveKeys adds a finding to i.diags for each
// key that checkText rejects, each key whose result resolveKey rejects, for example because the template does not have
// the variable, and each key that becomes equal to another key; such keys are not changed. path is the path of the
// mapping, for the findings.
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
			i.errorf(key, "the key %s at %s becomes equal to another key of its mapping", key, path)
			continue
		}
		mapping[resolved] = mapping[key]
		delete(mapping, key)
	}
}

// resolveKey returns the key with its variables replaced, as a text in which the parentheses of their values are still
// masked. A boolean or integer becomes its text. It returns "" and an error if the result has another type, such as
// null or a list, if the result contains a reference, which BOSH does not resolve in keys, or if the library cannot
// replace the variables.
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

// checkText reports whether all variables in a text can be replaced, or are left to BOSH because the template does not
// have them. For each variable that can neither be replaced nor left to BOSH, it adds a finding to i.diags and returns
// false; see problem for the reasons. It does the same for a text that contains one of the reserved characters U+E0F0
// to U+E0F3. path is the path of the text in the document, for the findings.
func (i inspection) checkText(path, text string) bool {
	if isMasked(text) {
		i.errorf(text, "the text at %s contains a character from U+E0F0 to U+E0F3, which the adapter reserves", path)
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

// problem explains why the library cannot replace a reference, which includes its parentheses. The explanation is the
// end of a sentence that begins with the reference. The reasons are that the reference has a syntax error, that
// ((NAME.KEY)) selects a part that the variable does not have, and that a value that is neither a string nor an integer
// is part of a longer text. whole states that the reference is the complete text. problem returns "" if the library can
// replace the reference, and if the template has no variable of this name, so that the reference is left to BOSH.
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

// childOf returns the entry of a mapping or list that the library selects for the key in ((NAME.KEY)), and whether it
// exists. item is a mapping with keys of any type (map[any]any) or a list; in a list, the key is a decimal index from
// 0. For any other item, and for an entry that does not exist, childOf returns nil and false.
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
