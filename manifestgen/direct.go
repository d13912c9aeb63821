package manifestgen

import (
	"slices"
	"strings"

	yamlv2 "gopkg.in/yaml.v2"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

// direct makes the result of a template without the BOSH library, which reads the text once more. It takes what large templates are
// made of: mappings with texts as keys, lists, scalars about which all readers agree, and variables that stand for a value. It gives
// up on all else, such as anchors, tags and entries of variables, and what would need an explanation.
type direct struct {
	variables documentVariables
	found     map[string]stand
}

// stand is what a variable stands for.
type stand struct {
	value any
	// usable is false where the library must put it in.
	usable bool
}

// directly returns the result of a template, false where it gave up. Where it does not, the result is that of the library.
func directly(text string, document *yaml.Node, variables documentVariables) (map[string]any, bool) {
	if hidesTags(text) || len(document.Content) != 1 {
		return nil, false
	}
	root := document.Content[0]
	d := direct{variables: variables, found: map[string]stand{}}
	made, ok := d.node(root, 0)
	tree, isMapping := made.(map[string]any)
	return tree, ok && isMapping && d.declares(root, tree)
}

// hidesTags tells whether a text may have tags that change how it is read without being seen in the nodes: "!" alone, and those that
// a directive defines.
func hidesTags(text string) bool {
	if strings.Contains(text, "%TAG") {
		return true
	}
	for at := strings.IndexByte(text, '!'); at >= 0; at = strings.IndexByte(text, '!') {
		if text = text[at+1:]; text == "" || text[0] <= ' ' || text[0] > '~' || text[0] == '<' {
			return true
		}
	}
	return false
}

// declares tells whether the declarations of variables for BOSH, if there are any, are such that the library does nothing with them.
func (d direct) declares(root *yaml.Node, tree map[string]any) bool {
	declared, some := tree["variables"]
	list, ok := declared.([]any)
	for _, item := range list {
		entry, _ := item.(map[string]any)
		name, named := entry["name"].(string)
		_, typed := entry["type"].(string)
		_, taken := d.variables.values[name]
		ok = ok && named && typed && !taken
	}
	for i := 0; i+1 < len(root.Content) && some; i += 2 {
		ok = ok && (root.Content[i].Value != "variables" || !mentionsVariable(root.Content[i+1]))
	}
	return ok || !some
}

func mentionsVariable(n *yaml.Node) bool {
	return strings.Contains(n.Value, "((") || slices.ContainsFunc(n.Content, mentionsVariable)
}

// node returns the value of a node, with the variables put in.
func (d direct) node(n *yaml.Node, depth int) (any, bool) {
	if n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || depth > deepestDurable {
		return nil, false
	}
	switch n.Kind {
	case yaml.MappingNode:
		return d.mapping(n, depth)
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, element := range n.Content {
			item, ok := d.node(element, depth+1)
			if !ok {
				return nil, false
			}
			list[i] = item
		}
		return list, true
	case yaml.ScalarNode:
		if isText(n) {
			return d.text(n.Value, depth)
		}
		item, ok := other(n.Value)
		if text, isText := item.(string); ok && isText {
			return d.text(text, depth)
		}
		return item, ok
	default:
		return nil, false
	}
}

func (d direct) mapping(n *yaml.Node, depth int) (any, bool) {
	mapping := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, ok := d.key(n.Content[i])
		if !ok {
			return nil, false
		}
		item, ok := d.node(n.Content[i+1], depth+1)
		if !ok {
			return nil, false
		}
		mapping[key] = item
	}
	return mapping, len(mapping) == len(n.Content)/2 // no key is there twice
}

// key returns a key that is a text without variables.
func (d direct) key(n *yaml.Node) (string, bool) {
	text := n.Value
	return text, n.Kind == yaml.ScalarNode && n.Anchor == "" && isText(n) && durableKey(text) && !strings.Contains(text, "((") && !isMasked(text)
}

// isText tells whether a scalar certainly is a text for yaml.v2.
func isText(n *yaml.Node) bool {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return false
	case n.Style&quoted != 0:
		return true
	default:
		return n.Value != "" && strings.IndexByte("~+-.0123456789", n.Value[0]) < 0 && !isWord(n.Value)
	}
}

