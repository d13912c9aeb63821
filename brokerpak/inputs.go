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

// variables returns the field of a key whose value is a list of inputs or outputs; a field describes the value of a key
// and decodes it. Decoding appends the declarations to target in the order of the file. The parameter label is the key
// of the list, such as "user_inputs"; for the outputs of a bind section it is the constant bindOutputs
// ("bind.outputs").
//
// Decoding adds errors to the diagnostics of d for values of the wrong type or form, for a field_name or details that
// is missing or empty, and for an entry that is not a mapping. Such an entry is stored all the same. An unknown key is
// only a warning. additional: true is reported as an error and stored as false, unless the list is user_inputs, the
// input has the type object and is not required, and no earlier input has additional: true. Null is an empty list; any
// other value that is not a list is reported as an error.
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

// InputOf returns the name of the input that receives a parameter of a request. If a user input or an import input has
// the name of the parameter, or if the action has no additional input, that is the name of the parameter itself, even
// if no input has that name. Otherwise it is the name of the additional input, which is the user input that collects
// all parameters without an input of their own.
func (a *Action) InputOf(parameter string) string {
	additional := AdditionalInput(a.UserInputs)
	if additional == nil || slices.Contains(Names(slices.Concat(a.UserInputs, a.ImportInputs)), parameter) {
		return parameter
	}
	return additional.Name
}

// InputValues returns the values of the inputs that a request's parameters set, by input. If the action has an
// additional input, which is the user input that collects other parameters, the result is a new map: a parameter that
// no user input or import input declares, and a parameter with the name of the additional input, becomes an entry of a
// map that is the value of the additional input. The additional input is absent from the result if no parameter belongs
// in it. If the action has no additional input, InputValues returns the map parameters itself, which may be nil. It
// does not change parameters.
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

// variableKeys returns descriptions of the keys of one input or output; decoding a key stores its value in variable and
// adds errors to the diagnostics of d. The parameter label is the key of the list that contains the declaration, such
// as "user_inputs", or bindOutputs for the outputs of a bind section, the only list whose entries may have the key
// value. A string in the key default must be a valid expression only if the label is "user_inputs".
func (d *document) variableKeys(label string, variable *Variable) fields {
	keys := d.keys("", variable, map[string]field{
		"type": d.typeNames(variable),
		"default": d.variableDefault(label, variable).
			withDoc("The value if no other source sets one. In `user_inputs`, the adapter evaluates a string as an " +
				"expression and casts the result to the type."),
		"enum":        d.enum(&variable.Enum),
		"constraints": withConstraintKeywords(d.object("constraints", &variable.Constraints)),
		"tf_attribute": d.text("tf_attribute", &variable.TFAttribute).
			withDoc("The attribute of an imported resource that sets the value, in the form TYPE.NAME.ATTRIBUTE."),
		"sticky": d.boolean("sticky", &variable.Sticky).
			withDoc("Whether an instance keeps its value if its plan or the default changes, until a request changes " +
				"it. An addition of this adapter, for inputs of `provision`."),
		"additional": d.boolean("additional", &variable.Additional).
			withDoc("Whether the input is a map of all parameters that no other input declares. An addition of this " +
				"adapter, for one of the `user_inputs`, which must have the type `object` and must not be required."),
		"value": d.outputValue(&variable.OutputValue).
			withDoc("The value of the output, for a bind with a command. A string is evaluated as an expression over " +
				"the inputs and cast to the type. If the output is nullable, it is left out if the value is the " +
				"empty text. An addition of this adapter."),
	})
	return slices.DeleteFunc(keys, func(r row) bool { return r.name == "value" && label != bindOutputs })
}

// outputValue returns the field of the key value of an output. Decoding stores the value in target.Value and, if it is
// a string, the expression parsed from it in target.ValueExpr. A string with a syntax error is reported as an error in
// the diagnostics of d and stored with a nil ValueExpr. Null is stored as nil.
func (d *document) outputValue(target *OutputValue) field {
	return field{words: "any", newSchema: anything, decode: func(node *yaml.Node) {
		target.Value, target.ValueExpr = d.defaultValue(node)
	}}
}

