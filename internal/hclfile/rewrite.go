package hclfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
}

// argument is an attribute that is written, in a block or in a nested attribute.
type argument struct {
	name   string
	tokens hclwrite.Tokens
}

// arguments are the attributes of one object: their schemas, their values in the state and what of these is sensitive.
type arguments struct {
	path      string // of the object
	schemas   map[string]tfjson.Attribute
	values    map[string]any
	sensitive any
	added     map[string]*expression
}

// resource appends the block of a resource.
func (w *rewriter) resource(file *hclwrite.Body, r importedResource) error {
	schema := *r.schema
	if id := schema.Attributes["id"]; id.Optional && id.Computed {
		// The older SDK declares every id so and refuses a value.
		schema.Attributes = maps.Clone(schema.Attributes)
		delete(schema.Attributes, "id")
	}
	body := file.AppendNewBlock("resource", []string{r.Type, r.Name}).Body()
	return w.body(body, schema, r.Values, r.Sensitive, r.Address())
}

// body fills the block of a resource, or one in it.
func (w *rewriter) body(body *hclwrite.Body, schema tfjson.Block, values map[string]any, sensitive any, path string) error {
	all, err := w.arguments(arguments{path, schema.Attributes, values, sensitive, w.added[path]})
	if err != nil {
		return err
	}
	for _, a := range all {
		body.SetAttributeRaw(a.name, a.tokens)
	}
	for _, name := range value.Keys(schema.BlockTypes) {
		at := path + "." + name
		if w.deleted[at] || values[name] == nil {
			continue
		}
		if err := w.blocks(body, name, schema.BlockTypes[name], values[name], part(sensitive, name), at); err != nil {
			return err
		}
	}
	return nil
}

// blocks appends the nested blocks of one type.
func (w *rewriter) blocks(body *hclwrite.Body, name string, schema tfjson.NestedBlock, v, sensitive any, path string) error {
	all, err := objects(schema.NestingMode, v, path)
	if err != nil {
		return err
	}
	for _, o := range all {
		if schema.NestingMode == tfjson.NestingGroup && isUnset(o.values) {
			continue
		}
		var labels []string
		if schema.NestingMode == tfjson.NestingMap {
			labels = []string{o.key}
		}
		block := body.AppendNewBlock(name, labels)
		if err := w.body(block.Body(), schema.Block, o.values, o.sensitive(sensitive), path); err != nil {
			return err
		}
	}
	return nil
}

