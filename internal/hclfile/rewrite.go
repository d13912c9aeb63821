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

// A rewriter generates the configuration of the imported resources. It holds the resources, the parsed lists of the
// import action, the result so far, and the text of the blocks so far, which is not yet formatted. result must be set;
// parseLists sets the lists.
type rewriter struct {
	resources []importedResource
	deleted   map[string]bool                   // the paths in import_parameters_to_delete
	added     map[string]map[string]*expression // address → attribute → expression
	mapped    map[string]*mappingEntry          // attribute → the mapping that replaces it
	mappings  []*mappingEntry                   // in the order of the action
	result    *Regenerated
	text      strings.Builder // the resources so far, not formatted
}

// An argument is a name and the HCL text of its expression, to be written as NAME = EXPRESSION: an attribute in a
// block or in a nested attribute, or an entry of a map, whose name is the key. The name is plain text without
// quotation marks or escapes; object quotes it.
type argument struct {
	name       string
	expression string
}

// arguments is the input of the method arguments: the attributes of one object, which is a resource, a nested block or
// an object of a nested attribute. It contains the path of the object, such as "aws_instance.web", the schemas of the
// attributes, their values in the state with sensitivity marks, and the arguments that import_parameters_to_add adds.
// added is nil if the object is not a resource or has none.
type arguments struct {
	path      string // of the object
	schemas   map[string]tfjson.Attribute
	values    map[string]any         // the values in the state
	sensitive any                    // the sensitivity marks of values
	added     map[string]*expression // the arguments that import_parameters_to_add adds
}

// writeResource appends the block of an imported resource to w.text. The block contains the values in the state that
// a configuration may set, changed by the additions, deletions and mappings of the import action, which w must
// already contain. An id that is both optional and computed is left out unless it is added. Warnings are added to
// w.result, and the entries of w.mappings record whether they were used and which values they replaced, for
// assignValues and warnUnused.
//
// writeResource returns an error if a name or a number cannot be written as HCL, or if a value does not have the form
// that the schema requires. After an error w.text ends in the middle of the block.
func (w *rewriter) writeResource(r importedResource) error {
	schema := *r.schema
	if id := schema.Attributes["id"]; id.Optional && id.Computed {
		// Resources of the older provider SDK declare every id as optional, but reject a value.
		schema.Attributes = maps.Clone(schema.Attributes)
		delete(schema.Attributes, "id")
	}
	fmt.Fprintf(&w.text, "resource %s %s {\n", quoted(r.Type), quoted(r.Name))
	return w.writeBody(schema, r.Values, r.Sensitive, r.Address())
}

// writeBody appends the content of the block of a resource or of a nested block, and the closing brace, to w.text. The
// caller has written the first line of the block. schema is the schema of the block, values are its values in the
// state, sensitive their sensitivity marks in the form of tfjson.Resource.Sensitive, and path is the path of the block,
// such as "aws_instance.web.timeouts".
//
// Arguments that import_parameters_to_add adds to a resource are always written. Other attributes that are null,
// deleted or cannot be set are left out. So are nested blocks that are null or deleted, and those of the nesting mode
// "group" in which everything is unset. Mappings replace values of attributes; see arguments. Warnings are added to
// w.result. writeBody returns an error if a number or the name of an attribute cannot be written as HCL, or if a
// value does not have the form that the schema requires; the text is incomplete then.
func (w *rewriter) writeBody(schema tfjson.Block, values map[string]any, sensitive any, path string) error {
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
		if err := w.writeBlocks(name, schema.BlockTypes[name], values[name], marksOf(sensitive, name), at); err != nil {
			return err
		}
	}
	w.text.WriteString("}\n")
	return nil
}

// writeBlocks appends the nested blocks of one type to w.text. name is the block type and schema its schema, v the
// value of the blocks in the state, which must not be null, sensitive its sensitivity marks, and path the path of the
// block type, such as "aws_instance.web.timeouts". All blocks of the type have this path. With the nesting mode "map",
// the key of each block is its label. A block of the nesting mode "group" in which everything is unset is left out.
// writeBlocks returns an error if v does not have the form that the nesting mode requires, or if the content of a block
// cannot be written; the text is incomplete then.
func (w *rewriter) writeBlocks(name string, schema tfjson.NestedBlock, v, sensitive any, path string) error {
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
		if err := w.writeBody(schema.Block, o.values, o.sensitive, path); err != nil {
			return err
		}
	}
	return nil
}

