package brokerpak

import (
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// types are the JSON types an input may have; the empty one admits any value.
var types = []string{"", "object", "boolean", "array", "number", "string", "integer"} //nolint:gochecknoglobals // a constant table

// attributeForm is how a tf_attribute begins.
var attributeForm = regexp.MustCompile(`^([-a-zA-Z0-9_]*\.[-a-zA-Z0-9_]*){2}`)

func (d *document) variables(what string, target *[]Variable) field {
	keys := func(variable *Variable) fields { return d.variableKeys(what, variable) }
	return entries(d, what, false, target, keys, func(at places, variable *Variable) bool {
		if variable.TFAttribute != "" && !attributeForm.MatchString(variable.TFAttribute) {
			d.failf(at.at("tf_attribute"), "tf-attribute", "tf_attribute %q must have the form TYPE.NAME.ATTRIBUTE", variable.TFAttribute)
		}
		if variable.Additional && (what != "user_inputs" || variable.Type != "object" || variable.Required || AdditionalInput(*target) != nil) {
			d.failf(at.at("additional"), "type", "additional: true is for one of the user_inputs, of type object and not required")
			variable.Additional = false
		}
		return true
	})
}

// AdditionalInput is the input that is the map of all parameters that no input declares; nil where there is none.
func AdditionalInput(inputs []Variable) *Variable {
	return find(inputs, func(v *Variable) bool { return v.Additional })
}

// Names are the names of inputs or outputs, in their order.
func Names(variables []Variable) []string {
	return value.Each(variables, func(v Variable) string { return v.Name })
}

// InputOf is the name of the input that a parameter belongs to: its own, or that of the additional input where none has its name.
func (a *Action) InputOf(parameter string) string {
	further := AdditionalInput(a.UserInputs)
	if further == nil || slices.Contains(Names(slices.Concat(a.UserInputs, a.ImportInputs)), parameter) {
		return parameter
	}
	return further.Name
}

// Gather returns the parameters of a request by their inputs: those that no input declares are in the map of the additional input.
func (a *Action) Gather(parameters map[string]any) map[string]any {
	further := AdditionalInput(a.UserInputs)
	if further == nil {
		return parameters
	}
	gathered, rest := map[string]any{}, map[string]any{}
	for name, item := range parameters {
		if a.InputOf(name) == further.Name {
			rest[name] = item
		} else {
			gathered[name] = item
		}
	}
	if len(rest) > 0 {
		gathered[further.Name] = rest
	}
	return gathered
}

func (d *document) variableKeys(what string, variable *Variable) fields {
	return d.keys("", variable, map[string]field{
		"type":        d.typeNames(variable),
		"default":     d.variableDefault(what, variable),
		"enum":        d.enum(&variable.Enum),
		"constraints": keywords(d.object("constraints", &variable.Constraints)),
		"sticky": d.boolean("sticky", &variable.Sticky).
			meaning("Whether an instance keeps its value when its plan or the default changes, until a request changes it. Of this adapter; for inputs " +
				"of provision.bosh."),
		"additional": d.boolean("additional", &variable.Additional).
			meaning("Whether it is the map of all parameters that no input declares. Of this adapter; for one of the user_inputs, an object."),
	})
}

// keywords makes a mapping one of constraints.
func keywords(f field) field {
	f.shape = func() schema { return schema{"type": []any{"object", "null"}, "properties": constraintsSchema()} }
	return f
}

// constraintsSchema describes the keywords of JSON Schema that the specification names; any other is allowed.
func constraintsSchema() schema {
	keyword := func(meaning string, kinds ...any) schema { return schema{"type": kinds, "description": meaning} }
	return schema{
		"examples": keyword("Values that fit; the first one stands in documents.", "array"), "const": schema{"description": "The only value."},
		"pattern":          keyword("A regular expression (RE2) that matches a part of the text.", "string"),
		"minimum":          keyword("The least number.", "number"),
		"maximum":          keyword("The greatest number.", "number"),
		"exclusiveMinimum": keyword("A number that the value exceeds; in draft-04 whether minimum is excluded.", "number", "boolean"),
		"exclusiveMaximum": keyword("A number that the value stays below; in draft-04 whether maximum is excluded.", "number", "boolean"),
		"multipleOf":       keyword("A number of which the value is a multiple.", "number"),
		"minLength":        keyword("The least number of characters.", "integer"),
		"maxLength":        keyword("The greatest number of characters.", "integer"),
		"minItems":         keyword("The least number of elements.", "integer"),
		"maxItems":         keyword("The greatest number of elements.", "integer"),
		"minProperties":    keyword("The least number of keys.", "integer"),
		"maxProperties":    keyword("The greatest number of keys.", "integer"),
		"propertyNames":    keyword("A schema that the keys satisfy.", "object", "boolean"),
	}
}

func (d *document) variableDefault(what string, variable *Variable) field {
	return field{words: "any", shape: anything, decode: func(node *yaml.Node) {
		variable.HasDefault = !yamltree.IsNull(node)
		if what == "user_inputs" {
			variable.Default, variable.DefaultExpr = d.defaultValue(node)
			return
		}
		// It documents the plan input or output and is never evaluated, so it need not be an expression.
		variable.Default = d.value(node)
		if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" {
			variable.DefaultExpr, _ = expr.Parse(expr.SourceOf(node, d.file, d.lines))
		}
	}}
}

