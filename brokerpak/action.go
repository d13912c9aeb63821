package brokerpak

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

func (d *definition) action(name string, target *Action) field {
	return func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		action := Action{Pos: d.pos(node), Templates: map[string]string{}, TemplateSources: map[string]Document{}}
		var templates templateSources
		known := d.actionFields(&action, &templates)
		known = append(known, namedField{"errors", d.errorRules(name, &action.Errors)})
		if name == "bind" {
			known = append(known, namedField{"requires_app_guid", d.boolean("requires_app_guid", &action.RequiresAppGUID)})
			known = append(known, namedField{"requires", d.checks("bind.requires", &action.Requires)})
			known = append(known, namedField{"adopt", d.expression("bind.adopt", &action.Adopt)})
		} else {
			known = append(known, namedField{"bosh", d.bosh(&action.Bosh)})
		}
		d.mapping(node, name, false, known)
		d.readTemplates(templates, &action)
		*target = action
	}
}

func (d *definition) actionFields(action *Action, templates *templateSources) fields {
	return fields{
		{"plan_inputs", d.variables("plan_inputs", &action.PlanInputs)},
		{"user_inputs", d.variables("user_inputs", &action.UserInputs)},
		{"computed_inputs", d.computed(&action.ComputedInputs)},
		{"outputs", d.variables("outputs", &action.Outputs)},
		{"import_inputs", d.importInputs(&action.ImportInputs)},
		{"import_parameter_mappings", d.importMappings("import_parameter_mappings", &action.ImportParameterMappings)},
		{"import_parameters_to_add", d.importMappings("import_parameters_to_add", &action.ImportParametersToAdd)},
		{"import_parameters_to_delete", d.texts("import_parameters_to_delete", &action.ImportParametersToDelete)},
		{"template", d.located("template", &templates.inline)},
		{"template_ref", d.located("template_ref", &templates.ref)},
		{"templates", d.locatedMap("templates", &templates.files)},
		{"template_refs", d.locatedMap("template_refs", &templates.refs)},
	}
}

// templateSources are the four ways to give an action its templates. A reference wins over a text of the same name.
type templateSources struct {
	inline, ref located
	files, refs map[string]located
}

// located is a text, the node of its value, and the node of its key where it is an entry of a map.
type located struct {
	text       string
	key, value *yaml.Node
}

func (d *document) located(what string, target *located) field {
	return func(node *yaml.Node) {
		target.value = node
		d.text(what, &target.text)(node)
	}
}

func (d *document) locatedMap(what string, target *map[string]located) field {
	return func(node *yaml.Node) {
		*target = map[string]located{}
		for _, p := range d.pairs(node, what) {
			entry := located{key: p.key}
			d.located(what+"."+p.key.Value, &entry)(p.value)
			(*target)[p.key.Value] = entry
		}
	}
}

// inlineName is the file that an inline `template` becomes.
const inlineName = "template.tf"

// readTemplates collects the files of an action, whatever they came from.
func (d *definition) readTemplates(sources templateSources, action *Action) {
	if sources.ref.text != "" {
		if document, ok := d.readRef(sources.ref.value, "template_ref", sources.ref.text); ok {
			action.addTemplate(inlineName, document)
		}
	} else if sources.inline.text != "" {
		action.addTemplate(inlineName, d.inlineDocument(sources.inline.value, sources.inline.text))
	}
	for _, key := range value.Keys(sources.files) {
		if d.checkTemplateKey(sources.files[key].key) {
			action.addTemplate(key+".tf", d.inlineDocument(sources.files[key].value, sources.files[key].text))
		}
	}
	for _, key := range value.Keys(sources.refs) {
		entry := sources.refs[key]
		if entry.text == "" || !d.checkTemplateKey(entry.key) {
			continue
		}
		if document, ok := d.readRef(entry.value, "template_refs."+key, entry.text); ok {
			action.addTemplate(key+".tf", document)
		}
	}
}

func (a *Action) addTemplate(name string, document Document) {
	a.Templates[name], a.TemplateSources[name] = document.Text, document
}

// inlineDocument is a text that stands in the definition itself.
func (d *document) inlineDocument(node *yaml.Node, text string) Document {
	source := expr.SourceOf(node, d.file, d.lines)
	source.Pos.Column -= source.Indent
	return Document{Text: text, Pos: source.Pos, Indent: source.Indent, Folded: source.Folded}
}

// maxTemplateKey bounds a key in bytes, because file systems bound names.
const maxTemplateKey = 200

// checkTemplateKey admits every key that can be a file name.
func (d *definition) checkTemplateKey(key *yaml.Node) bool {
	ok := key.Value != "" && len(key.Value) <= maxTemplateKey && !strings.ContainsAny(key.Value, "/\x00")
	if !ok {
		d.errorf(key, "template-key", "template key %q must be a plain file name without \"/\", to which .tf is added", key.Value)
	}
	return ok
}

// errorRules decodes what a failure of an action's template may be made to mean. The broker knows exit codes of their own for bindings only.
func (d *definition) errorRules(action string, target *[]ErrorRule) field {
	what, exits, allowed := action+".errors", []string{"41", "49", "user"}, "one of 41, 49 and user"
	if action != "bind" {
		exits, allowed = []string{"user"}, "user"
	}
	return func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			rule := ErrorRule{Pos: d.pos(element)}
			at := d.mapping(element, "an entry of "+what, true, fields{
				{"match", d.text("match", &rule.Match)},
				{"exit", d.text("exit", &rule.Exit)},
				{"message", d.text("message", &rule.Message)},
			})
			if _, err := regexp.Compile(rule.Match); err != nil || rule.Match == "" {
				d.failf(at.at("match"), "regexp", "match %q must be a regular expression (RE2)", rule.Match)
			}
			if !slices.Contains(exits, rule.Exit) {
				d.failf(at.at("exit"), "exit", "exit %q must be %s", rule.Exit, allowed)
			}
			if rule.Message != "" && rule.Exit != "user" {
				d.failf(at.at("message"), "conflict", "the message is read by nobody unless exit is user")
			}
			*target = append(*target, rule)
		})
	}
}
