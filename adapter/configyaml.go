package adapter

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

// DecodeStrict decodes one YAML document into a type whose fields have the keys of it. Unknown and repeated keys and values of the wrong type are
// errors with their place, all of them at once; no error shows a value, which may be a secret. root is the key that the
// document is the value of, "" for a whole configuration, which may be empty.
func DecodeStrict(source, root, text string, target any) error {
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
	plainDates(flat)
	checker.check(flat, reflect.TypeOf(target).Elem(), root)
	if err := errors.Join(checker.failed...); err != nil {
		return err
	}
	if flat.Decode(target) != nil {
		return fmt.Errorf("%s: the YAML cannot be used", source)
	}
	return nil
}

// checker compares a document with the type it is for.
type checker struct {
	source string
	root   string
	failed []error
}

// errorf reports a fault at a node. In an environment variable only the key tells where it is.
func (c *checker) errorf(node *yaml.Node, format string, args ...any) {
	place := c.source
	if c.root == "" {
		place = fmt.Sprintf("%s:%d", c.source, node.Line)
	}
	c.failed = append(c.failed, fmt.Errorf("%s: %s", place, fmt.Sprintf(format, args...)))
}

func (c *checker) check(node *yaml.Node, wanted reflect.Type, key string) {
	switch kind := wanted.Kind(); {
	case yamltree.IsNull(node), kind == reflect.Interface: // null is as if the key were not there
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
			c.errorf(node, "%s must be %s", key, typeWords(wanted))
		}
	}
}

// mapping checks the keys of a mapping and their values.
func (c *checker) mapping(node *yaml.Node, wanted reflect.Type, key string) {
	if node.Kind != yaml.MappingNode {
		c.errorf(node, "%s must be a mapping", cmp.Or(key, "the configuration"))
		return
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, item := node.Content[i], node.Content[i+1]
		where := strings.TrimPrefix(key+"."+name.Value, ".")
		if wanted.Kind() == reflect.Map {
			c.check(item, wanted.Elem(), where)
			continue
		}
		keys, fields := FieldsOf(wanted)
		if field := slices.Index(keys, name.Value); field >= 0 {
			c.check(item, fields[field].Type, where)
		} else {
			c.unknown(name, keys, key)
		}
	}
}

// unknown reports a key that is none of a mapping's.
func (c *checker) unknown(name *yaml.Node, known []string, key string) {
	in := ""
	if key != "" {
		in = " in " + key
	}
	hint := cmp.Or(string(diag.Suggest(name.Value, known)), "; allowed: "+strings.Join(known, ", "))
	c.errorf(name, "unknown key %q%s%s", name.Value, in, hint)
}

// plainDates makes what looks like a date the text that the operator wrote.
func plainDates(node *yaml.Node) {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!timestamp" {
		node.Tag = "!!str"
	}
	for _, child := range node.Content {
		plainDates(child)
	}
}

func typeWords(wanted reflect.Type) string {
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

// FieldsOf are the fields of a type by their keys, in order; those of embedded ones are among them.
func FieldsOf(structType reflect.Type) (keys []string, fields []reflect.StructField) {
	for _, field := range reflect.VisibleFields(structType) {
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if !field.Anonymous && field.IsExported() && key != "-" {
			keys, fields = append(keys, cmp.Or(key, strings.ToLower(field.Name))), append(fields, field)
		}
	}
	return keys, fields
}
