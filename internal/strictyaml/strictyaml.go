// Package strictyaml decodes YAML into Go types and rejects what the types do not describe: unknown and repeated keys,
// and values of the wrong type. Messages name the line and the key, and never a value, which may be a secret.
package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// Decode decodes one YAML document into target, a non-nil pointer. The yaml tags of the fields of its struct types
// are the keys that the document may have. A null value, such as that of a key without a value, counts as missing. A
// pointer, slice, map or interface becomes nil, and a value of any other type remains unchanged. The same is true for
// an entry that a map in target already contains; a new entry with the value null gets the zero value. In a list, a
// null is left out if the type of the elements has no nil. A date becomes the text that was written.
//
// source is the file or variable that the messages name. root is the key whose value the document is, as that of an
// environment variable, or "" for a whole configuration. A text without a document, which is empty or contains only
// comments, is an error if there is a root; without one, target remains unchanged.
//
// The error lists all unknown and repeated keys and all values of the wrong type, each with its key, and all other
// faults that yamltree.Flatten finds, such as wrong merge keys. Unless there is a root, it names the line of each. If
// the text is not valid YAML, contains several documents, or cannot be decoded for another reason, the error says
// only that. The error contains no values, which may be secrets, except a number or boolean in place of the mapping
// of a merge key. After an error, target must not be used.
func Decode(source, root, text string, target any) error {
	document, second, err := yamltree.Read(text)
	switch {
	case errors.Is(err, io.EOF) && root == "":
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: it must be YAML", source)
	case err != nil:
		return fmt.Errorf("%s: %s", source, yamltree.SyntaxError(err))
	case second != nil:
		return fmt.Errorf("%s: only one YAML document is allowed", source)
	}
	checker := checker{source: source, root: root}
	flat, faults := yamltree.Flatten(document)
	for _, fault := range faults {
		checker.errorf(fault.Node, "%s", fault.Message)
	}
	datesAsText(flat)
	checker.check(flat, reflect.TypeOf(target).Elem(), root)
	if err := errors.Join(checker.failed...); err != nil {
		return err
	}
	if flat.Decode(target) != nil {
		return fmt.Errorf("%s: the YAML cannot be used", source)
	}
	return nil
}

// A checker compares a YAML document with the Go type into which it will be decoded, and collects the faults as errors
// in failed, which is nil if there are none. The fields source and root are the parameters of Decode: the file or
// variable that the messages name, and the key whose value the document is, or "" for a whole configuration.
type checker struct {
	source string
	root   string
	failed []error
}

// errorf appends an error for a fault at a node to c.failed, with a message that format and args form. The message
// begins with the source and, if c.root is "", with the line of the node. If there is a root, the document is the value
// of an environment variable, where the key in the message is enough.
func (c *checker) errorf(node *yaml.Node, format string, args ...any) {
	location := c.source
	if c.root == "" {
		location = fmt.Sprintf("%s:%d", c.source, node.Line)
	}
	c.failed = append(c.failed, fmt.Errorf("%s: %s", location, fmt.Sprintf(format, args...)))
}

// check compares a node of a flat tree with the type wanted into which it will be decoded, and records faults in
// c.failed. key is the path of the node in the document for the messages, such as "tofu.timeout" or "an entry of
// hosts", or "" for the whole document. A struct requires a mapping with no other keys than its fields, a map any
// mapping, a slice a list, and every other type a scalar that can be decoded into it; a pointer requires the same as
// its element, and an interface accepts every node. A null fits every type, because it counts as a missing key.
func (c *checker) check(node *yaml.Node, wanted reflect.Type, key string) {
	switch kind := wanted.Kind(); {
	case yamltree.IsNull(node), kind == reflect.Interface: // a null counts as a missing key
	case kind == reflect.Pointer:
		c.check(node, wanted.Elem(), key)
	case kind == reflect.Struct, kind == reflect.Map:
		c.mapping(node, wanted, key)
	case kind == reflect.Slice:
		if node.Kind != yaml.SequenceNode {
			c.errorf(node, "%s must be a list", key)
			return
		}
		for _, element := range node.Content {
			c.check(element, wanted.Elem(), "an entry of "+key)
		}
	default:
		if node.Kind != yaml.ScalarNode || node.Decode(reflect.New(wanted).Interface()) != nil {
			c.errorf(node, "%s must be %s", key, describeType(wanted))
		}
	}
}

