package brokerpak

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/yamltree"
)

func (d *definition) action(name string, target *Action) field {
	action := &Action{Templates: map[string]string{}, TemplateSources: map[string]Document{}}
	return d.section(name, false, func() fields { return d.actionKeys(name, action) }, func(at places) {
		action.Pos = at.self
		d.readTemplates(at, action)
		*target = *action
	})
}

// actionKeys are the keys of an action: those of the format, and those that this adapter adds.
func (d *definition) actionKeys(name string, action *Action) fields {
	known := append(d.keys("", action, map[string]field{
		"plan_inputs":     d.variables("plan_inputs", &action.PlanInputs),
		"user_inputs":     d.variables("user_inputs", &action.UserInputs),
		"computed_inputs": d.computed(&action.ComputedInputs),
		"outputs": d.variables("outputs", &action.Outputs).
			meaning("What the action gives. Those of provision are instance.details of bind expressions, and credentials. Those of bind are " +
				"credentials; its syslog_drain_url, route_service_url and backup_agent_url become those fields of the binding."),
		"import_inputs":             d.importInputs(&action.ImportInputs),
		"import_parameter_mappings": d.importMappings("import_parameter_mappings", &action.ImportParameterMappings),
		"import_parameters_to_add":  d.importMappings("import_parameters_to_add", &action.ImportParametersToAdd),
		"import_parameters_to_delete": d.texts("import_parameters_to_delete", &action.ImportParametersToDelete).
			meaning("Attributes to remove from imported resources, such as read-only ones."),
	}), fields{
		{"template", "OpenTofu code.", d.text("template", new(string))},
		{"template_ref", "A file of OpenTofu code; it wins over template.", d.text("template_ref", new(string))},
		{"templates", "Name to OpenTofu code; .tf is added to the name.", d.textMap("templates", new(map[string]string))},
		{"template_refs", "Name to file of OpenTofu code; .tf is added to the name.", d.textMap("template_refs", new(map[string]string))},
	}...)
	if name == "bind" {
		return append(known, d.bindKeys(action)...)
	}
	return append(known, d.provisionKeys(action)...)
}

// provisionKeys are this adapter's keys of provision.
func (d *definition) provisionKeys(action *Action) fields {
	return fields{
		{"bosh", "How the BOSH manifest of the service is made.", d.bosh(&action.Bosh)},
		{"errors", "What the user reads when the template fails.", d.errorRules("provision", &action.Errors)},
	}
}

// bindKeys are this adapter's keys of bind.
func (d *definition) bindKeys(action *Action) fields {
	return fields{
		{
			"requires_app_guid", "Refuse bindings without an app, such as service keys (exit code 42).",
			d.boolean("requires_app_guid", &action.RequiresAppGUID),
		},
		{"requires", "Rules that are checked before anything runs.", d.checks("bind.requires", &action.Requires)},
		{
			"errors", "What a failure of the template means: no such binding, binding exists, or a text for the user.",
			d.errorRules("bind", &action.Errors),
		},
		{
			"adopt", "Where it holds, a binding that is to be deleted and has no state is created first, so that a provider that can take over what " +
				"exists does, and then deleted. Without it the answer is that there is no such binding (exit code 41). For bindings that another " +
				"adapter made.",
			d.expression("bind.adopt", &action.Adopt),
		},
	}
}

// inlineName is the file that an inline `template` becomes.
const inlineName = "template.tf"

// readTemplates collects the files of an action from the four ways to give them. A reference wins over a text of the same name.
func (d *definition) readTemplates(at places, action *Action) {
	if ref := at.values["template_ref"]; textOf(ref) != "" {
		d.addReference(action, inlineName, "template_ref", ref)
	} else if inline := at.values["template"]; textOf(inline) != "" {
		action.addTemplate(inlineName, d.inlineDocument(inline))
	}
	for key, item := range yamltree.Pairs(at.values["templates"]) {
		if d.checkTemplateKey(key) {
			action.addTemplate(key.Value+".tf", d.inlineDocument(item))
		}
	}
	for key, item := range yamltree.Pairs(at.values["template_refs"]) {
		if textOf(item) != "" && d.checkTemplateKey(key) {
			d.addReference(action, key.Value+".tf", "template_refs."+key.Value, item)
		}
	}
}

// addReference adds a file of the pak as a template.
func (d *definition) addReference(action *Action, name, what string, ref *yaml.Node) {
	if document, ok := d.readRef(ref, what, ref.Value); ok {
		action.addTemplate(name, document)
	}
}

func (a *Action) addTemplate(name string, document Document) {
	a.Templates[name], a.TemplateSources[name] = document.Text, document
}

// inlineDocument is a text that stands in the definition itself.
func (d *document) inlineDocument(node *yaml.Node) Document {
	source := expr.SourceOf(node, d.file, d.lines)
	source.Text = textOf(node)
	return Document(source)
}

// textOf is the text of a scalar as it stands in the file, "" for null and where there is none.
func textOf(node *yaml.Node) string {
	if node == nil || yamltree.IsNull(node) {
		return ""
	}
	return node.Value
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
	exits, allowed := []any{"user"}, "user"
	if action == "bind" {
		exits, allowed = []any{"41", 41, "49", 49, "user"}, "one of 41, 49 and user"
	}
	keys := func(rule *ErrorRule) fields {
		return d.keys("", rule, map[string]field{
			"exit": d.text("exit", &rule.Exit).shaped(oneOf(exits...)).
				meaning("41: no such binding. 49: the binding exists. user: the text is for the user, which is all that provision knows."),
		})
	}
	return entries(d.document, action+".errors", true, target, keys, func(at places, rule *ErrorRule) bool {
		if _, err := regexp.Compile(rule.Match); err != nil {
			d.failf(at.at("match"), "regexp", "match %q must be a regular expression (RE2)", rule.Match)
		}
		if at.has("exit") && !slices.Contains(exits, any(rule.Exit)) {
			d.failf(at.at("exit"), "exit", "exit %q must be %s", rule.Exit, allowed)
		}
		if rule.Message != "" && rule.Exit != "user" {
			d.failf(at.at("message"), "conflict", "the message is read by nobody unless exit is user")
		}
		return true
	})
}