func anything() schema { return schema{} }

// defaultValue decodes a default: a string is parsed as an expression, anything else is a literal.
func (d *document) defaultValue(node *yaml.Node) (literal any, template *expr.Template) {
	literal = d.value(node)
	if _, ok := literal.(string); ok {
		d.expression("default", &template).decode(node)
	}
	return literal, template
}

func (d *document) typeName(target *string) field {
	f := d.text("type", target)
	decode := f.decode
	f.decode = func(node *yaml.Node) {
		decode(node)
		if !slices.Contains(types, *target) {
			d.unknownType(node, *target)
			*target = "" // which lets further checks of the input find what else is wrong
		}
	}
	return f.shaped(typesSchema())
}

func (d *document) unknownType(node *yaml.Node, name string) {
	d.errorf(node, "type", "unknown type %q; allowed: %s%s", name, strings.Join(types[1:], ", "), diag.Suggest(name, types[1:]))
}

// typeNames is one type, or, of this adapter, a list of them.
func (d *document) typeNames(variable *Variable) field {
	one := d.typeName(&variable.Type)
	return field{
		words: "type, or list of types",
		shape: func() schema {
			return schema{"anyOf": []any{typesSchema(), schema{"type": "array", "minItems": 1, "items": typesSchema()}}}
		},
		decode: func(node *yaml.Node) {
			if node.Kind != yaml.SequenceNode {
				one.decode(node)
				return
			}
			d.sequence(node, "type", func(element *yaml.Node) {
				var name string
				d.text("type", &name).decode(element)
				if name == "" || !slices.Contains(types, name) {
					d.unknownType(element, name)
					return
				}
				variable.Types = append(variable.Types, name)
			})
			if len(variable.Types) == 1 {
				variable.Type, variable.Types = variable.Types[0], nil
			}
		},
	}
}

func typesSchema() schema {
	return oneOf(append([]any{nil}, value.Texts(types)...)...)
}

// enum keeps the YAML type of the values: an integer field needs integer keys.
func (d *document) enum(target *[]EnumValue) field {
	return field{words: "map of texts", shape: mapOf(typed("string", "number", "boolean")), decode: func(node *yaml.Node) {
		for key, item := range d.pairs(node, "enum") {
			var description string
			d.text("the description of an enum value", &description).decode(item)
			*target = append(*target, EnumValue{Value: d.value(key), Description: description})
		}
	}}
}

func (d *definition) computed(target *[]Variable) field {
	return entries(d.document, "computed_inputs", false, target, d.computedKeys, func(at places, computed *Variable) bool {
		if !at.has("default") {
			d.failf(at.at("default"), "required", "default of computed input %q is required and must not be null", computed.Name)
		}
		return true
	})
}

func (d *definition) computedKeys(computed *Variable) fields {
	return fields{
		{"name", "The name of the variable.", required(d.text("name", &computed.Name))},
		{"type", "The JSON type; any when it is left out.", d.typeName(&computed.Type)},
		{"overwrite", "Whether it replaces a value that is there already.", d.boolean("overwrite", &computed.Overwrite)},
		{
			"default", "The value, which is required. A text is evaluated as an expression and cast to the type.",
			field{words: "any", shape: anything, decode: func(node *yaml.Node) {
				computed.Default, computed.DefaultExpr = d.defaultValue(node)
			}},
		},
	}
}

func (d *definition) importInputs(target *[]Variable) field {
	keys := func(input *Variable) fields {
		return fields{
			{"field_name", "The parameter that names an existing resource.", d.text("field_name", &input.Name)},
			{"type", "The JSON type; any when it is left out.", d.text("type", &input.Type).shaped(typesSchema())},
			{"details", "What it is for.", d.text("details", &input.Details)},
			{"tf_resource", "The resource of the template that it becomes.", d.text("tf_resource", &input.Resource)},
		}
	}
	return entries(d.document, "import_inputs", false, target, keys, func(at places, input *Variable) bool {
		if !slices.Contains(types, input.Type) { // which other brokers do not mind
			d.diags.Warnf(at.at("type"), "type", "unknown type %q is ignored; allowed: %s", input.Type, strings.Join(types[1:], ", "))
			input.Type = ""
		}
		return true
	})
}

func (d *definition) importMappings(what string, target *[]hclfile.Mapping) field {
	keys := func(mapping *hclfile.Mapping) fields {
		return fields{
			{"tf_variable", "The attribute of the resource.", d.text("tf_variable", &mapping.TFVariable)},
			{"parameter_name", "What it is set to, such as var.size.", d.text("parameter_name", &mapping.Parameter)},
		}
	}
	return entries(d.document, what, false, target, keys, nil)
}

// inputs are the names and places of all declared inputs.
func (a *Action) inputs() iter.Seq2[string, diag.Pos] {
	return func(yield func(string, diag.Pos) bool) {
		for _, input := range slices.Concat(a.PlanInputs, a.UserInputs, a.ComputedInputs, a.ImportInputs) {
			if input.Name != "" && !yield(input.Name, input.Pos) { // import inputs need no name
				return
			}
		}
	}
}

// InputNames returns the names of all declared inputs, sorted and without duplicates.
func (a *Action) InputNames() []string {
	return value.Keys(maps.Collect(a.inputs()))
}
