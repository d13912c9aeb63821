package brokerpak

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// types are the JSON types an input may have; the empty one admits any value.
var types = []string{"", "object", "boolean", "array", "number", "string", "integer"} //nolint:gochecknoglobals // a constant table

func (d *definition) action(name string, target *Action) field {
	return func(node *yaml.Node) {
		action := Action{Pos: d.pos(resolve(node)), Templates: map[string]string{}}
		fields := d.actionFields(node, &action)
		if name == "bind" {
			fields["requires_app_guid"] = d.boolean("requires_app_guid", &action.RequiresAppGUID)
			fields["errors"] = d.errorRules(&action.Errors)
			fields["requires"] = d.checks("bind.requires", &action.Requires)
		} else {
			fields["bosh"] = d.bosh(&action.Bosh)
		}
		if isNull(node) {
			return
		}
		d.mapping(node, name, false, fields)
		*target = action
	}
}

func (d *definition) actionFields(node *yaml.Node, action *Action) map[string]field {
	templates := map[string]string{}
	refs := map[string]string{}
	return map[string]field{
		"plan_inputs":                 d.variables("plan_inputs", &action.PlanInputs),
		"user_inputs":                 d.variables("user_inputs", &action.UserInputs),
		"computed_inputs":             d.computed(&action.ComputedInputs),
		"outputs":                     d.variables("outputs", &action.Outputs),
		"import_inputs":               d.importInputs(&action.ImportInputs),
		"import_parameter_mappings":   d.importMappings("import_parameter_mappings", &action.ImportParameterMappings),
		"import_parameters_to_add":    d.importMappings("import_parameters_to_add", &action.ImportParametersToAdd),
		"import_parameters_to_delete": d.texts("import_parameters_to_delete", &action.ImportParametersToDelete),
		"template": func(n *yaml.Node) {
			d.inlineTemplate(node, n, action)
		},
		"template_ref": func(n *yaml.Node) {
			var ref string
			if d.text("template_ref", &ref)(n); ref == "" {
				return
			}
			if text, ok := d.readRef(n, "template_ref", ref); ok {
				action.Templates[inlineName] = text
			}
		},
		"templates": func(n *yaml.Node) {
			d.textMap("templates", &templates)(n)
			for _, key := range value.Keys(templates) {
				if _, ok := refs[key]; !ok {
					d.addTemplate(n, action, key, templates[key])
				}
			}
		},
		"template_refs": func(n *yaml.Node) {
			d.textMap("template_refs", &refs)(n)
			for _, key := range value.Keys(refs) {
				if refs[key] == "" {
					continue
				}
				if text, ok := d.readRef(n, "template_refs."+key, refs[key]); ok {
					d.addTemplate(n, action, key, text)
				}
			}
		},
	}
}

// inlineName is the file that an inline `template` becomes.
const inlineName = "template.tf"

// inlineTemplate keeps the inline template unless a template_ref of the same action overrides it.
func (d *definition) inlineTemplate(action, node *yaml.Node, target *Action) {
	var text string
	d.text("template", &text)(node)
	for _, p := range d.pairs(action, "the action") {
		if p.key.Value == "template_ref" && resolve(p.value).Value != "" && !isNull(p.value) {
			return
		}
	}
	if text != "" {
		target.Templates[inlineName] = text
	}
}

var templateKey = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

func (d *definition) addTemplate(node *yaml.Node, action *Action, key, text string) {
	if !templateKey.MatchString(key) {
		d.errorf(resolve(node), "template-key", "template key %q must be a plain file name without extension", key)
		return
	}
	name := strings.TrimSuffix(key, ".tf") + ".tf"
	action.Templates[name] = text
}

func (d *definition) variables(what string, target *[]Variable) field {
	return func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			*target = append(*target, d.variable(what, element))
		})
	}
}

