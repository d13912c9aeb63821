package brokerpak

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/yamltree"
)

// action returns the field of the YAML key name, which must be "provision" or "bind"; a field describes the value of a
// key and decodes it. Decoding stores the section in target, and leaves target unchanged if the section is null. It
// also reads the OpenTofu files of the section from the pak and, for a bind section with a command, generates the
// template of the command.
//
// Decoding continues after an error and adds all errors to the diagnostics of d: invalid values, files that cannot be
// read (see readTemplates), and faults of a command (see generateTemplate). Unknown keys directly in the section are
// only warnings. A section that is not a mapping is reported as an error, and target then becomes an action with a
// position and no content.
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

// actionKeys returns descriptions of the keys of the section provision or bind; the parameter name is the name of the
// section. They are the keys of Brokerpak V1 and those that this adapter adds, which provisionKeys and bindKeys return.
// Decoding a key stores its value in action, and adds errors to the diagnostics of d if the value is not valid. The
// keys template, template_ref, templates and template_refs are exceptions: their decoding only checks the types of the
// values, and readTemplates stores the files.
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

// provisionKeys returns descriptions of the keys bosh and errors, which this adapter adds to the section provision.
// Decoding the keys stores their values in the fields Bosh and Errors of action, and adds errors to the diagnostics of
// d if the values are not valid.
func (d *definition) provisionKeys(action *Action) fields {
	return fields{
		{"bosh", "The BOSH manifest of an instance, and the sources of its values.", d.bosh(&action.Bosh)},
		{
			"errors", "The messages for the user if the provision template fails.",
			d.errorRules("provision", &action.Errors),
		},
	}
}

// bindKeys returns descriptions of the keys requires_app_guid, requires, errors, adopt and command, which this adapter
// adds to the section bind. Decoding the keys stores their values in the fields of action with the same names, such as
// RequiresAppGUID, and adds errors to the diagnostics of d if the values are not valid.
func (d *definition) bindKeys(action *Action) fields {
	return fields{
		{
			"requires_app_guid", "Whether the adapter rejects bindings without an app, such as service keys (exit " +
				"code 42).",
			d.boolean("requires_app_guid", &action.RequiresAppGUID),
		},
		{
			"requires", "Rules that the adapter checks before it runs OpenTofu.",
			d.checks("bind.requires", &action.Requires),
		},
		{
			"errors", "The meaning of a failure of the template: the binding does not exist, the binding exists, or " +
				"a message for the user.",
			d.errorRules("bind", &action.Errors),
		},
		{
			"adopt", "A condition for deleting a binding without state, such as a binding of another adapter. If it " +
				"is true, the adapter first creates the binding, so that a provider can take over the existing " +
				"resources, and then deletes it. If it is false or missing, the adapter reports that the binding " +
				"does not exist (exit code 41).",
			d.expression("bind.adopt", &action.Adopt),
		},
		{
			"command", "An executable of the pak that creates and deletes bindings, instead of resources of a " +
				"template. OpenTofu runs `COMMAND create` and `COMMAND delete`, with the inputs on standard input. " +
				"Each output must have a `value` or be an output of the template.",
			d.text("command", &action.Command),
		},
	}
}

// inlineName is the file name of the text of the key `template`.
const inlineName = "template.tf"

// readTemplates adds the texts of the OpenTofu files of a section to Templates of action, and the texts with their
// positions to TemplateSources; neither map may be nil. mapping contains the nodes of the section. The key template
// contains the text of the file template.tf, and template_ref the path of that file in the pak; template_ref takes
// precedence. The keys templates and template_refs are mappings from NAME to a text or a path, and each entry becomes
// the file NAME.tf.
//
// If several keys contain a file of the same name, template_refs takes precedence over templates, and templates over
// the other two. Empty texts, empty paths, null, lists and mappings are ignored as values, except in templates, where
// they become empty files. A file that cannot be read, and a NAME that cannot be a file name (see checkTemplateKey),
// are reported as errors in the diagnostics of d and are not added.
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

// addReference reads a file of the pak and adds it to Templates and TemplateSources of the action under a name such as
// "main.tf", in place of an existing file of that name. ref is the scalar node that contains the path of the file,
// relative to the root of the pak. label is the key that the error message names, such as "template_ref". If the file
// is outside of the pak, is missing, is larger than 4 MB or cannot be read, addReference adds an error at ref to the
// diagnostics of d and leaves the action unchanged.
func (d *definition) addReference(action *Action, name, label string, ref *yaml.Node) {
	if document, ok := d.readRef(ref, label, ref.Value); ok {
		action.addTemplate(name, document)
	}
}

// addTemplate stores an OpenTofu file in the action, in place of an existing file of the same name: the text in
// Templates and the text with its position in TemplateSources. name is a file name such as "main.tf". addTemplate
// panics if one of the two maps is nil.
func (a *Action) addTemplate(name string, document Document) {
	a.Templates[name], a.TemplateSources[name] = document.Text, document
}

// inlineDocument returns the text of a scalar in the definition, such as the OpenTofu code of the key template,
// together with the position of the text in the definition's file. The text of null, of a list and of a mapping is "";
// no error is reported. The node must not be nil.
func (d *document) inlineDocument(node *yaml.Node) Document {
	source := expr.SourceOf(node, d.file, d.lines)
	source.Text = textOf(node)
	return Document(source)
}

// textOf returns the value of a YAML scalar as text, whatever its type. Quotes, escapes and the indentation of a block
// scalar are resolved, but a number or boolean keeps the spelling of the file, such as "1.20" or "yes". textOf returns
// "" for null, for a list or mapping, and for a nil node. An alias must have been resolved.
func textOf(node *yaml.Node) string {
	if node == nil || yamltree.IsNull(node) {
		return ""
	}
	return node.Value
}

// maxTemplateKey is the maximum length in bytes of a key of templates, because file systems limit the length of
// names.
const maxTemplateKey = 200

// checkTemplateKey reports whether a key of templates or template_refs, to which .tf is added, can be a file name: it
// must be neither empty nor longer than 200 bytes (maxTemplateKey), and must not contain a slash or a NUL. For any
// other key, checkTemplateKey returns false and adds an error at the key to the diagnostics of d.
func (d *definition) checkTemplateKey(key *yaml.Node) bool {
	valid := key.Value != "" && len(key.Value) <= maxTemplateKey && !strings.ContainsAny(key.Value, "/\x00")
	if !valid {
		d.errorf(key, "template-key", "template key %q must be a plain file name without \"/\", to which .tf is added",
			key.Value)
	}
	return valid
}

// errorRules returns the field of the key errors, a list of rules that translate failures of a template; decoding
// appends them to target. The parameter action is "provision" or "bind". The key exit of a rule must be "user" or, for
// bind only, "41" or "49", because the broker defines these exit codes for bindings only.
//
// Decoding adds errors to the diagnostics of d for a rule that is not a mapping, without match or exit, with another
// exit, with an unknown key, with a list or mapping as a value, with a match that is not a regular expression (RE2), or
// with a message although exit is not "user". Such a rule is stored all the same. Null is an empty list; any other
// value that is not a list is reported as an error and appends nothing.
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