// withConstraintKeywords returns a copy of f whose JSON Schema is that of the constraints of an input: a mapping with
// the keywords of constraintKeywords and any others, or null. Decoding is the same as that of f.
func withConstraintKeywords(f field) field {
	f.newSchema = func() schema { return schema{"type": []any{"object", "null"}, "properties": constraintKeywords()} }
	return f
}

// constraintKeywords returns a new map from the JSON Schema keywords that the brokerpak specification names for
// `constraints`, such as "minLength", to JSON Schemas of their values. It is the value of `properties` in the schema of
// the constraints, which may also contain other keywords.
func constraintKeywords() map[string]any {
	keyword := func(meaning string, kinds ...any) schema { return schema{"type": kinds, "description": meaning} }
	return map[string]any{
		"examples": keyword("Valid values. The documentation of the service shows the first one.", "array"),
		"const":    schema{"description": "The only allowed value."},
		"pattern":  keyword("A regular expression (RE2) that must match a part of the text.", "string"),
		"minimum":  keyword("The minimum of a number.", "number"),
		"maximum":  keyword("The maximum of a number.", "number"),
		"exclusiveMinimum": keyword(
			"A number is an exclusive minimum. A boolean, as in draft-04, determines whether `minimum` is "+
				"excluded.", "number", "boolean"),
		"exclusiveMaximum": keyword(
			"A number is an exclusive maximum. A boolean, as in draft-04, determines whether `maximum` is "+
				"excluded.", "number", "boolean"),
		"multipleOf":    keyword("The value must be a multiple of this number.", "number"),
		"minLength":     keyword("The minimum number of characters.", "integer"),
		"maxLength":     keyword("The maximum number of characters.", "integer"),
		"minItems":      keyword("The minimum number of elements.", "integer"),
		"maxItems":      keyword("The maximum number of elements.", "integer"),
		"minProperties": keyword("The minimum number of keys.", "integer"),
		"maxProperties": keyword("The maximum number of keys.", "integer"),
		"propertyNames": keyword("A schema that the keys must satisfy.", "object", "boolean"),
	}
}

// variableDefault returns the field of the key default of an input or output. Decoding stores the value in Default of
// variable, sets HasDefault to whether it is not null, and stores the expression parsed from a string in DefaultExpr. A
// scalar that JSON cannot represent, such as .inf, is reported as an error in the diagnostics of d and stored as nil,
// with HasDefault true.
//
// The parameter label is the key of the list that contains the declaration. If it is "user_inputs", a string with a
// syntax error is reported as an error as well. In other lists the default is only documentation, and such a string is
// not reported. DefaultExpr is nil for it in both cases.
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

// anything returns a new, empty JSON Schema, which allows any value.
func anything() schema { return schema{} }

// defaultValue decodes a node whose value may be an expression. literal is the value as it is written, of any YAML
// type, and nil for null and for a scalar that is reported as an error, such as .inf; see scalar. template is the
// expression parsed from the value if literal is a string, which it also is for a date. It is nil for any other
// value, and for a string with a syntax error, which is reported as an error in the diagnostics of d. Strings within
// a list or mapping are not parsed.
func (d *document) defaultValue(node *yaml.Node) (literal any, template *expr.Template) {
	literal = d.value(node)
	if _, ok := literal.(string); ok {
		d.expression("default", &template).decode(node)
	}
	return literal, template
}

// typeName returns the field of a key whose value is the name of one JSON type, such as "string"; decoding stores the
// name in target. An unknown type is reported as an error in the diagnostics of d, and target becomes "", which allows
// any value. Null, a list and a mapping leave target unchanged; the latter two are reported as errors.
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

// unknownType adds an error at the node to the diagnostics of d, which says that the format does not define the type
// with that name. The message lists the allowed types and suggests a similar one if it finds one. unknownType does not
// check the name itself.
func (d *document) unknownType(node *yaml.Node, name string) {
	d.errorf(node, "type", "unknown type %q; allowed: %s%s", name, strings.Join(types[1:], ", "),
		diag.Suggest(name, types[1:]))
}

