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

// types are the JSON types that an input may have. The empty type allows any value.
var types = []string{ //nolint:gochecknoglobals // a constant table
	"", "object", "boolean", "array", "number", "string", "integer",
}

// attributeForm matches the beginning of a tf_attribute, TYPE.NAME.ATTRIBUTE.
var attributeForm = regexp.MustCompile(`^([-a-zA-Z0-9_]*\.[-a-zA-Z0-9_]*){2}`)

// bindOutputs is the label of the list of the outputs of a bind action. The label of any other list is its key.
const bindOutputs = "bind.outputs"

// variables returns the field of a list of inputs or outputs, which are appended to target in the order of the file.
// The parameter label is the key of the list, such as "user_inputs", or bindOutputs. A malformed tf_attribute is
// reported as an error and stored all the same. additional: true is reported as an error, and ignored, unless it is in
// the first of the user_inputs that has it, and this input has the type object and is not required.
func (d *document) variables(label string, target *[]Variable) field {
	keys := func(variable *Variable) fields { return d.variableKeys(label, variable) }
	list := strings.TrimPrefix(label, "bind.")
	return entries(d, list, false, target, keys, func(mapping mappingNode, variable *Variable) bool {
		if variable.TFAttribute != "" && !attributeForm.MatchString(variable.TFAttribute) {
			d.failf(mapping.posOf("tf_attribute"), "tf-attribute",
				"tf_attribute %q must have the form TYPE.NAME.ATTRIBUTE",
				variable.TFAttribute)
		}
		if variable.Additional &&
			(label != "user_inputs" || variable.Type != "object" || variable.Required ||
				AdditionalInput(*target) != nil) {
			d.failf(mapping.posOf("additional"), "type",
				"additional: true is only allowed for one of the user_inputs, which must have type object and not "+
					"be required")
			variable.Additional = false
		}
		return true
	})
}

// InputOf returns the name of the input that receives a parameter: the user input or import input with the parameter's
// name, or else the additional input. If the action has no additional input, it returns the name of the parameter,
// whether an input has that name or not.
func (a *Action) InputOf(parameter string) string {
	additional := AdditionalInput(a.UserInputs)
	if additional == nil || slices.Contains(Names(slices.Concat(a.UserInputs, a.ImportInputs)), parameter) {
		return parameter
	}
	return additional.Name
}

// InputValues returns the values of the inputs that a request's parameters set: a parameter that no input declares
// becomes an entry of the additional input, which has no value if there is no such parameter. So does a parameter with
// the name of the additional input. If the action has no additional input, InputValues returns the map of the
// parameters itself. It does not change the map.
func (a *Action) InputValues(parameters map[string]any) map[string]any {
	additional := AdditionalInput(a.UserInputs)
	if additional == nil {
		return parameters
	}
	values, undeclared := map[string]any{}, map[string]any{}
	for name, item := range parameters {
		if a.InputOf(name) == additional.Name {
			undeclared[name] = item
		} else {
			values[name] = item
		}
	}
	if len(undeclared) > 0 {
		values[additional.Name] = undeclared
	}
	return values
}

// variableKeys returns the keys of an input or output, which are decoded into variable. The parameter label is the key
// of the declaring list, such as "user_inputs", or bindOutputs. Only the outputs of a bind action have the key value.
func (d *document) variableKeys(label string, variable *Variable) fields {
	keys := d.keys("", variable, map[string]field{
		"type": d.typeNames(variable),
		"default": d.variableDefault(label, variable).
			withDoc("The value if none is set. A string is evaluated as an expression and cast to the type."),
		"enum":        d.enum(&variable.Enum),
		"constraints": withConstraintKeywords(d.object("constraints", &variable.Constraints)),
		"tf_attribute": d.text("tf_attribute", &variable.TFAttribute).
			withDoc("The attribute of an imported resource that holds the value: TYPE.NAME.ATTRIBUTE."),
		"sticky": d.boolean("sticky", &variable.Sticky).
			withDoc("Whether an instance keeps its value if its plan or the default changes, until a request changes " +
				"it. An addition of this adapter, for services with provision.bosh."),
		"additional": d.boolean("additional", &variable.Additional).
			withDoc("Whether it is a map of all parameters that no input declares. " +
				"An addition of this adapter, for one of the user_inputs, which must have type object."),
		"value": d.outputValue(&variable.OutputValue).
			withDoc("The value of the output, for a bind with a command. A string is evaluated as an expression over " +
				"the inputs and cast to the type. If the output is nullable, it is left out if the value is the " +
				"empty text. An addition of this adapter."),
	})
	return slices.DeleteFunc(keys, func(r row) bool { return r.name == "value" && label != bindOutputs })
}