// other returns the value of another plain scalar, as yaml.v2 reads it.
func other(text string) (any, bool) {
	switch text {
	case "", "null", "~":
		return nil, true
	case "true", "false":
		return text == "true", true
	}
	if !likeNumber(text) {
		return nil, false
	}
	var item any
	if err := yamlv2.Unmarshal([]byte(text), &item); err != nil {
		return nil, false
	}
	switch item.(type) {
	case string, int, int64, uint64, float64:
		return value.Normalise(item), durable(item, 0)
	default:
		return nil, false
	}
}

// likeNumber tells whether a text begins like a number, or is an option of a command, and is the same scalar when it stands alone.
func likeNumber(text string) bool {
	for i, c := range []byte(text) {
		switch {
		case c >= '0' && c <= '9':
		case i == 0:
			if strings.IndexByte("+-.", c) < 0 {
				return false
			}
		case c|0x20 >= 'a' && c|0x20 <= 'z' && text[:i] != ".":
		case i == 1 && text[0] < '0':
			return false
		case strings.IndexByte("+-._/", c) >= 0 || c == ':' && i+1 < len(text):
		default:
			return false
		}
	}
	return true
}

// text returns what becomes of a text of the template.
func (d direct) text(text string, depth int) (any, bool) {
	if !durable(text, depth) || isMasked(text) {
		return nil, false
	}
	before, rest, some := strings.Cut(text, "((")
	if !some {
		return text, true
	}
	if name, ok := strings.CutSuffix(rest, "))"); ok && before == "" && d.leftToBOSH(name) {
		return text, true
	} else if ok && before == "" && simpleName(name) {
		return d.whole(name, depth)
	}
	return d.within(before, rest)
}

// leftToBOSH tells whether a name is one of a variable, or of an entry of one, that only BOSH may know.
func (d direct) leftToBOSH(name string) bool {
	variable, entry, _ := strings.Cut(name, ".")
	_, known := d.variables.values[variable]
	return !known && simpleName(variable) && (entry == "" || simpleName(strings.ReplaceAll(entry, ".", "-")))
}

// whole returns a variable's value.
func (d direct) whole(name string, depth int) (any, bool) {
	s := d.stand(name)
	switch s.value.(type) {
	case map[string]any, []any:
		return value.Clone(s.value), s.usable && durable(d.variables.values[name], depth)
	default:
		return s.value, s.usable
	}
}

// within puts variables into a text: before is what stands before the first "((", rest what follows it.
func (d direct) within(before, rest string) (any, bool) {
	var made strings.Builder
	for more := true; more; {
		name, after, closed := strings.Cut(rest, "))")
		inserted, ok := d.inserted(name)
		if !closed || !ok || strings.ContainsAny(before, "()") {
			return nil, false
		}
		made.WriteString(before)
		made.WriteString(inserted)
		before, rest, more = strings.Cut(after, "((")
	}
	made.WriteString(before)
	return made.String(), !strings.ContainsAny(before, "()") && durable(made.String(), 0)
}

// inserted returns what a variable becomes within a text. An empty text is none: once nothing stands before the last variable, the
// library keeps the type of its value.
func (d direct) inserted(name string) (string, bool) {
	if d.leftToBOSH(name) {
		return "((" + name + "))", true
	}
	s := d.stand(name)
	switch s.value.(type) {
	case string, int64, uint64:
		return value.Text(s.value), s.usable && simpleName(name) && s.value != ""
	default:
		return "", false
	}
}

// stand returns what a variable stands for. A value from the request with parentheses is not usable: they might form a reference.
func (d direct) stand(name string) stand {
	if s, ok := d.found[name]; ok {
		return s
	}
	item, ok := d.variables.values[name]
	s := stand{usable: ok && durable(item, 0)}
	if s.usable {
		s.value = unmask(value.Normalise(item), trustedOpen, trustedClose)
		s.usable = !holdsMask(s.value)
	}
	d.found[name] = s
	return s
}
