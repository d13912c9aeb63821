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

// expression is a parameter_name.
type expression struct {
	text       string
	variable   string          // NAME when it is var.NAME
	literal    any             // the value when it is a literal string, number or bool
	traversals []hcl.Traversal // of all that it refers to
}

// mapped is an entry of import_parameter_mappings.
type mapped struct {
	attribute   string
	expression  *expression
	used        bool
	occurrences []occurrence // the values it has replaced, when it is a variable
}

// occurrence is a value that a variable stands for.
type occurrence struct {
	path      string
	value     any
	sensitive bool
}

// entries reads the three lists of the action, and warns of paths that lead nowhere.
func (w *rewriter) entries(r Regeneration) error {
	w.deleted, w.added, w.mapped = map[string]bool{}, map[string]map[string]*expression{}, map[string]*mapped{}
	for _, path := range r.Delete {
		w.deleted[path] = true
		if resource, inner := w.target(path); resource == nil || !resource.schema.Has(inner) {
			w.warnf("import_parameters_to_delete: %q is nothing that an imported resource has", path)
		}
	}
	for _, entry := range r.Add {
		if err := w.add(entry); err != nil {
			return fmt.Errorf("import_parameters_to_add: %w", err)
		}
	}
	for _, entry := range r.Mappings {
		parsed, err := parseExpression(entry)
		if err != nil {
			return fmt.Errorf("import_parameter_mappings: %w", err)
		}
		if w.mapped[entry.TFVariable] != nil {
			w.warnf("import_parameter_mappings: %q is mapped twice, only the last entry has an effect", entry.TFVariable)
			w.mappings = slices.DeleteFunc(w.mappings, func(m *mapped) bool { return m.attribute == entry.TFVariable })
		}
		m := &mapped{attribute: entry.TFVariable, expression: parsed}
		w.mapped[entry.TFVariable] = m
		w.mappings = append(w.mappings, m)
	}
	return nil
}