// outputValue returns the field of the key value of an output, which is decoded into target as in defaultValue. Null
// stores the value nil.
func (d *document) outputValue(target *OutputValue) field {
	return field{words: "any", newSchema: anything, decode: func(node *yaml.Node) {
		target.Value, target.ValueExpr = d.defaultValue(node)
	}}
}

// withConstraintKeywords returns the field with a schema that describes the constraints of an input: a mapping, or
// null.
func withConstraintKeywords(f field) field {
	f.newSchema = func() schema { return schema{"type": []any{"object", "null"}, "properties": constraintKeywords()} }
	return f
}

// constraintKeywords returns the schemas of the JSON Schema keywords that the brokerpak specification names for
// `constraints`, by keyword. They are the `properties` in the schema of the constraints, which may also contain other
// keywords.
func constraintKeywords() map[string]any {
	keyword := func(meaning string, kinds ...any) schema { return schema{"type": kinds, "description": meaning} }
	return map[string]any{
		"examples": keyword("Valid values; the first one is shown in documentation.", "array"),
		"const":    schema{"description": "The only allowed value."},
		"pattern":  keyword("A regular expression (RE2) that must match a part of the text.", "string"),
		"minimum":  keyword("The minimum of a number.", "number"),
		"maximum":  keyword("The maximum of a number.", "number"),
		"exclusiveMinimum": keyword(
			"The exclusive minimum; in draft-04 whether minimum is excluded.", "number", "boolean"),
		"exclusiveMaximum": keyword(
			"The exclusive maximum; in draft-04 whether maximum is excluded.", "number", "boolean"),
		"multipleOf":    keyword("A number of which the value must be a multiple.", "number"),
		"minLength":     keyword("The minimum number of characters.", "integer"),
		"maxLength":     keyword("The maximum number of characters.", "integer"),
		"minItems":      keyword("The minimum number of elements.", "integer"),
		"maxItems":      keyword("The maximum number of elements.", "integer"),
		"minProperties": keyword("The minimum number of keys.", "integer"),
		"maxProperties": keyword("The maximum number of keys.", "integer"),
		"propertyNames": keyword("A schema that the keys must satisfy.", "object", "boolean"),
	}
}

// variableDefault returns the field of the key default of an input or output, which is decoded into the DefaultValue of
// variable. It also sets HasDefault, which is false for null. The parameter label is the key of the declaring list. A
// string in user_inputs must be a valid expression; a syntax error is reported. In the other lists, DefaultExpr is nil
// for a string that is not a valid expression, and no error is reported.
func (d *document) variableDefault(label string, variable *Variable) field {
	return field{words: "any", newSchema: anything, decode: func(node *yaml.Node) {
		variable.HasDefault = !yamltree.IsNull(node)
		if label == "user_inputs" {
			variable.Default, variable.DefaultExpr = d.defaultValue(node)
			return
		}
		// Elsewhere a default is documentation and is never evaluated, so it does not have to be a valid expression.
		variable.Default = d.value(node)
		if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str" {
			variable.DefaultExpr, _ = expr.Parse(expr.SourceOf(node, d.file, d.lines))
		}
	}}
}

// anything returns the schema that allows any value.
func anything() schema { return schema{} }

// defaultValue decodes a value that may be an expression. It returns the value as it is written and, if that is a
// string, the parsed expression. A syntax error is reported, and template is nil then. template is also nil for a value
// that is not a string, and literal is nil for null.
func (d *document) defaultValue(node *yaml.Node) (literal any, template *expr.Template) {
	literal = d.value(node)
	if _, ok := literal.(string); ok {
		d.expression("default", &template).decode(node)
	}
	return literal, template
}

// typeName returns the field of a single JSON type, which is decoded into target. An unknown type is reported as an
// error and stored as "", which allows any value.
func (d *document) typeName(target *string) field {
	f := d.text("type", target)
	decode := f.decode
	f.decode = func(node *yaml.Node) {
		decode(node)
		if !slices.Contains(types, *target) {
			d.unknownType(node, *target)
			*target = "" // allows any value, so that the error does not cause others
		}
	}
	return f.withSchema(typesSchema())
}

// unknownType reports, as an error at the node, a type that the format does not define. The message lists the allowed
// types and suggests the most similar one.
func (d *document) unknownType(node *yaml.Node, name string) {
	d.errorf(node, "type", "unknown type %q; allowed: %s%s", name, strings.Join(types[1:], ", "),
		diag.Suggest(name, types[1:]))
}

