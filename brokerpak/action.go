package brokerpak

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/yamltree"
)

// action returns the field of the section provision or bind; a field describes and decodes the value of a key. The
// parameter name is the name of the section. Decoding the field sets the target only if the section is present and not
// null. It also reads the section's OpenTofu files from the pak and, for bind, generates the template of a command; see
// readTemplates and generateTemplate for the errors that they report. Unknown keys are only warnings. A section that is
// not a mapping is reported as an error, and the target is then an action without content.
func (d *definition) action(name string, target *Action) field {
	action := &Action{Templates: map[string]string{}, TemplateSources: map[string]Document{}}
	return d.section(name, false, func() fields { return d.actionKeys(name, action) }, func(mapping mappingNode) {
		action.Pos = mapping.pos
		d.readTemplates(mapping, action)
		if name == "bind" {
			d.generateTemplate(mapping, action)
		}
		*target = *action
	})
}

// actionKeys returns the keys of the section provision or bind, which is the parameter name: those of Brokerpak V1 and
// those that this adapter adds, from provisionKeys or bindKeys. They are decoded into action, except template,
// template_ref, templates and template_refs: decoding only checks their types, and readTemplates collects their files.
func (d *definition) actionKeys(name string, action *Action) fields {
	outputs := "outputs"
	if name == "bind" {
		outputs = bindOutputs
	}
	keys := append(d.keys("", action, map[string]field{
		"plan_inputs":     d.variables("plan_inputs", &action.PlanInputs),
		"user_inputs":     d.variables("user_inputs", &action.UserInputs),
		"computed_inputs": d.computed(&action.ComputedInputs),
		"outputs": d.variables(outputs, &action.Outputs).
			withDoc("Outputs of the template. Those of provision are available to bind expressions as " +
				"instance.details, and are credentials. Those of bind are credentials; its syslog_drain_url, " +
				"route_service_url and backup_agent_url become the fields of the binding with these names."),
		"import_inputs": d.importInputs(&action.ImportInputs).
			withDoc("Parameters that import existing resources; they have no effect in bind."),
		"import_parameter_mappings": d.importMappings("import_parameter_mappings", &action.ImportParameterMappings).
			withDoc("Attributes of imported resources that become inputs."),
		"import_parameters_to_add": d.importMappings("import_parameters_to_add", &action.ImportParametersToAdd).
			withDoc("Attributes to add to imported resources."),
		"import_parameters_to_delete": d.texts("import_parameters_to_delete", &action.ImportParametersToDelete).
			withDoc("Attributes to remove from imported resources, such as read-only ones."),
	}), fields{
		{"template", "OpenTofu code.", d.text("template", new(string))},
		{
			"template_ref", "A file of OpenTofu code; it takes precedence over template.",
			d.text("template_ref", new(string)),
		},
		{
			"templates", "Name to OpenTofu code; .tf is added to the name.",
			d.textMap("templates", new(map[string]string)),
		},
		{
			"template_refs", "Name to file of OpenTofu code; .tf is added to the name.",
			d.textMap("template_refs", new(map[string]string)),
		},
	}...)
	if name == "bind" {
		return append(keys, d.bindKeys(action)...)
	}
	return append(keys, d.provisionKeys(action)...)
}

// provisionKeys returns the keys bosh and errors, which this adapter adds to the section provision. They are decoded
// into action.
func (d *definition) provisionKeys(action *Action) fields {
	return fields{
		{"bosh", "How the BOSH manifest of an instance is created.", d.bosh(&action.Bosh)},
		{"errors", "What the user is told if the template fails.", d.errorRules("provision", &action.Errors)},
	}
}

// bindKeys returns the keys requires_app_guid, requires, errors, adopt and command, which this adapter adds to the
// section bind. They are decoded into action.
func (d *definition) bindKeys(action *Action) fields {
	return fields{
		{
			"requires_app_guid", "Reject bindings without an app, such as service keys (exit code 42).",
			d.boolean("requires_app_guid", &action.RequiresAppGUID),
		},
		{"requires", "Rules that are checked before anything runs.", d.checks("bind.requires", &action.Requires)},
		{
			"errors", "What a failure of the template means: no such binding, binding exists, or a text for the user.",
			d.errorRules("bind", &action.Errors),
		},
		{
			"adopt", "A condition for deleting a binding without state, such as a binding of another adapter. If it " +
				"is true, the binding is first created, so that a provider can take over the existing resources, and " +
				"then deleted. If it is false or missing, the binding does not exist (exit code 41).",
			d.expression("bind.adopt", &action.Adopt),
		},
		{
			"command", "An executable of the pak that creates and deletes bindings, instead of resources of a " +
				"template. It is run as `COMMAND create` and `COMMAND delete`, with the inputs on its standard " +
				"input. Each output then has a `value`, or is an output of the template.",
			d.text("command", &action.Command),
		},
	}
}

// inlineName is the file name of the text of the key `template`.
const inlineName = "template.tf"

