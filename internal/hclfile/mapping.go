package hclfile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"service-adapter/internal/diag"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

// An expression is a parsed parameter_name of an import list: the HCL expression, such as var.NAME, local.NAME or 10,
// that the template gets in place of the value of an attribute. It also contains the NAME if it is var.NAME, the value
// if it is a literal, and all of its references. parseExpression returns it; the zero value is not valid.
type expression struct {
	text       string          // the HCL text to write
	variable   string          // NAME if the expression is var.NAME, else ""
	literal    any             // the value if the expression is a literal string, number or bool, else nil
	traversals []hcl.Traversal // all references in the expression
}

// A mappingEntry is a parsed entry of import_parameter_mappings, which replaces the values of all attributes with one
// name by an expression. It also records whether it concerned an attribute and, if the expression is a variable, the
// values that it has replaced so far. The zero value is not valid, because it has no expression.
type mappingEntry struct {
	attribute   string
	expression  *expression
	used        bool         // the entry concerned at least one attribute
	occurrences []occurrence // the values that it replaced, if the expression is a variable
}

// An occurrence is a value of an attribute that an import mapping replaced by a variable. It consists of the path of
// the attribute, such as "aws_instance.web.size", the value, and whether the value is sensitive. The value is that in
// the state or, for an argument of import_parameters_to_add, the literal in that list, which never counts as sensitive.
type occurrence struct {
	path      string
	value     any
	sensitive bool
}

// parseLists parses the three lists of the import action, r.Delete, r.Add and r.Mappings, into w.deleted, w.added,
// w.mapped and w.mappings. w.resources must be set. It adds warnings to w.result for paths in Delete that are not those
// of an attribute or block of an imported resource, for paths in Add that are not those of an argument of one, and for
// attributes that are mapped twice, of which the last mapping counts. It returns an error for a parameter_name that is
// not an expression in one line, and for an addition of an argument that the type of the resource does not have or that
// only the provider sets. The lists are incomplete then.
func (w *rewriter) parseLists(r Regeneration) error {
	w.deleted, w.added, w.mapped = map[string]bool{}, map[string]map[string]*expression{}, map[string]*mappingEntry{}
	for _, path := range r.Delete {
		w.deleted[path] = true
		if resource, inner := w.findTarget(path); resource == nil || !resource.schema.Has(inner) {
			w.warnf("import_parameters_to_delete: %q is not an attribute or block of an imported resource", path)
		}
	}
	for _, entry := range r.Add {
		if err := w.addArgument(entry); err != nil {
			return fmt.Errorf("import_parameters_to_add: %w", err)
		}
	}
	for _, entry := range r.Mappings {
		parsed, err := parseExpression(entry)
		if err != nil {
			return fmt.Errorf("import_parameter_mappings: %w", err)
		}
		if w.mapped[entry.TFVariable] != nil {
			w.warnf("import_parameter_mappings: %q is mapped twice, only the last entry has an effect",
				entry.TFVariable)
			w.mappings = slices.DeleteFunc(w.mappings,
				func(m *mappingEntry) bool { return m.attribute == entry.TFVariable })
		}
		m := &mappingEntry{attribute: entry.TFVariable, expression: parsed}
		w.mapped[entry.TFVariable] = m
		w.mappings = append(w.mappings, m)
	}
	return nil
}

// findTarget returns the imported resource that a path TYPE.NAME.… begins with, and the names that follow, such as
// ["timeouts" "create"]. It does not check whether the resource has an attribute or block of these names. Both results
// are nil if the resource is not imported, or if no name follows.
func (w *rewriter) findTarget(path string) (*importedResource, []string) {
	parts := strings.Split(path, ".")
	if len(parts) < 3 {
		return nil, nil
	}
	for i := range w.resources {
		if w.resources[i].Type == parts[0] && w.resources[i].Name == parts[1] {
			return &w.resources[i], parts[2:]
		}
	}
	return nil, nil
}

// metaArguments are the arguments that every resource accepts without a schema, except those that change its address.
var metaArguments = []string{"depends_on", "provider"} //nolint:gochecknoglobals // a constant table