func (d *definition) variable(what string, element *yaml.Node) Variable {
	variable := Variable{Pos: d.pos(resolve(element))}
	d.mapping(element, "an entry of "+what, false, map[string]field{
		"field_name":        d.text("field_name", &variable.Name),
		"type":              d.typeName(&variable.Type),
		"details":           d.text("details", &variable.Details),
		"required":          d.boolean("required", &variable.Required),
		"nullable":          d.boolean("nullable", &variable.Nullable),
		"enum":              d.enum(&variable.Enum),
		"constraints":       d.object("constraints", &variable.Constraints),
		"tf_attribute":      d.text("tf_attribute", &variable.TFAttribute),
		"tf_attribute_skip": d.text("tf_attribute_skip", &variable.TFAttributeSkip),
		"prohibit_update":   d.boolean("prohibit_update", &variable.ProhibitUpdate),
		"default": func(n *yaml.Node) {
			variable.Default, variable.DefaultExpr = d.defaultValue(n)
			variable.HasDefault = !isNull(n)
		},
	})
	d.required(element, "field_name of an entry of "+what, variable.Name)
	d.required(element, "details of an entry of "+what, variable.Details)
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
			d.errorf(resolve(node), "type", "unknown type %q%s; allowed: %s", *target,
				diag.Suggest(*target, types[1:]), strings.Join(types[1:], ", "))
		}
	}
}

// enum keeps the YAML type of the values: an integer field needs integer keys.
func (d *definition) enum(target *[]EnumValue) field {
	return func(node *yaml.Node) {
		if isNull(node) {
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
			computed := Computed{Pos: d.pos(resolve(element))}
			hasDefault := false
			d.mapping(element, "an entry of computed_inputs", false, map[string]field{
				"name":      d.text("name", &computed.Name),
				"type":      d.typeName(&computed.Type),
				"overwrite": d.boolean("overwrite", &computed.Overwrite),
				"default": func(n *yaml.Node) {
					computed.Default, computed.Expr = d.defaultValue(n)
					hasDefault = !isNull(n)
				},
			})
			d.required(element, "name of an entry of computed_inputs", computed.Name)
			if !hasDefault {
				d.errorf(resolve(element), "required", "default of computed input %q is required and must not be null", computed.Name)
			}
			*target = append(*target, computed)
		})
	}
}

func (d *definition) importInputs(target *[]ImportInput) field {
	return func(node *yaml.Node) {
		d.sequence(node, "import_inputs", func(element *yaml.Node) {
			input := ImportInput{Pos: d.pos(resolve(element))}
			d.mapping(element, "an entry of import_inputs", false, map[string]field{
				"field_name":  d.text("field_name", &input.Name),
				"type":        d.typeName(&input.Type),
				"details":     d.text("details", &input.Details),
				"tf_resource": d.text("tf_resource", &input.Resource),
			})
			*target = append(*target, input)
		})
	}
}

func (d *definition) importMappings(what string, target *[]ImportMapping) field {
	return func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			mapping := ImportMapping{Pos: d.pos(resolve(element))}
			d.mapping(element, "an entry of "+what, false, map[string]field{
				"tf_variable":    d.text("tf_variable", &mapping.TFVariable),
				"parameter_name": d.text("parameter_name", &mapping.Parameter),
			})
			*target = append(*target, mapping)
		})
	}
}

// exits are what a bind failure may be made to mean.
var exits = []string{"41", "49", "user"} //nolint:gochecknoglobals // a constant table

func (d *definition) errorRules(target *[]ErrorRule) field {
	return func(node *yaml.Node) {
		d.sequence(node, "bind.errors", func(element *yaml.Node) {
			rule := ErrorRule{Pos: d.pos(resolve(element))}
			d.mapping(element, "an entry of bind.errors", true, map[string]field{
				"match": d.text("match", &rule.Match),
				"exit":  d.text("exit", &rule.Exit),
			})
			if _, err := regexp.Compile(rule.Match); err != nil || rule.Match == "" {
				d.errorf(resolve(element), "regexp", "match %q must be a regular expression (RE2)", rule.Match)
			}
			if !slices.Contains(exits, rule.Exit) {
				d.errorf(resolve(element), "exit", "exit %q must be one of 41, 49 and user", rule.Exit)
			}
			*target = append(*target, rule)
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
	return slices.Sorted(maps.Keys(names))
}