// isUnset tells whether nothing in an object is set.
func isUnset(object map[string]any) bool {
	for _, v := range object {
		switch c := v.(type) {
		case nil:
		case []any:
			if len(c) > 0 {
				return false
			}
		case map[string]any:
			if !isUnset(c) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// nestedObject is one of the objects of nested blocks or nested attributes.
type nestedObject struct {
	values map[string]any
	inMap  bool
	key    string // of a map
	index  int    // of a list or set, else -1
}

// sensitive returns the object's part of the marks of all the objects.
func (o nestedObject) sensitive(marks any) any {
	switch {
	case o.inMap:
		return part(marks, o.key)
	case o.index >= 0:
		return element(marks, o.index)
	default:
		return marks
	}
}

// objects returns the objects that a nesting mode keeps in a value, those of a map sorted by key. The value is not null.
func objects(mode string, v any, path string) ([]nestedObject, error) {
	list, isList := v.([]any)
	object, isObject := v.(map[string]any)
	var all []nestedObject
	switch {
	case (mode == tfjson.NestingSingle || mode == tfjson.NestingGroup) && isObject:
		return []nestedObject{{values: object, index: -1}}, nil
	case (mode == tfjson.NestingList || mode == tfjson.NestingSet) && isList:
		for i, item := range list {
			values, ok := item.(map[string]any)
			if !ok {
				return nil, fmt.Errorf("the state has no object at %s.%d", path, i)
			}
			all = append(all, nestedObject{values: values, index: i})
		}
		return all, nil
	case mode == tfjson.NestingMap && isObject:
		for _, key := range value.Keys(object) {
			values, ok := object[key].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("the state has no object at %s.%s", path, key)
			}
			all = append(all, nestedObject{values: values, inMap: true, key: key, index: -1})
		}
		return all, nil
	default:
		return nil, fmt.Errorf("the value at %s does not fit its nesting mode, %q", path, mode)
	}
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
		var tokens hclwrite.Tokens
		var err error
		switch added := in.added[name]; {
		case added != nil:
			tokens = w.addition(name, path, added)
		case !schema.Settable():
			continue
		case v != nil && !w.deleted[path]:
			tokens, err = w.attribute(name, schema, v, sensitive, path)
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
		all = append(all, argument{name, tokens})
	}
	return all, nil
}

// attribute returns the expression of an attribute that has a value: that of its mapping, or the value itself.
func (w *rewriter) attribute(name string, schema tfjson.Attribute, v, sensitive any, path string) (hclwrite.Tokens, error) {
	if m := w.mapped[name]; m != nil && m.replaces(w, occurrence{path: path, value: v, sensitive: isSensitive(sensitive)}) {
		return m.expression.tokens, nil
	}
	if schema.Nested != nil {
		return w.nested(schema.Nested, v, sensitive, path)
	}
	if isSensitive(sensitive) {
		w.warnf("the sensitive value of %s is written to %s in the clear; a mapping to a variable keeps it out", path, RegeneratedFile)
	}
	return literalTokens(v, path)
}

// nested returns the expression of an attribute that has attributes of its own.
func (w *rewriter) nested(schema *tfjson.NestedAttributes, v, sensitive any, path string) (hclwrite.Tokens, error) {
	all, err := objects(schema.NestingMode, v, path)
	if err != nil {
		return nil, err
	}
	var list []hclwrite.Tokens
	var named []hclwrite.ObjectAttrTokens
	for _, o := range all {
		inner, err := w.arguments(arguments{path: path, schemas: schema.Attributes, values: o.values, sensitive: o.sensitive(sensitive)})
		if err != nil {
			return nil, err
		}
		var attributes []hclwrite.ObjectAttrTokens
		for _, a := range inner {
			attributes = append(attributes, hclwrite.ObjectAttrTokens{Name: quoted(a.name), Value: a.tokens})
		}
		tokens := hclwrite.TokensForObject(attributes)
		list = append(list, tokens)
		named = append(named, hclwrite.ObjectAttrTokens{Name: quoted(o.key), Value: tokens})
	}
	switch schema.NestingMode {
	case tfjson.NestingMap:
		return hclwrite.TokensForObject(named), nil
	case tfjson.NestingList, tfjson.NestingSet:
		return hclwrite.TokensForTuple(list), nil
	default:
		return list[0], nil
	}
}

// quoted returns a string literal. Keys of objects are always quoted: not every identifier may stand there, such as "for".
func quoted(text string) hclwrite.Tokens { return hclwrite.TokensForValue(cty.StringVal(text)) }

// literalTokens returns the literal of a value of the state.
func literalTokens(v any, path string) (hclwrite.Tokens, error) {
	switch c := v.(type) {
	case nil:
		return hclwrite.TokensForValue(cty.NullVal(cty.DynamicPseudoType)), nil
	case bool:
		return hclwrite.TokensForValue(cty.BoolVal(c)), nil
	case string:
		return quoted(c), nil
	case json.Number:
		return numberTokens(c, path)
	case []any:
		var items []hclwrite.Tokens
		for _, item := range c {
			tokens, err := literalTokens(item, path)
			if err != nil {
				return nil, err
			}
			items = append(items, tokens)
		}
		return hclwrite.TokensForTuple(items), nil
	case map[string]any:
		var items []hclwrite.ObjectAttrTokens
		for _, key := range value.Keys(c) {
			tokens, err := literalTokens(c[key], path)
			if err != nil {
				return nil, err
			}
			items = append(items, hclwrite.ObjectAttrTokens{Name: quoted(key), Value: tokens})
		}
		return hclwrite.TokensForObject(items), nil
	default:
		return nil, fmt.Errorf("the state has a %T at %s", v, path)
	}
}

// maxExponent bounds the numbers that are written: HCL as it is generated has no exponents, so they are written in full.
const maxExponent = 1000

func numberTokens(number json.Number, path string) (hclwrite.Tokens, error) {
	if _, text, found := strings.Cut(strings.ToLower(number.String()), "e"); found {
		if exponent, err := strconv.Atoi(text); err != nil || exponent > maxExponent || exponent < -maxExponent {
			return nil, fmt.Errorf("the number at %s is too large or too small", path)
		}
	}
	parsed, err := cty.ParseNumberVal(number.String())
	if err != nil {
		return nil, fmt.Errorf("the state has no number at %s", path)
	}
	return hclwrite.TokensForValue(parsed), nil
}

// part returns what is sensitive of an element of a map or object; true stands for all of it.
func part(sensitive any, name string) any {
	if marks, ok := sensitive.(map[string]any); ok {
		return marks[name]
	}
	return sensitive
}

// element is the same for a list or set.
func element(sensitive any, i int) any {
	marks, ok := sensitive.([]any)
	switch {
	case !ok:
		return sensitive
	case i < len(marks):
		return marks[i]
	default:
		return nil
	}
}

// isSensitive tells whether anything in a value is sensitive.
func isSensitive(sensitive any) bool {
	switch c := sensitive.(type) {
	case bool:
		return c
	case []any:
		return slices.ContainsFunc(c, isSensitive)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(c)), isSensitive)
	default:
		return false
	}
}

// warnf adds a warning unless it has been given before, of another nested block with the same path.
func (w *rewriter) warnf(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.result.Warnings, text) {
		w.result.Warnings = append(w.result.Warnings, text)
	}
}
