package hclfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

// rewriter writes the imported resources as configuration.
type rewriter struct {
	resources []importedResource
	deleted   map[string]bool                   // paths
	added     map[string]map[string]*expression // address → attribute → expression
	mapped    map[string]*mapped                // attribute → what replaces it
	mappings  []*mapped                         // in the order of the action
	result    *Regenerated
	text      strings.Builder // of the resources so far, not laid out
}

// argument is an attribute that is written, in a block or in a nested attribute, or an entry of a map.
type argument struct {
	name       string
	expression string
}

// arguments are the attributes of one object: their schemas, their values in the state and what of these is sensitive.
type arguments struct {
	path      string // of the object
	schemas   map[string]tfjson.Attribute
	values    map[string]any
	sensitive any
	added     map[string]*expression
}

// resource writes the block of a resource.
func (w *rewriter) resource(r importedResource) error {
	schema := *r.schema
	if id := schema.Attributes["id"]; id.Optional && id.Computed {
		// The older SDK declares every id so and refuses a value.
		schema.Attributes = maps.Clone(schema.Attributes)
		delete(schema.Attributes, "id")
	}
	fmt.Fprintf(&w.text, "resource %s %s {\n", quoted(r.Type), quoted(r.Name))
	return w.body(schema, r.Values, r.Sensitive, r.Address())
}

// body writes what is in the block of a resource, or in one in it, and its end.
func (w *rewriter) body(schema tfjson.Block, values map[string]any, sensitive any, path string) error {
	all, err := w.arguments(arguments{path, schema.Attributes, values, sensitive, w.added[path]})
	if err != nil {
		return err
	}
	for _, a := range all {
		fmt.Fprintf(&w.text, "%s = %s\n", a.name, a.expression)
	}
	for _, name := range value.Keys(schema.BlockTypes) {
		at := path + "." + name
		if w.deleted[at] || values[name] == nil {
			continue
		}
		if err := w.blocks(name, schema.BlockTypes[name], values[name], part(sensitive, name), at); err != nil {
			return err
		}
	}
	w.text.WriteString("}\n")
	return nil
}

// blocks writes the nested blocks of one type.
func (w *rewriter) blocks(name string, schema tfjson.NestedBlock, v, sensitive any, path string) error {
	all, err := objects(schema.NestingMode, v, sensitive, path)
	if err != nil {
		return err
	}
	for _, o := range all {
		if schema.NestingMode == tfjson.NestingGroup && isUnset(o.values) {
			continue
		}
		w.text.WriteString(name)
		if schema.NestingMode == tfjson.NestingMap {
			w.text.WriteString(" " + quoted(o.key))
		}
		w.text.WriteString(" {\n")
		if err := w.body(schema.Block, o.values, o.sensitive, path); err != nil {
			return err
		}
	}
	return nil
}

// isUnset tells whether nothing in a value is set.
func isUnset(v any) bool {
	switch c := v.(type) {
	case []any:
		return len(c) == 0
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(c)), func(inner any) bool { return !isUnset(inner) })
	default:
		return v == nil
	}
}

// nestedObject is one of the objects of nested blocks or nested attributes, and what of it is sensitive.
type nestedObject struct {
	key       string // of a map; else the index
	values    map[string]any
	sensitive any
}

// objects returns the objects that a nesting mode keeps in a value, those of a map sorted by key. The value is not null.
func objects(mode string, v, sensitive any, path string) ([]nestedObject, error) {
	items, isList := v.([]any)
	object, isObject := v.(map[string]any)
	switch {
	case (mode == tfjson.NestingSingle || mode == tfjson.NestingGroup) && isObject:
		return []nestedObject{{"", object, sensitive}}, nil
	case (mode == tfjson.NestingList || mode == tfjson.NestingSet) && isList:
	case mode == tfjson.NestingMap && isObject:
	default:
		return nil, fmt.Errorf("the value at %s does not fit its nesting mode, %q", path, mode)
	}
	keys := value.Keys(object)
	for i := range items {
		keys = append(keys, strconv.Itoa(i))
	}
	var all []nestedObject
	for i, key := range keys {
		item := object[key]
		if isList {
			item = items[i]
		}
		values, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the state has no object at %s.%s", path, key)
		}
		all = append(all, nestedObject{key, values, part(sensitive, key)})
	}
	return all, nil
}

