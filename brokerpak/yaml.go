package brokerpak

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/yamlnode"
)

// maxNodes bounds the nodes visited in one file: merges and aliases can multiply a small text without end. The largest
// published definitions have a few thousand.
const maxNodes = 200_000

// maxNesting bounds how deep merges, aliases and values are followed. It also ends those that contain themselves.
const maxNesting = 200

// document decodes one YAML file node by node, so that every fault keeps its place and none hides another.
type document struct {
	file      string
	lines     []string
	diags     *diag.List
	visited   int
	exhausted bool
	mistyped  map[diag.Pos]bool // where something of the wrong type stands
}

// field decodes the value of one key of a mapping.
type field func(node *yaml.Node)

// fields are the keys that a mapping may have. There are few, so a list is searched in less time than a map is made.
type fields []namedField

type namedField struct {
	name   string
	decode field
}

func (f fields) find(name string) field {
	for i := range f {
		if f[i].name == name {
			return f[i].decode
		}
	}
	return nil
}

// places tells where a mapping and the values of its keys stand.
type places struct {
	self diag.Pos
	keys []keyPlace
}

type keyPlace struct {
	key  string
	pos  diag.Pos // of the value
	null bool
}

// at is the place of a key's value, or of the whole mapping when it has no such key.
func (p places) at(key string) diag.Pos {
	if i := p.index(key); i >= 0 {
		return p.keys[i].pos
	}
	return p.self
}

// has tells whether a key has a value other than null.
func (p places) has(key string) bool {
	i := p.index(key)
	return i >= 0 && !p.keys[i].null
}

func (p places) index(key string) int {
	return slices.IndexFunc(p.keys, func(k keyPlace) bool { return k.key == key })
}

// libraryPrefix is how messages of the YAML library begin. Its line is where the construct begins that is at fault, or the
// one before it.
var libraryPrefix = regexp.MustCompile(`^yaml: (line \d+: )?`)

// parseDocument returns the root of the first document of a text, or nil when a diagnostic was added. Other brokers read no
// further documents either.
func parseDocument(file, text string, diags *diag.List) (*document, *yaml.Node) {
	doc := &document{file: file, lines: strings.Split(text, "\n"), diags: diags, mistyped: map[diag.Pos]bool{}}
	decoder := yamlnode.NewDecoder(text)
	root, err := decoder.Decode()
	if err != nil {
		doc.syntaxError(err)
		return doc, nil
	}
	if second, err := decoder.Decode(); err == nil && !isNull(second.Content[0]) {
		diags.Warnf(doc.pos(second.Content[0]), "yaml-documents",
			"the file holds more than one YAML document; only the first is read")
	}
	return doc, root.Content[0]
}

func (d *document) syntaxError(err error) {
	if errors.Is(err, io.EOF) {
		d.failf(diag.Pos{File: d.file}, "yaml-syntax", "the file is empty")
		return
	}
	line, message := syntaxFault(d.lines, err)
	d.failf(diag.Pos{File: d.file, Line: line}, "yaml-syntax", "not valid YAML: %s", message)
}

// syntaxFault finds the line that causes an error of the YAML library: the last one of a beginning of the text that gives the
// same error, while without this line it does not. For other errors, and in very long texts, the line is 0.
func syntaxFault(lines []string, err error) (line int, message string) {
	prefix := libraryPrefix.FindString(err.Error())
	const searched = 50_000 // lines; each try parses the text again
	if prefix == "" || len(lines) > searched {
		return 0, strings.TrimPrefix(err.Error(), "yaml: ")
	}
	low, high := 0, len(lines)
	for high-low > 1 {
		middle := (low + high) / 2
		var root yaml.Node
		again := yaml.NewDecoder(strings.NewReader(strings.Join(lines[:middle], "\n") + "\n")).Decode(&root)
		if again != nil && again.Error() == err.Error() {
			high = middle
		} else {
			low = middle
		}
	}
	return high, strings.TrimPrefix(err.Error(), prefix)
}

func (d *document) pos(node *yaml.Node) diag.Pos {
	return diag.Pos{File: d.file, Line: node.Line, Column: node.Column}
}

func (d *document) errorf(node *yaml.Node, rule, format string, args ...any) {
	d.failf(d.pos(node), rule, format, args...)
}

// failf adds an error, unless it follows from another one: what has the wrong type, or was not read after the bound on the
// file's size was met, would seem missing or wrong once more.
func (d *document) failf(pos diag.Pos, rule, format string, args ...any) {
	if d.exhausted || d.mistyped[pos] {
		return
	}
	d.mistyped[pos] = rule == "type"
	d.diags.Errorf(pos, rule, format, args...)
}