// target splits a path into its imported resource and the names behind; nil when the resource is not imported or no name
// follows.
func (w *rewriter) target(path string) (*importedResource, []string) {
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

// metaArguments are arguments of every resource, which no schema has. They are the ones that do not change its address.
var metaArguments = []string{"depends_on", "provider"} //nolint:gochecknoglobals // a constant table

func (w *rewriter) add(entry Mapping) error {
	parsed, err := parseExpression(entry)
	if err != nil {
		return err
	}
	resource, path := w.target(entry.TFVariable)
	if resource == nil || len(path) != 1 {
		w.warnf("import_parameters_to_add: %q is no argument of an imported resource, TYPE.NAME.ARGUMENT; imported are %s",
			entry.TFVariable, diag.Names(value.Each(w.resources, importedResource.Address)))
		return nil
	}
	name := path[0]
	allowed := append(settable(resource.schema.Attributes), metaArguments...)
	if !slices.Contains(allowed, name) {
		return fmt.Errorf("%s has no argument %q%s; its arguments are %s", resource.Type, name, diag.Suggest(name, allowed), strings.Join(allowed, ", "))
	}
	address := resource.Address()
	if w.added[address] == nil {
		w.added[address] = map[string]*expression{}
	}
	w.added[address][name] = parsed
	return nil
}

// settable returns the sorted names of the attributes that a configuration may set.
func settable(attributes map[string]tfjson.Attribute) []string {
	return slices.DeleteFunc(value.Keys(attributes), func(name string) bool { return !attributes[name].Settable() })
}

// parseExpression reads a parameter_name.
func parseExpression(entry Mapping) (*expression, error) {
	text := strings.TrimSpace(entry.Parameter)
	parsed, diags := hclsyntax.ParseExpression([]byte(text), "parameter_name", hcl.InitialPos)
	if diags.HasErrors() || strings.Contains(text, "\n") {
		return nil, fmt.Errorf("parameter_name %q of tf_variable %q must be an expression in one line, such as var.NAME, local.NAME or 10",
			entry.Parameter, entry.TFVariable)
	}
	within := parsed.Range() // comments around it are left out
	e := &expression{text: text[within.Start.Byte:within.End.Byte], traversals: parsed.Variables()}
	traversal, diags := hcl.AbsTraversalForExpr(parsed)
	isName := !diags.HasErrors()
	switch {
	case isName && len(traversal) == 1 && hclsyntax.ValidIdentifier(text) && !slices.Contains([]string{"true", "false", "null"}, text):
		e.text, e.variable = "var."+text, text // "the broker input variable name", as the specification has it
	case isName && len(traversal) == 2 && traversal.RootName() == "var":
		if step, ok := traversal[1].(hcl.TraverseAttr); ok {
			e.variable = step.Name
		}
	default:
		e.literal = literalScalar(parsed)
	}
	return e, nil
}

// literalScalar returns the value of an expression that is a string, a number or a bool without variables, else nil.
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

// addition returns the expression of an added argument. A mapping has the last word about it as well.
func (w *rewriter) addition(name, path string, added *expression) string {
	m := w.mapped[name]
	if m == nil {
		return added.text
	}
	m.used = true
	if added.literal != nil {
		m.replaces(w, occurrence{path: path, value: added.literal})
	}
	return m.expression.text
}

// replaces notes a value that the mapping is about to replace. It is false for one that could not be given to the variable
// unchanged, which then stays.
func (m *mapped) replaces(w *rewriter, o occurrence) bool {
	m.used = true
	if m.expression.variable == "" {
		return true
	}
	if value.CheckNumbers(value.Normalise(o.value)) != nil {
		w.warnf("%s stays as it is: its number is too large for the value of %s", o.path, m.expression.text)
		return false
	}
	m.occurrences = append(m.occurrences, o)
	return true
}

// values works out which values the variables stand for: the first that is no list and no map, else the first.
func (w *rewriter) values() {
	all := map[string][]occurrence{}
	for _, m := range w.mappings {
		all[m.expression.variable] = append(all[m.expression.variable], m.occurrences...)
	}
	for _, name := range value.Keys(all) {
		found := all[name]
		if len(found) == 0 {
			continue
		}
		chosen := found[max(slices.IndexFunc(found, func(o occurrence) bool { return isScalar(o.value) }), 0)]
		w.result.Values[name] = value.Normalise(chosen.value)
		if slices.ContainsFunc(found, func(o occurrence) bool { return o.sensitive }) {
			w.result.Sensitive = append(w.result.Sensitive, name)
		}
		for _, other := range found {
			if !reflect.DeepEqual(value.Normalise(other.value), value.Normalise(chosen.value)) {
				w.warnf("%s and %s have different values, and both become var.%s: the apply gives %s the value of %s",
					chosen.path, other.path, name, other.path, chosen.path)
			}
		}
	}
}

func isScalar(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	default:
		return true
	}
}

// unused warns of mappings that have replaced nothing.
func (w *rewriter) unused() {
	attributes, blocks := map[string]bool{}, map[string]bool{}
	for _, r := range w.resources {
		names(r.schema.Attributes, r.schema.BlockTypes, attributes, blocks)
	}
	for _, m := range w.mappings {
		switch {
		case m.used:
		case attributes[m.attribute]:
			w.warnf("import_parameter_mappings: %q replaces nothing: no resource has a value of it after the import that is written", m.attribute)
		case blocks[m.attribute]:
			w.warnf("import_parameter_mappings: %q is a nested block, which no expression can replace; map the attributes in it", m.attribute)
		default:
			w.warnf("import_parameter_mappings: %q is no attribute that can be set in an imported resource%s",
				m.attribute, diag.Suggest(m.attribute, value.Keys(attributes)))
		}
	}
}

// names collects the names of all attributes that can be set, also of those in attributes, and of all nested blocks.
func names(of map[string]tfjson.Attribute, in map[string]tfjson.NestedBlock, attributes, blocks map[string]bool) {
	for name, schema := range of {
		if schema.Settable() {
			attributes[name] = true
		}
		if schema.Nested != nil {
			names(schema.Nested.Attributes, nil, attributes, blocks)
		}
	}
	for name, nested := range in {
		blocks[name] = true
		names(nested.Block.Attributes, nested.Block.BlockTypes, attributes, blocks)
	}
}