// typeNames returns the field of the key type of an input or output: the name of one JSON type, such as "string", or,
// as an addition of this adapter, a list of names. Errors are added to the diagnostics of d.
//
// Decoding stores a single name in Type of variable. Null leaves Type unchanged, and "" allows any type; neither is an
// error. An unknown name is reported as an error and stored as "". A mapping is reported as an error and leaves the
// variable unchanged.
//
// In a list, every element that is not the name of a type, also null and "", is reported as an error and left out.
// Several remaining names are stored in Types, with Type "", and a single one in Type. If none remains, as in an empty
// list, which is not an error, both are unchanged, which allows any type.
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

// typesSchema returns a new JSON Schema of the name of a type: an enum with the names of all JSON types, and with ""
// and null, which mean any type.
func typesSchema() schema {
	return oneOf(append([]any{nil}, value.Texts(types)...)...)
}

// enum returns the field of the key enum, a mapping from allowed values to their descriptions. Decoding appends the
// values to target in the order of the file. They keep their YAML type: an input of type integer needs integer keys,
// such as 1 and not "1". A value that JSON cannot represent, such as .inf, is reported as an error in the diagnostics
// of d and stored as nil. A description may be any scalar, and null is stored as "". A description that is a list or
// mapping is reported as an error and stored as "". Null in place of the mapping appends nothing; any other value that
// is not a mapping is reported as an error.
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

// computed returns the field of the key computed_inputs, a list of inputs whose values are expressions or constants;
// decoding appends them to target in the order of the file. Decoding adds errors to the diagnostics of d for an input
// without a name, for one whose default is missing or null, for an unknown type, for values of the wrong type, for an
// expression with a syntax error, and for an entry that is not a mapping. Such an input is stored all the same. An
// unknown key is only a warning. Null is an empty list; any other value that is not a list is reported as an error.
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

// computedKeys returns descriptions of the keys of a computed input: name, which is required, type, overwrite and
// default, whose presence definition.computed checks. Decoding a key stores its value in the parameter computed; a
// string in default is parsed as an expression. Decoding adds errors to the diagnostics of d for an unknown type, which
// is stored as "", for a value of the wrong type, which is not stored, and for a syntax error in default, which leaves
// DefaultExpr nil.
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

// importInputs returns the field of the key import_inputs, a list of parameters that name existing resources to import;
// decoding appends them to target in the order of the file. No key of an entry is required. An unknown type is stored
// as "", with only a warning, because other brokers accept it; an unknown key is a warning, too. A value that is a list
// or mapping is reported as an error in the diagnostics of d, and its field stays "". An entry that is not a mapping is
// reported as an error and stored with a position only. Null is an empty list; any other value that is not a list is
// reported as an error.
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

// importMappings returns the field of a list whose entries name an attribute of a resource (tf_variable) and the
// expression that replaces its value (parameter_name); decoding appends them to target, with their positions, in the
// order of the file. The parameter label is the key of the list, such as "import_parameter_mappings". No key of an
// entry is required, and an unknown key is a warning. A value that is a list or mapping is reported as an error in
// the diagnostics of d, and its field stays "". An entry that is not a mapping is reported as an error and stored
// with a position only. Null is an empty list; any other value that is not a list is reported as an error.
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

// inputs returns a sequence of the names of all declared inputs with their positions in the definition: first the plan
// inputs, then the user inputs, the computed inputs and the import inputs, each in the order of the definition. Inputs
// without a name are left out. A name that is declared more than once is yielded more than once.
func (a *Action) inputs() iter.Seq2[string, diag.Pos] {
	return func(yield func(string, diag.Pos) bool) {
		for _, input := range slices.Concat(a.PlanInputs, a.UserInputs, a.ComputedInputs, a.ImportInputs) {
			if input.Name != "" && !yield(input.Name, input.Pos) { // the name of an import input is optional
				return
			}
		}
	}
}

// InputNames returns the names of all declared inputs (plan inputs, user inputs, computed inputs and import inputs),
// sorted and without duplicates. Inputs without a name are left out. The result is nil if there are none.
func (a *Action) InputNames() []string {
	return value.Keys(maps.Collect(a.inputs()))
}
