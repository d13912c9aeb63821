package brokerpak

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// types are the JSON types an input may have; the empty one admits any value.
var types = []string{"", "object", "boolean", "array", "number", "string", "integer"} //nolint:gochecknoglobals // a constant table

// attributeForm is how a tf_attribute begins.
var attributeForm = regexp.MustCompile(`^([-a-zA-Z0-9_]*\.[-a-zA-Z0-9_]*){2}`)

func (d *definition) variables(what string, target *[]Variable) field {
	return func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			*target = append(*target, d.variable(what, element))
		})
	}
}

func (d *definition) variable(what string, element *yaml.Node) Variable {
	variable := Variable{Pos: d.pos(element)}
	at := d.mapping(element, "an entry of "+what, false, fields{
		{"field_name", d.text("field_name", &variable.Name)},
		{"type", d.typeName(&variable.Type)},
		{"details", d.text("details", &variable.Details)},
		{"required", d.boolean("required", &variable.Required)},
		{"nullable", d.boolean("nullable", &variable.Nullable)},
		{"enum", d.enum(&variable.Enum)},
		{"constraints", d.object("constraints", &variable.Constraints)},
		{"tf_attribute", d.text("tf_attribute", &variable.TFAttribute)},
		{"tf_attribute_skip", d.text("tf_attribute_skip", &variable.TFAttributeSkip)},
		{"prohibit_update", d.boolean("prohibit_update", &variable.ProhibitUpdate)},
		{"default", func(n *yaml.Node) {
			variable.HasDefault = !yamltree.IsNull(n)
			if what == "user_inputs" {
				variable.Default, variable.DefaultExpr = d.defaultValue(n)
				return
			}
			// It documents the plan input or output and is never evaluated, so it need not be an expression.
			variable.Default = d.value(n)
			if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
				variable.DefaultExpr, _ = expr.Parse(expr.SourceOf(n, d.file, d.lines))
			}
		}},
	})
	d.required(at, "field_name", "field_name of an entry of "+what, variable.Name)
	d.required(at, "details", "details of an entry of "+what, variable.Details)
	if variable.TFAttribute != "" && !attributeForm.MatchString(variable.TFAttribute) {
		d.failf(at.at("tf_attribute"), "tf-attribute", "tf_attribute %q must have the form TYPE.NAME.ATTRIBUTE", variable.TFAttribute)
	}
	return variable
}

// defaultValue decodes a default: a string is parsed as an expression, anything else is a literal.
func (d *definition) defaultValue(node *yaml.Node) (literal any, template *expr.Template) {
	literal = d.value(node)
	if _, ok := literal.(string); ok {
		d.expression("default", &template)(node)
	}
	return literal, template
}

func (d *definition) typeName(target *string) field {
	return func(node *yaml.Node) {
		d.text("type", target)(node)
		if !slices.Contains(types, *target) {
			d.errorf(node, "type", "unknown type %q; allowed: %s%s", *target,
				strings.Join(types[1:], ", "), diag.Suggest(*target, types[1:]))
		}
	}
}

// enum keeps the YAML type of the values: an integer field needs integer keys.
func (d *definition) enum(target *[]EnumValue) field {
	return func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		for _, p := range d.pairs(node, "enum") {
			var description string
			d.text("the description of an enum value", &description)(p.value)
			*target = append(*target, EnumValue{Value: d.value(p.key), Description: description})
		}
	}
}

func (d *definition) computed(target *[]Computed) field {
	return func(node *yaml.Node) {
		d.sequence(node, "computed_inputs", func(element *yaml.Node) {
			computed := Computed{Pos: d.pos(element)}
			at := d.mapping(element, "an entry of computed_inputs", false, fields{
				{"name", d.text("name", &computed.Name)},
				{"type", d.typeName(&computed.Type)},
				{"overwrite", d.boolean("overwrite", &computed.Overwrite)},
				{"default", func(n *yaml.Node) {
					computed.Default, computed.Expr = d.defaultValue(n)
				}},
			})
			d.required(at, "name", "name of an entry of computed_inputs", computed.Name)
			if !at.has("default") {
				d.failf(at.at("default"), "required", "default of computed input %q is required and must not be null", computed.Name)
			}
			*target = append(*target, computed)
		})
	}
}

func (d *definition) importInputs(target *[]ImportInput) field {
	return func(node *yaml.Node) {
		d.sequence(node, "import_inputs", func(element *yaml.Node) {
			input := ImportInput{Pos: d.pos(element)}
			at := d.mapping(element, "an entry of import_inputs", false, fields{
				{"field_name", d.text("field_name", &input.Name)},
				{"type", d.text("type", &input.Type)},
				{"details", d.text("details", &input.Details)},
				{"tf_resource", d.text("tf_resource", &input.Resource)},
			})
			if !slices.Contains(types, input.Type) { // which other brokers do not mind
				d.diags.Warnf(at.at("type"), "type", "unknown type %q is ignored; allowed: %s", input.Type, strings.Join(types[1:], ", "))
				input.Type = ""
			}
			*target = append(*target, input)
		})
	}
}

func (d *definition) importMappings(what string, target *[]ImportMapping) field {
	return func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			mapping := ImportMapping{Pos: d.pos(element)}
			d.mapping(element, "an entry of "+what, false, fields{
				{"tf_variable", d.text("tf_variable", &mapping.TFVariable)},
				{"parameter_name", d.text("parameter_name", &mapping.Parameter)},
			})
			*target = append(*target, mapping)
		})
	}
}

// InputNames returns the names of all declared inputs, sorted and without duplicates.
func (a *Action) InputNames() []string {
	names := map[string]bool{}
	for _, variable := range slices.Concat(a.PlanInputs, a.UserInputs) {
		names[variable.Name] = true
	}
	for _, computed := range a.ComputedInputs {
		names[computed.Name] = true
	}
	for _, input := range a.ImportInputs {
		names[input.Name] = true
	}
	delete(names, "") // import inputs need no name
	return slices.Sorted(maps.Keys(names))
}