// mapping compares a node with the struct or map type wanted, and records faults in c.failed: a null or other node
// that is not a mapping, keys that are not fields of the struct, and values of the wrong type. Every key of a map is
// allowed. A value that is null fits every type. key is the path of the node for the messages, such as "tofu", or ""
// for the whole document.
func (c *checker) mapping(node *yaml.Node, wanted reflect.Type, key string) {
	if node.Kind != yaml.MappingNode {
		c.errorf(node, "%s must be a mapping", cmp.Or(key, "the configuration"))
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, item := node.Content[i], node.Content[i+1]
		path := strings.TrimPrefix(key+"."+name.Value, ".")
		if wanted.Kind() == reflect.Map {
			c.check(item, wanted.Elem(), path)
			continue
		}
		keys, fields := Fields(wanted)
		if field := slices.Index(keys, name.Value); field >= 0 {
			c.check(item, fields[field].Type, path)
		} else {
			c.unknown(name, keys, key)
		}
	}
}

// unknown records in c.failed that the mapping at a path does not allow the key name. It does not itself compare the
// key with the allowed ones, from which the message suggests the most similar key or lists all; see UnknownKey. path is
// "" for the whole document.
func (c *checker) unknown(name *yaml.Node, allowed []string, path string) {
	c.errorf(name, "%s", UnknownKey(name.Value, allowed, path))
}

// UnknownKey returns a message about a key that the mapping at a path does not allow, such as unknown key "nam" in
// tofu, followed by a hint. The hint suggests the most similar one of the allowed keys, or lists all of them in their
// order if none is similar. The path of the whole document is "", which the message does not name.
func UnknownKey(name string, allowed []string, path string) string {
	in := ""
	if path != "" {
		in = " in " + path
	}
	hint := cmp.Or(string(diag.Suggest(name, allowed)), "; allowed: "+strings.Join(allowed, ", "))
	return fmt.Sprintf("unknown key %q%s%s", name, in, hint)
}

// datesAsText changes the tags of all dates at and below a node, in place, so that they are decoded as the text that
// was written and not as a time. The node must not be nil, and aliases are not followed.
func datesAsText(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!timestamp" {
		node.Tag = "!!str"
	}
	for _, child := range node.Content {
		datesAsText(child)
	}
}

// describeType returns the words for the type of a scalar in messages: "a duration such as 45s" for time.Duration,
// "true or false" for a boolean type, "a whole number" for the kind int, and "a text" for every other type, including
// integers of other sizes.
func describeType(wanted reflect.Type) string {
	switch {
	case wanted == reflect.TypeFor[time.Duration]():
		return "a duration such as 45s"
	case wanted.Kind() == reflect.Bool:
		return "true or false"
	case wanted.Kind() == reflect.Int:
		return "a whole number"
	default:
		return "a text"
	}
}

// Fields returns the exported fields of a struct type and their YAML keys, in order, with the fields of an embedded
// struct at its position. Embedded structs must have the tag ",inline", which Fields does not check. Both lists have
// the same length, and are nil if there are no such fields. The key of a field without a yaml tag is its name in
// lower case. Fields with the tag "-" are left out. Fields panics if the type is not a struct.
func Fields(structType reflect.Type) (keys []string, fields []reflect.StructField) {
	for _, field := range reflect.VisibleFields(structType) {
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if !field.Anonymous && field.IsExported() && key != "-" {
			keys, fields = append(keys, cmp.Or(key, strings.ToLower(field.Name))), append(fields, field)
		}
	}
	return keys, fields
}