// spend counts visited nodes and tells whether the file is still within its bounds.
func (d *document) spend(node *yaml.Node, depth int) bool {
	d.visited += 1 + len(node.Content)
	if depth > maxNesting {
		d.errorf(node, "yaml-aliases", "nested more than %d levels deep, or an alias or merge that contains itself", maxNesting)
		d.exhausted = true
	}
	if d.visited > maxNodes {
		d.errorf(node, "yaml-aliases", "the file has more than %d nodes with its aliases and merges followed", maxNodes)
		d.exhausted = true
	}
	return !d.exhausted
}

// resolve follows an alias.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias // never an alias itself
	}
	return node
}

func isNull(node *yaml.Node) bool {
	node = resolve(node)
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

// pair is a key of a mapping and its value.
type pair struct{ key, value *yaml.Node }

// pairs returns the keys of a mapping with YAML merges applied: a key of the mapping itself wins over merged ones, the
// first merged mapping over later ones. What is no mapping is reported; null has no keys.
func (d *document) pairs(node *yaml.Node, what string) []pair {
	if isNull(node) {
		return nil
	}
	return d.merged(node, what, 0)
}

func (d *document) merged(node *yaml.Node, what string, depth int) []pair {
	mapping := resolve(node)
	if mapping.Kind != yaml.MappingNode {
		d.errorf(node, "type", "%s must be a mapping, not %s", what, kindOf(mapping))
		return nil
	}
	if !d.spend(mapping, depth) {
		return nil
	}
	var own []pair
	var merges []*yaml.Node
	seen := map[string]*yaml.Node{}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, item := resolve(mapping.Content[i]), mapping.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merges = append(merges, item)
			continue
		}
		if key.Kind != yaml.ScalarNode {
			d.errorf(key, "type", "a key of %s must be a scalar, not %s", what, kindOf(key))
			continue
		}
		if first, ok := seen[key.Value]; ok {
			d.errorf(key, "duplicate-key", "key %q is already in line %d", key.Value, first.Line)
			continue
		}
		seen[key.Value] = key
		own = append(own, pair{key, item})
	}
	for _, merge := range merges {
		for _, source := range mergeSources(merge) {
			for _, inherited := range d.merged(source, "the value of <<", depth+1) {
				if _, ok := seen[inherited.key.Value]; !ok {
					seen[inherited.key.Value] = inherited.key
					own = append(own, inherited)
				}
			}
		}
	}
	return own
}

func mergeSources(node *yaml.Node) []*yaml.Node {
	if list := resolve(node); list.Kind == yaml.SequenceNode {
		return list.Content
	}
	return []*yaml.Node{node}
}

// mapping decodes a mapping by its fields. Unknown keys are errors where strict, else warnings.
func (d *document) mapping(node *yaml.Node, what string, strict bool, known fields) places {
	found := places{self: d.pos(node)}
	if isNull(node) {
		d.errorf(node, "type", "%s must be a mapping, not null", what)
		return found
	}
	pairs := d.pairs(node, what)
	found.keys = make([]keyPlace, 0, len(pairs))
	for _, p := range pairs {
		if decode := known.find(p.key.Value); decode != nil {
			found.keys = append(found.keys, keyPlace{p.key.Value, d.pos(p.value), isNull(p.value)})
			decode(p.value)
			continue
		}
		names := make([]string, len(known))
		for i := range known {
			names[i] = known[i].name
		}
		slices.Sort(names)
		hint := diag.Suggest(p.key.Value, names)
		if hint == "" {
			hint = "; allowed: " + diag.Names(names)
		}
		if strict {
			d.errorf(p.key, "unknown-key", "unknown key %q in %s%s", p.key.Value, what, hint)
		} else {
			d.diags.Warnf(d.pos(p.key), "unknown-key", "unknown key %q in %s is ignored%s", p.key.Value, what, hint)
		}
	}
	return found
}

// sequence calls item for each element of a list. Null is an empty list.
func (d *document) sequence(node *yaml.Node, what string, item func(node *yaml.Node)) {
	list := resolve(node)
	if isNull(list) {
		return
	}
	if list.Kind != yaml.SequenceNode {
		d.errorf(node, "type", "%s must be a list, not %s", what, kindOf(list))
		return
	}
	if !d.spend(list, 0) {
		return
	}
	for _, element := range list.Content {
		item(element)
	}
}

// required reports a missing text. Blanks are a text: other brokers take them.
func (d *document) required(at places, key, what, text string) {
	if text == "" {
		d.failf(at.at(key), "required", "%s is required and must not be empty", what)
	}
}

// kindOf names what a node is, in words of YAML.
func kindOf(node *yaml.Node) string {
	switch node = resolve(node); {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.ShortTag() == "!!null":
		return "null"
	case node.ShortTag() == "!!str":
		return "a string"
	default:
		return fmt.Sprintf("%q", node.Value)
	}
}