// typeNames returns the field of the key type, which is decoded into Type or Types of variable: one JSON type or, as an
// addition of this adapter, a list of types. A list with one type is stored as Type, and an empty list allows any type.
// Unknown types are reported as errors and are not stored.
func (d *document) typeNames(variable *Variable) field {
	one := d.typeName(&variable.Type)
	return field{
		words: "type, or list of types",
		newSchema: func() schema {
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

// typesSchema returns the schema of a JSON type's name, which may also be "" or null for any type.
func typesSchema() schema {
	return oneOf(append([]any{nil}, value.Texts(types)...)...)
}

// enum returns the field of the key enum, a mapping from values to descriptions. They are appended to target in the
// order of the file. The values keep their YAML type: an input of type integer needs integer keys. Null adds nothing; a
// value that is not a mapping is reported as an error.
func (d *document) enum(target *[]EnumValue) field {
	shape := mapOf(typed("string", "number", "boolean"))
	return field{words: "map of texts", newSchema: shape, decode: func(node *yaml.Node) {
		for key, item := range d.pairs(node, "enum") {
			var description string
			d.text("the description of an enum value", &description).decode(item)
			*target = append(*target, EnumValue{Value: d.value(key), Description: description})
		}
	}}
}

// computed returns the field of the key computed_inputs, a list that is appended to target in the order of the file. An
// input whose default is missing or null is reported as an error and stored all the same.
func (d *definition) computed(target *[]Variable) field {
	accept := func(mapping mappingNode, computed *Variable) bool {
		if !mapping.has("default") {
			d.failf(mapping.posOf("default"), "required",
				"default of computed input %q is required and must not be null",
				computed.Name)
		}
		return true
	}
	return entries(d.document, "computed_inputs", false, target, d.computedKeys, accept)
}

// computedKeys returns the keys of a computed input, which are decoded into computed.
func (d *definition) computedKeys(computed *Variable) fields {
	return fields{
		{"name", "The name of the variable.", required(d.text("name", &computed.Name))},
		{"type", "The JSON type; any type if it is missing.", d.typeName(&computed.Type)},
		{"overwrite", "Whether it replaces an existing value.", d.boolean("overwrite", &computed.Overwrite)},
		{
			"default", "The value, which is required. A string is evaluated as an expression and cast to the type.",
			field{words: "any", newSchema: anything, decode: func(node *yaml.Node) {
				computed.Default, computed.DefaultExpr = d.defaultValue(node)
			}},
		},
	}
}

// importInputs returns the field of the key import_inputs, a list that is appended to target in the order of the file.
// An unknown type is only a warning, because other brokers accept it, and is stored as "". No key is required.
func (d *definition) importInputs(target *[]Variable) field {
	keys := func(input *Variable) fields {
		return fields{
			{"field_name", "The parameter that names an existing resource.", d.text("field_name", &input.Name)},
			{
				"type", "The JSON type; any type if it is missing.",
				d.text("type", &input.Type).withSchema(typesSchema()),
			},
			{"details", "What the parameter is for.", d.text("details", &input.Details)},
			{
				"tf_resource", "The address of the template's resource that is imported.",
				d.text("tf_resource", &input.Resource),
			},
		}
	}
	return entries(d.document, "import_inputs", false, target, keys, func(mapping mappingNode, input *Variable) bool {
		if !slices.Contains(types, input.Type) {
			d.diags.Warnf(mapping.posOf("type"), "type", "unknown type %q is ignored; allowed: %s", input.Type,
				strings.Join(types[1:], ", "))
			input.Type = ""
		}
		return true
	})
}

// importMappings returns the field of a list of attributes, which are appended to target in the order of the file. The
// parameter label is the key of the list, such as "import_parameter_mappings". No key of an entry is required.
func (d *definition) importMappings(label string, target *[]hclfile.Mapping) field {
	keys := func(mapping *hclfile.Mapping) fields {
		return fields{
			{"tf_variable", "The attribute of the resource.", d.text("tf_variable", &mapping.TFVariable)},
			{
				"parameter_name", "The expression that replaces its value, such as var.size.",
				d.text("parameter_name", &mapping.Parameter),
			},
		}
	}
	return entries(d.document, label, false, target, keys, nil)
}

// inputs yields the names and positions of all declared inputs, including computed inputs and import inputs, in the
// order of the definition within each kind. Inputs without a name are left out, which only import inputs may lack. A
// name that is declared more than once is yielded more than once.
func (a *Action) inputs() iter.Seq2[string, diag.Pos] {
	return func(yield func(string, diag.Pos) bool) {
		for _, input := range slices.Concat(a.PlanInputs, a.UserInputs, a.ComputedInputs, a.ImportInputs) {
			if input.Name != "" && !yield(input.Name, input.Pos) { // the name of an import input is optional
				return
			}
		}
	}
}

// InputNames returns the names of all declared inputs, sorted and without duplicates.
func (a *Action) InputNames() []string {
	return value.Keys(maps.Collect(a.inputs()))
}
