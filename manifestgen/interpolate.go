package manifestgen

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/cloudfoundry/bosh-cli/v7/director/template"
	"github.com/cppforlife/go-patch/patch"
	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
)

// interpolate applies operations to a document and puts the variables in. The result is as yaml.v2 decodes it. The BOSH library
// writes its result as YAML, and writes the whole document once more to find `variables:`; both is left out where it cannot
// matter, which is most of the time that a large document takes.
func (w *generation) interpolate(document brokerpak.Document, ops patch.Ops) (any, error) {
	short := &shortcut{variables: w.variables}
	options := template.EvaluateOpts{PostVarSubstitutionOp: finished{short}}
	out, err := template.NewTemplate([]byte(document.Text)).Evaluate(w.variables, append(ops, short), options)
	var placed diag.Errors
	if errors.As(err, &placed) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("interpolating %s: %w", document.Pos.File, err)
	}
	if short.done {
		return short.result, nil
	}
	var raw any
	if err := yaml.Unmarshal(out, &raw); err != nil {
		return nil, fmt.Errorf("reading %s after interpolation: %w", document.Pos.File, err)
	}
	return raw, nil
}

// shortcut is the last operation before the library interpolates. It puts in variables that are a whole value, and wraps the
// document in a list, in which the library looks for no `variables:`; a document that has them stays as it is. Where nothing is left
// for the library to put in, it gets nothing.
type shortcut struct {
	variables documentVariables
	left      bool // some text may hold another variable
	wrapped   bool
	done      bool
	result    any
}

// Apply never fails.
func (s *shortcut) Apply(document any) (any, error) {
	root, ok := document.(map[any]any)
	if _, declares := root["variables"]; !ok || declares || !durable(document, 0) {
		return document, nil
	}
	document = s.replace(document)
	if !s.left && durable(document, 0) {
		s.result, s.done = document, true
		return nil, nil
	}
	s.wrapped = true
	return []any{document}, nil
}

// replace changes a tree and returns it.
func (s *shortcut) replace(node any) any {
	switch item := node.(type) {
	case map[any]any:
		for key, element := range item {
			text, _ := key.(string)
			s.left = s.left || strings.Contains(text, "((")
			item[key] = s.replace(element)
		}
	case []any:
		for n, element := range item {
			item[n] = s.replace(element)
		}
	case string:
		if found, ok := s.variables.whole(item); ok {
			return found
		}
		s.left = s.left || strings.Contains(item, "((")
	}
	return node
}

// finished is the operation after the interpolation. It keeps the result and leaves the library nothing to write, if reading what
// it would write gave the same again.
type finished struct{ *shortcut }

// Apply never fails.
func (f finished) Apply(document any) (any, error) {
	if f.done {
		return nil, nil
	}
	if list, ok := document.([]any); ok && f.wrapped {
		document = list[0]
	}
	if !durable(document, 0) {
		return document, nil
	}
	f.result, f.done = document, true
	return nil, nil
}

// whole returns the value of a text that is ((name)) and nothing else, as the library would put it in. False says nothing.
func (v documentVariables) whole(text string) (any, bool) {
	if len(text) < len("(()))") || text[:2] != "((" || text[len(text)-2:] != "))" {
		return nil, false
	}
	name := text[2 : len(text)-2]
	if !simpleName(name) {
		return nil, false
	}
	item, ok := v.values[name]
	return item, ok
}

// simpleName tells whether a name has only characters that need no look: no blanks, which the library skips, and no dots.
func simpleName(name string) bool {
	for _, c := range []byte(name) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '/' {
			return false
		}
	}
	return name != ""
}

// deepestDurable is how deep a tree may be that is durable.
const deepestDurable = 100

// durable tells whether a tree certainly is the same after yaml.v2 wrote and read it, but for the types of its numbers. False says
// nothing.
func durable(node any, depth int) bool {
	if depth > deepestDurable {
		return false
	}
	switch item := node.(type) {
	case map[any]any:
		for key, element := range item {
			text, ok := key.(string)
			if !ok || !durableKey(text) || !durable(element, depth+1) {
				return false
			}
		}
		return true
	case []any:
		for _, element := range item {
			if !durable(element, depth+1) {
				return false
			}
		}
		return true
	case string:
		return item != mergeKey && durableText(item)
	case float64:
		return !math.IsInf(item, 0) && !math.IsNaN(item)
	case nil, bool, int, int64, uint64:
		return true
	default:
		return false
	}
}

func durableKey(text string) bool {
	const longest = 100 // bytes; longer keys are written in another form
	return text != mergeKey && len(text) <= longest && !strings.Contains(text, "\n") && durableText(text)
}

// durableText admits printable characters and single line breaks, with neither at the ends.
func durableText(text string) bool {
	if strings.TrimSpace(text) != strings.TrimSuffix(text, "\n") {
		return false
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c >= ' ' && c <= '~' || c == '\n':
		case c < utf8.RuneSelf:
			return false
		default:
			return durableRunes(text[i:])
		}
	}
	return true
}

func durableRunes(text string) bool {
	for _, r := range text {
		if r != '\n' && (r == utf8.RuneError || !unicode.IsPrint(r) && !strings.ContainsRune(maskRunes, r)) {
			return false
		}
	}
	return true
}