// readTemplates adds to an action the OpenTofu files that the keys template, template_ref, templates and template_refs
// of its section contain or name. mapping contains the nodes of the section. template_ref takes precedence over
// template, templates over both for a file of the same name, and template_refs over all of them. Empty texts and
// references are ignored, except in templates. A file that cannot be read, and a key that cannot be a file name, are
// reported as errors and left out.
func (d *definition) readTemplates(mapping mappingNode, action *Action) {
	if ref := mapping.values["template_ref"]; textOf(ref) != "" {
		d.addReference(action, inlineName, "template_ref", ref)
	} else if inline := mapping.values["template"]; textOf(inline) != "" {
		action.addTemplate(inlineName, d.inlineDocument(inline))
	}
	for key, item := range yamltree.Pairs(mapping.values["templates"]) {
		if d.checkTemplateKey(key) {
			action.addTemplate(key.Value+".tf", d.inlineDocument(item))
		}
	}
	for key, item := range yamltree.Pairs(mapping.values["template_refs"]) {
		if textOf(item) != "" && d.checkTemplateKey(key) {
			d.addReference(action, key.Value+".tf", "template_refs."+key.Value, item)
		}
	}
}

// addReference reads a file of the pak and adds it to the action's templates under the given name, in place of an
// existing one. ref is the node with the path of the file, and label the key for the error. If the file cannot be read,
// addReference reports an error and adds nothing.
func (d *definition) addReference(action *Action, name, label string, ref *yaml.Node) {
	if document, ok := d.readRef(ref, label, ref.Value); ok {
		action.addTemplate(name, document)
	}
}

// addTemplate adds an OpenTofu file to Templates and TemplateSources of the action, or replaces the one with the same
// name. Neither map may be nil.
func (a *Action) addTemplate(name string, document Document) {
	a.Templates[name], a.TemplateSources[name] = document.Text, document
}

// inlineDocument returns a scalar of the definition as a document, with the position of its text. The text of null, of
// a list and of a mapping is "". The node must not be nil.
func (d *document) inlineDocument(node *yaml.Node) Document {
	source := expr.SourceOf(node, d.file, d.lines)
	source.Text = textOf(node)
	return Document(source)
}

// textOf returns the text of a scalar as it is written in the file. It returns "" for null, for a list or mapping, and
// for a nil node.
func textOf(node *yaml.Node) string {
	if node == nil || yamltree.IsNull(node) {
		return ""
	}
	return node.Value
}

// maxTemplateKey is the maximum length in bytes of a key of templates, because file systems limit the length of
// names.
const maxTemplateKey = 200

// checkTemplateKey reports whether a key of templates or template_refs can be a file name: it must be neither empty nor
// longer than maxTemplateKey, and must not contain a slash or a NUL. If it cannot, checkTemplateKey also reports an
// error at the key.
func (d *definition) checkTemplateKey(key *yaml.Node) bool {
	valid := key.Value != "" && len(key.Value) <= maxTemplateKey && !strings.ContainsAny(key.Value, "/\x00")
	if !valid {
		d.errorf(key, "template-key", "template key %q must be a plain file name without \"/\", to which .tf is added",
			key.Value)
	}
	return valid
}

// errorRules returns the field of the key errors, a list of rules that is appended to target. The parameter action is
// "provision" or "bind": exit codes 41 and 49 are allowed for bind only, because the broker gives them a meaning for
// bindings only. A rule without match or exit, with an invalid regular expression or exit code, or with a message but
// not exit user, is reported as an error and stored all the same.
func (d *definition) errorRules(action string, target *[]ErrorRule) field {
	exits, allowed := []any{"user"}, "user"
	if action == "bind" {
		exits, allowed = []any{"41", 41, "49", 49, "user"}, "one of 41, 49 and user"
	}
	keys := func(rule *ErrorRule) fields {
		return d.keys("", rule, map[string]field{
			"exit": d.text("exit", &rule.Exit).withSchema(oneOf(exits...)).
				withDoc("41: no such binding. 49: the binding exists. user: the text is shown to the user. " +
					"Provision allows only user."),
			"message": d.text("message", &rule.Message).
				withDoc("The text that is shown to the user with exit user; by default the text of the error."),
		})
	}
	return entries(d.document, action+".errors", true, target, keys, func(mapping mappingNode, rule *ErrorRule) bool {
		if _, err := regexp.Compile(rule.Match); err != nil {
			d.failf(mapping.posOf("match"), "regexp", "match %q must be a regular expression (RE2)", rule.Match)
		}
		if mapping.has("exit") && !slices.Contains(exits, any(rule.Exit)) {
			d.failf(mapping.posOf("exit"), "exit", "exit %q must be %s", rule.Exit, allowed)
		}
		if rule.Message != "" && rule.Exit != "user" {
			d.failf(mapping.posOf("message"), "conflict",
				"message is only allowed if exit is user; it would not be shown otherwise")
		}
		return true
	})
}