// arguments returns what is written of the attributes of one object, sorted by name.
func (w *rewriter) arguments(in arguments) ([]argument, error) {
	var all []argument
	names := slices.Concat(slices.Collect(maps.Keys(in.schemas)), slices.Collect(maps.Keys(in.added)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		schema, path := in.schemas[name], in.path+"."+name
		v, sensitive := in.values[name], part(in.sensitive, name)
		if schema.Sensitive {
			sensitive = true
		}
		var expression string
		var err error
		switch added := in.added[name]; {
		case added != nil:
			expression = w.addition(name, path, added)
		case !schema.Settable():
			continue
		case v != nil && !w.deleted[path]:
			expression, err = w.attribute(name, schema, v, sensitive, path)
		case schema.Required:
			w.warnf("the required argument %s has no value after the import; import_parameters_to_add gives arguments to a resource", path)
			continue
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if !hclsyntax.ValidIdentifier(name) {
			return nil, fmt.Errorf("the schema has an attribute whose name cannot be written: %q", name)
		}
		all = append(all, argument{name, expression})
	}
	return all, nil
}

// attribute returns the expression of an attribute that has a value: that of its mapping, or the value itself.
func (w *rewriter) attribute(name string, schema tfjson.Attribute, v, sensitive any, path string) (string, error) {
	if m := w.mapped[name]; m != nil && m.replaces(w, occurrence{path: path, value: v, sensitive: tfjson.IsSensitive(sensitive)}) {
		return m.expression.text, nil
	}
	if schema.Nested != nil {
		return w.nested(schema.Nested, v, sensitive, path)
	}
	if tfjson.IsSensitive(sensitive) {
		w.warnf("the sensitive value of %s is written to %s in the clear; a mapping to a variable keeps it out", path, RegeneratedFile)
	}
	return literalText(v), checkNumbers(v, path)
}

// nested returns the expression of an attribute that has attributes of its own.
func (w *rewriter) nested(schema *tfjson.NestedAttributes, v, sensitive any, path string) (string, error) {
	all, err := objects(schema.NestingMode, v, sensitive, path)
	if err != nil {
		return "", err
	}
	var list []string
	var named []argument
	for _, o := range all {
		inner, err := w.arguments(arguments{path: path, schemas: schema.Attributes, values: o.values, sensitive: o.sensitive})
		if err != nil {
			return "", err
		}
		list = append(list, object(inner))
		named = append(named, argument{o.key, object(inner)})
	}
	switch schema.NestingMode {
	case tfjson.NestingMap:
		return object(named), nil
	case tfjson.NestingList, tfjson.NestingSet:
		return tuple(list), nil
	default:
		return list[0], nil
	}
}

// maxExponent bounds the numbers that are written: readers of HCL write them in full.
const maxExponent = 1000

// checkNumbers refuses numbers of the state that are too large or too small for readers.
func checkNumbers(v any, path string) error {
	fits := value.Walk(v, func(_ string, leaf any) bool {
		number, _ := leaf.(json.Number)
		_, text, found := strings.Cut(strings.ToLower(number.String()), "e")
		exponent, err := strconv.Atoi(text)
		return !found || err == nil && max(exponent, -exponent) <= maxExponent
	})
	if !fits {
		return fmt.Errorf("the number at %s is too large or too small", path)
	}
	return nil
}

// literalText returns the literal of a value of the state.
func literalText(v any) string {
	switch c := v.(type) {
	case string:
		return quoted(c)
	case []any:
		return tuple(value.Each(c, literalText))
	case map[string]any:
		return object(value.Each(value.Keys(c), func(key string) argument { return argument{key, literalText(c[key])} }))
	default:
		return string(value.MustJSON(v)) // HCL writes null, booleans and numbers as JSON does
	}
}

// part returns what is sensitive of an element of a map, object, list or set; true stands for all of it.
func part(sensitive any, key string) any {
	switch marks := sensitive.(type) {
	case map[string]any:
		return marks[key]
	case []any:
		switch i, err := strconv.ParseUint(key, 10, 32); {
		case err != nil:
			return sensitive
		case i < uint64(len(marks)):
			return marks[i]
		default:
			return nil
		}
	default:
		return sensitive
	}
}

// warnf adds a warning unless it has been given before, of another nested block with the same path.
func (w *rewriter) warnf(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.result.Warnings, text) {
		w.result.Warnings = append(w.result.Warnings, text)
	}
}

// quoted returns a string literal.
func quoted(text string) string { return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes()) }

func tuple(elements []string) string { return "[" + strings.Join(elements, ", ") + "]" }

// object returns an object of arguments. Its keys are always quoted: not every identifier may stand there, such as "for".
func object(arguments []argument) string {
	if len(arguments) == 0 {
		return "{}"
	}
	var out strings.Builder
	out.WriteString("{\n")
	for _, a := range arguments {
		fmt.Fprintf(&out, "%s = %s\n", quoted(a.name), a.expression)
	}
	out.WriteString("}")
	return out.String()
}

// constant returns the value of an expression without variables, a null of no type for any other.
func constant(expression hcl.Expression) cty.Value {
	value, diags := expression.Value(nil)
	if diags.HasErrors() || value.IsNull() || !value.IsKnown() {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	return value
}

// literal returns the text of an expression that is a string literal, "" for any other.
func literal(expression hcl.Expression) string {
	if value := constant(expression); value.Type() == cty.String {
		return value.AsString()
	}
	return ""
}

// isSensitive tells whether a block says sensitive = true.
func isSensitive(block *hclsyntax.Block) bool {
	sensitive, ok := block.Body.Attributes["sensitive"]
	return ok && constant(sensitive.Expr).RawEquals(cty.True)
}