// addArgument records an entry of import_parameters_to_add in w.added, where it replaces an earlier entry for the
// same argument. The path of the argument is entry.TFVariable. addArgument returns an error if the parameter_name,
// entry.Parameter, is not an expression in one line, or if the type of the imported resource has no such attribute
// that a configuration may set; depends_on and provider are always allowed. If the parameter_name is valid but the
// path is not TYPE.NAME.ARGUMENT of an imported resource, addArgument adds a warning to w.result, ignores the entry
// and returns nil.
func (w *rewriter) addArgument(entry Mapping) error {
	parsed, err := parseExpression(entry)
	if err != nil {
		return err
	}
	resource, path := w.findTarget(entry.TFVariable)
	if resource == nil || len(path) != 1 {
		w.warnf("import_parameters_to_add: %q is not an argument of an imported resource, TYPE.NAME.ARGUMENT; "+
			"imported are %s", entry.TFVariable, diag.Names(value.Convert(w.resources, importedResource.Address)))
		return nil
	}
	name := path[0]
	allowed := append(settable(resource.schema.Attributes), metaArguments...)
	if !slices.Contains(allowed, name) {
		return fmt.Errorf("%s has no argument %q%s; its arguments are %s",
			resource.Type, name, diag.Suggest(name, allowed), strings.Join(allowed, ", "))
	}
	address := resource.Address()
	if w.added[address] == nil {
		w.added[address] = map[string]*expression{}
	}
	w.added[address][name] = parsed
	return nil
}

// settable returns the sorted names of the attributes that a configuration may set, because their schema declares them
// required or optional. attributes are the schemas by name. The result is empty if there are none.
func settable(attributes map[string]tfjson.Attribute) []string {
	return slices.DeleteFunc(value.Keys(attributes), func(name string) bool { return !attributes[name].Settable() })
}

// parseExpression parses the parameter_name of an entry. A text that is only a name, such as size,
// stands for the variable of that name, var.size, unless it is true, false or null. Any other text stands for itself.
// White space and comments before and after the expression are dropped. parseExpression returns nil and an error if
// the text is empty, is not an HCL expression, or has several lines. It does not check whether the variables exist.
func parseExpression(entry Mapping) (*expression, error) {
	text := strings.TrimSpace(entry.Parameter)
	parsed, diags := hclsyntax.ParseExpression([]byte(text), "parameter_name", hcl.InitialPos)
	if diags.HasErrors() || strings.Contains(text, "\n") {
		return nil, fmt.Errorf("parameter_name %q of tf_variable %q must be an expression in one line, "+
			"such as var.NAME, local.NAME or 10", entry.Parameter, entry.TFVariable)
	}
	within := parsed.Range() // without comments before and after the expression
	e := &expression{text: text[within.Start.Byte:within.End.Byte], traversals: parsed.Variables()}
	traversal, diags := hcl.AbsTraversalForExpr(parsed)
	isName := !diags.HasErrors()
	switch {
	case isName && len(traversal) == 1 && hclsyntax.ValidIdentifier(e.text) &&
		!slices.Contains([]string{"true", "false", "null"}, e.text):
		// The brokerpak specification calls it "the broker input variable name".
		e.text, e.variable = "var."+e.text, e.text
	case isName && len(traversal) == 2 && traversal.RootName() == "var":
		if step, ok := traversal[1].(hcl.TraverseAttr); ok {
			e.variable = step.Name
		}
	default:
		e.literal = literalScalar(parsed)
	}
	return e, nil
}

// literalScalar returns the value of a constant expression: a string, a bool, or a json.Number. It returns nil for any
// other expression, such as a reference, a function call, a list, an object or null.
func literalScalar(parsed hclsyntax.Expression) any {
	switch v := constant(parsed); {
	case v.Type() == cty.Bool:
		return v.True()
	case v.Type() == cty.String:
		return v.AsString()
	case v.Type() == cty.Number:
		return json.Number(v.AsBigFloat().Text('g', -1))
	default:
		return nil
	}
}

// addedExpression returns the HCL text of an argument that import_parameters_to_add adds. name is the name of the
// argument, path its path with the resource, such as "aws_instance.web.size", and added the expression of the entry.
//
// If import_parameter_mappings has a mapping of the attribute name, the result is the expression of the mapping, which
// counts as used; otherwise it is the text of added. If the mapping applies and added is a literal, the literal becomes
// a value of the variable of the mapping, if its expression is a variable. A literal number that is too large for a
// variable is returned instead, and mappingEntry.replaces adds a warning with the path.
func (w *rewriter) addedExpression(name, path string, added *expression) string {
	m := w.mapped[name]
	if m == nil {
		return added.text
	}
	m.used = true
	if added.literal != nil && !m.replaces(w, occurrence{path: path, value: added.literal}) {
		return added.text
	}
	return m.expression.text
}