// isUnset reports whether a value of the state is null, an empty list or set, or an object or map in which everything
// is unset, such as an empty one. Empty texts, zero, false and lists with elements are set.
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

// A nestedObject is one of the objects of nested blocks or of a nested attribute, with its values by name, their
// sensitivity marks, and its key: the key in a map, the decimal index in a list or set, or "" for a single object.
type nestedObject struct {
	key       string // the key in a map; the index in a list
	values    map[string]any
	sensitive any // the sensitivity marks of values
}

// objects returns the objects in the value v of nested blocks or of a nested attribute. mode is the nesting mode of the
// schema: "single" and "group" require one object, "list" and "set" a list of objects, "map" a map of objects, which
// are returned sorted by key. v must not be null, and sensitive contains its sensitivity marks. The result is nil for
// an empty list or map. objects returns an error, which names the path, if v does not have the form that the mode
// requires, or if the mode is unknown.
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
		all = append(all, nestedObject{key, values, marksOf(sensitive, key)})
	}
	return all, nil
}

// arguments returns the arguments to write for the attributes of one object, sorted by name. Each argument that
// import_parameters_to_add adds is among them, even if it was deleted; see addedExpression for its expression. Of the
// other attributes, those that are null, deleted or cannot be set by a configuration are left out. arguments adds to
// w.result a warning for each required attribute that is left out, and for each sensitive value in the clear, and
// records which mappings were used and the values that they replaced. It returns nil and an error if the name of an
// attribute is not valid in HCL, a number is too large or too small, or a value does not fit its schema.
func (w *rewriter) arguments(in arguments) ([]argument, error) {
	var all []argument
	names := slices.Concat(slices.Collect(maps.Keys(in.schemas)), slices.Collect(maps.Keys(in.added)))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		schema, path := in.schemas[name], in.path+"."+name
		v, sensitive := in.values[name], marksOf(in.sensitive, name)
		if schema.Sensitive {
			sensitive = true
		}
		var expression string
		var err error
		switch added := in.added[name]; {
		case added != nil:
			expression = w.addedExpression(name, path, added)
		case !schema.Settable():
			continue
		case v != nil && !w.deleted[path]:
			expression, err = w.attributeExpression(name, schema, v, sensitive, path)
		case schema.Required:
			w.warnf("the required argument %s has no value after the import; "+
				"import_parameters_to_add adds arguments to a resource",
				path)
			continue
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		if !hclsyntax.ValidIdentifier(name) {
			return nil, fmt.Errorf("the schema contains the attribute %q, which is not a valid name in HCL", name)
		}
		all = append(all, argument{name, expression})
	}
	return all, nil
}

// attributeExpression returns the HCL text to write for the attribute name at a path, such as "aws_instance.web.size".
// v is its value in the state, which must not be null, and sensitive contains the sensitivity marks of v. If a mapping
// for the name of the attribute replaces the value, the result is the expression of the mapping, and the mapping
// records the value; see mappingEntry.replaces. Otherwise it is v as a literal.
//
// If v or a part of it is sensitive and is written as a literal, a warning is added to w.result. attributeExpression
// returns an error if a number in the literal is too large or too small to be written, if v does not fit the schema, or
// if the name of a nested attribute is not valid in HCL. The text must not be used then.
func (w *rewriter) attributeExpression(
	name string, schema tfjson.Attribute, v, sensitive any, path string,
) (string, error) {
	replaced := occurrence{path: path, value: v, sensitive: tfjson.IsSensitive(sensitive)}
	if m := w.mapped[name]; m != nil && m.replaces(w, replaced) {
		return m.expression.text, nil
	}
	if schema.Nested != nil {
		return w.nestedExpression(schema.Nested, v, sensitive, path)
	}
	if tfjson.IsSensitive(sensitive) {
		w.warnf("the sensitive value of %s is written to %s in the clear; "+
			"a mapping to a variable keeps it out of the file",
			path, RegeneratedFile)
	}
	return literalText(v), checkNumbers(v, path)
}