// replaces reports whether the mapping replaces a value, and marks the mapping as used. o is the value, from the
// state or of an added argument, with its path and sensitivity. If the expression of the mapping is a variable, o is
// recorded in m.occurrences. replaces returns false, and adds a warning to the result of w, if the value contains a
// number that is too large for a variable: an integer of more than 64 bits, or a number beyond float64. o is not
// recorded then, and the caller must write the value, also that of an added argument, instead of the expression.
// Fractions are not checked, although a variable holds them only with the precision of float64. It returns true for
// every value if the expression is not a variable.
func (m *mappingEntry) replaces(w *rewriter, o occurrence) bool {
	m.used = true
	if m.expression.variable == "" {
		return true
	}
	if value.CheckNumbers(value.Normalise(o.value)) != nil {
		w.warnf("%s keeps its literal value, because its number is too large for a value of %s",
			o.path, m.expression.text)
		return false
	}
	m.occurrences = append(m.occurrences, o)
	return true
}

// assignValues determines the values of the variables from the occurrences of the mappings, and stores them and the
// names of the sensitive ones in w.result. A variable gets the first of its values that is not a list or map, or else
// the first value. It is sensitive if one of its occurrences is. A variable without occurrences gets no value.
// assignValues adds a warning to w.result for each occurrence with another value. It must be called once, after all
// resources have been written.
func (w *rewriter) assignValues() {
	byVariable := map[string][]occurrence{}
	for _, m := range w.mappings {
		byVariable[m.expression.variable] = append(byVariable[m.expression.variable], m.occurrences...)
	}
	for _, name := range value.Keys(byVariable) {
		occurrences := byVariable[name]
		if len(occurrences) == 0 {
			continue
		}
		scalar := slices.IndexFunc(occurrences, func(o occurrence) bool { return isScalar(o.value) })
		chosen := occurrences[max(scalar, 0)]
		w.result.Values[name] = value.Normalise(chosen.value)
		if slices.ContainsFunc(occurrences, func(o occurrence) bool { return o.sensitive }) {
			w.result.Sensitive = append(w.result.Sensitive, name)
		}
		for _, other := range occurrences {
			if !reflect.DeepEqual(value.Normalise(other.value), value.Normalise(chosen.value)) {
				w.warnf("%s and %s have different values, and both become var.%s: the apply gives %s the value of %s",
					chosen.path, other.path, name, other.path, chosen.path)
			}
		}
	}
}

// isScalar reports whether a value is neither a list nor a map. Null is a scalar.
func isScalar(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	default:
		return true
	}
}

// warnUnused adds a warning to w.result for each mapping that concerned no attribute. The warning states the reason:
// no written resource contains the attribute, for example because it has no value or was deleted, it is a nested
// block, which cannot be mapped, or no imported resource has an attribute of that name that a configuration may set.
// warnUnused must be called after all resources have been written.
func (w *rewriter) warnUnused() {
	attributes, blocks := map[string]bool{}, map[string]bool{}
	for _, r := range w.resources {
		collectNames(r.schema.Attributes, r.schema.BlockTypes, attributes, blocks)
	}
	for _, m := range w.mappings {
		switch {
		case m.used:
		case attributes[m.attribute]:
			w.warnf("import_parameter_mappings: %q replaces nothing: "+
				"no written resource has a value of it after the import",
				m.attribute)
		case blocks[m.attribute]:
			w.warnf("import_parameter_mappings: %q is a nested block, which no expression can replace; "+
				"map the attributes in it", m.attribute)
		default:
			w.warnf("import_parameter_mappings: %q is not an attribute that can be set in an imported resource%s",
				m.attribute, diag.Suggest(m.attribute, value.Keys(attributes)))
		}
	}
}

// collectNames adds to attributes the names of all attributes that can be set, including nested ones, and to blocks the
// names of all nested blocks. Neither map may be nil. schemas and nestedBlocks are the attributes and blocks of one
// schema; both may be nil.
func collectNames(
	schemas map[string]tfjson.Attribute, nestedBlocks map[string]tfjson.NestedBlock, attributes, blocks map[string]bool,
) {
	for name, schema := range schemas {
		if schema.Settable() {
			attributes[name] = true
		}
		if schema.Nested != nil {
			collectNames(schema.Nested.Attributes, nil, attributes, blocks)
		}
	}
	for name, nested := range nestedBlocks {
		blocks[name] = true
		collectNames(nested.Block.Attributes, nested.Block.BlockTypes, attributes, blocks)
	}
}