// nestedExpression returns the HCL text of the value v of an attribute with nested attributes: an object, or a tuple or
// map of objects, depending on the nesting mode of the schema. v is the value in the state, which must not be null,
// sensitive contains its sensitivity marks, and path is that of the attribute, which all of its objects share. Warnings
// are added to w.result, and mappings of the nested attributes record the values that they replace. nestedExpression
// returns "" and an error if v does not have the form that the nesting mode requires, or if a nested name or value
// cannot be written; see arguments.
func (w *rewriter) nestedExpression(schema *tfjson.NestedAttributes, v, sensitive any, path string) (string, error) {
	all, err := objects(schema.NestingMode, v, sensitive, path)
	if err != nil {
		return "", err
	}
	var list []string
	var named []argument
	for _, o := range all {
		inner, err := w.arguments(arguments{
			path: path, schemas: schema.Attributes, values: o.values, sensitive: o.sensitive,
		})
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

// maxExponent is the largest exponent, positive or negative, of a number that is written. HCL parsers expand numbers to
// all of their digits.
const maxExponent = 1000

// checkNumbers returns an error, which names the path but no value, if a value or a part of it is a json.Number with an
// exponent beyond maxExponent, 1000, in either direction. Numbers without an exponent are accepted, however long.
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

// literalText returns a value of the state as an HCL literal: null, a boolean, a json.Number, a string, a tuple, or an
// object with sorted keys. A Go value that cannot be encoded as JSON, which decoders do not return, becomes null.
// Exponents of numbers are not checked; see checkNumbers.
func literalText(v any) string {
	switch c := v.(type) {
	case string:
		return quoted(c)
	case []any:
		return tuple(value.Convert(c, literalText))
	case map[string]any:
		entry := func(key string) argument { return argument{key, literalText(c[key])} }
		return object(value.Convert(value.Keys(c), entry))
	default:
		return string(value.MustJSON(v)) // null, booleans and numbers have the same form in HCL and JSON
	}
}

// marksOf returns the sensitivity marks of one element of a map, object, list or set. key is the key, the name or the
// decimal index of the element, and sensitive contains the marks of the whole value. Marks that are true for the
// whole value are true for each element. marksOf returns nil if there are no marks for the element. If the marks are
// a list although the key is not an index, it returns the whole list, so that the element counts as sensitive if any
// part of the value is.
func marksOf(sensitive any, key string) any {
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

// warnf adds a warning to w.result, unless the result contains it already, as it does for several nested blocks with
// the same path.
func (w *rewriter) warnf(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.result.Warnings, text) {
		w.result.Warnings = append(w.result.Warnings, text)
	}
}

// quoted returns a text as an HCL string literal, with its quotation marks, in which quotation marks, backslashes, line
// breaks and the interpolations "${" and "%{" are escaped.
func quoted(text string) string { return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes()) }

// tuple returns an HCL tuple of expressions, each of which is HCL text, such as "[var.a, 10]". It returns "[]" without
// elements.
func tuple(elements []string) string { return "[" + strings.Join(elements, ", ") + "]" }

// object returns an HCL object with the arguments in their order, one per line, or "{}" without arguments. The keys are
// always quoted, because HCL does not allow every identifier as a bare key; "for" is an example.
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

// constant returns the value of a constant expression, which may also be a list or an object. If the expression refers
// to variables, calls functions or cannot be evaluated for another reason, or if its value is null or unknown, constant
// returns a null of the dynamic type.
func constant(expression hcl.Expression) cty.Value {
	value, diags := expression.Value(nil)
	if diags.HasErrors() || value.IsNull() || !value.IsKnown() {
		return cty.NullVal(cty.DynamicPseudoType)
	}
	return value
}

// literal returns the text of an expression that is a constant string, such as "a" or a heredoc without references. It
// returns "" for any other expression.
func literal(expression hcl.Expression) string {
	if value := constant(expression); value.Type() == cty.String {
		return value.AsString()
	}
	return ""
}

// isSensitive reports whether a block sets the argument sensitive to the constant true, or to the text "true" or "1",
// which OpenTofu accepts as well. It returns false for any other value and if the argument is missing.
func isSensitive(block *hclsyntax.Block) bool { return isTrue(block, "sensitive") }

// isTrue reports whether a block sets the named argument to the constant true, or to the text "true" or "1", which
// OpenTofu converts to true. It returns false for any other value and if the argument is missing.
func isTrue(block *hclsyntax.Block, name string) bool {
	argument, ok := block.Body.Attributes[name]
	if !ok {
		return false
	}
	setting := constant(argument.Expr)
	return setting.RawEquals(cty.True) || setting.RawEquals(cty.StringVal("true")) ||
		setting.RawEquals(cty.StringVal("1"))
}
