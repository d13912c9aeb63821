package brokerpak

import (
	"cmp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// bosh decodes provision.bosh. It is this project's own section, so unknown keys are errors.
func (d *definition) bosh(target **Bosh) field {
	bosh := &Bosh{}
	return d.section("provision.bosh", true, func() fields { return d.boshKeys(bosh) }, func(at places) {
		bosh.Pos = at.self
		*target = bosh
	})
}

// boshKeys are the keys of provision.bosh. docs/format.md is made from them.
func (d *definition) boshKeys(bosh *Bosh) fields {
	return append(fields{
		{"manifest_ref", "The manifest template, a BOSH manifest with ((variables)): a file of the pak.", alternative(d.documentRef("manifest_ref", &bosh.Manifest))},
		{"manifest", "The manifest template itself.", alternative(d.documentInline("manifest", &bosh.Manifest))},
	}, d.keys("", bosh, map[string]field{
		"optional_instance_groups": d.texts("optional_instance_groups", &bosh.OptionalInstanceGroups).called("list of names"),
		"instance_groups":          d.groupSizes(&bosh.Groups).meaning("Instance groups whose size the definition computes, and those that plans need not have."),
		"ops":                      d.ops(&bosh.Ops),
		"secrets":                  d.secrets(&bosh.Secrets),
		"references":               d.references(&bosh.References),
		"plan_defaults": d.texts("plan_defaults", &bosh.PlanDefaults).called("list of user inputs").
			meaning("User inputs for which a plan's property is only a default: a user may set the parameter as well."),
		"configs": d.configs(&bosh.Configs).
			meaning("BOSH configs that are returned to the broker. One that is not returned any more stays at the Director until the instance is deleted."),
		"requires": d.requires(&bosh.Requires),
		"checks": d.checks("checks", &bosh.Checks).
			meaning("Any other rule: the request is refused with the message unless `that` holds, or did not hold for the deployed instance either."),
		"update": d.expressions("update", &bosh.Update).meaning("The `update` block for plans that have none; may use `previous.exists`."),
		"carry_over": d.carryOver(bosh).
			meaning("Where a manifest of another adapter keeps the value of an input, secret, reference or `uaa_client` field."),
		"outputs": d.outputs(&bosh.Outputs).
			meaning("Values of the instance: `instance.details` in bind expressions, and part of every binding's credentials."),
	})...)
}

func (d *definition) documentRef(what string, target *Document) field {
	return field{words: "path", shape: typed("string"), decode: func(node *yaml.Node) {
		var ref string
		if d.text(what, &ref).decode(node); ref == "" {
			d.errorf(node, "required", "%s must not be empty", what)
			return
		}
		document, ok := d.readRef(node, what, ref)
		if ok && strings.TrimSpace(document.Text) == "" {
			d.errorf(node, "required", "%s %q is an empty file", what, ref)
		}
		*target = document
	}}
}

// documentInline takes a YAML text that stands in the definition as a block scalar, or as YAML of its own.
func (d *definition) documentInline(what string, target *Document) field {
	return field{words: "text or YAML", shape: typed("object", "array", "string"), decode: func(node *yaml.Node) {
		if node.Kind == yaml.ScalarNode {
			*target = d.inlineDocument(node)
			if target.Text == "" {
				d.errorf(node, "required", "%s must not be empty", what)
			}
			return
		}
		text, err := yaml.Marshal(node)
		if err != nil {
			d.errorf(node, "yaml-syntax", "%s is not usable YAML: %s", what, err)
			return
		}
		*target = Document{Text: string(text), Pos: d.pos(node), Folded: true}
	}}
}

// documentKeys are the keys of a document that is used where a condition holds.
func (d *definition) documentKeys(target *Conditional) fields {
	return fields{
		{"ref", "A file of the pak.", alternative(d.documentRef("ref", &target.Document))},
		{"inline", "The document itself.", alternative(d.documentInline("inline", &target.Document))},
		{"if", "It is used only where this holds; default true.", d.expression("if", &target.If)},
	}
}

func (d *definition) groupSizes(target *[]GroupSize) field {
	keys := func(group *GroupSize) fields {
		rows := d.keys("", group, map[string]field{
			"like": d.text("like", &group.Like).
				meaning("A group of the plan. What neither the plan nor another key says of this group is that of the other one, so plans need not have it."),
		})
		group.Sizes = []Size{
			{Key: "instances", Type: "integer", doc: "How many instances.", needed: true},
			{Key: "at_most", Type: "integer", doc: "The most instances that a request may lead to; the user reads how many it would be."},
			{Key: "vm_type", Type: "string", doc: "The VM type.", needed: true},
			{Key: "persistent_disk_type", Type: "string", doc: "The type of the persistent disk; an empty text for none."},
			{Key: "vm_extensions", Type: "array", doc: "A list of VM extensions."},
			{Key: "networks", Type: "array", doc: "A list of networks.", needed: true},
			{Key: "azs", Type: "array", doc: "A list of availability zones.", needed: true},
		}
		for i := range group.Sizes {
			size := &group.Sizes[i]
			rows = append(rows, row{size.Key, size.doc, d.expression(size.Key, &size.Template)})
		}
		return rows
	}
	return entries(d.document, "instance_groups", true, target, keys, func(_ places, group *GroupSize) bool {
		return group.Name != ""
	})
}

func (d *definition) ops(target *[]Conditional) field {
	keys := func(ops *Conditional) fields {
		return append(d.documentKeys(ops), row{
			"completed", "It is applied to the manifest that has what the broker decides, and not to the template.", d.boolean("completed", &ops.Completed),
		})
	}
	return entries(d.document, "ops", true, target, keys, nil)
}

func (d *definition) configs(target *map[string]Conditional) field {
	return d.section("configs", true, func() fields {
		*target = map[string]Conditional{}
		var rows fields
		for _, kind := range []string{"cloud", "CPI", "runtime"} {
			key, config := strings.ToLower(kind), &Conditional{}
			keys := func() fields { return d.documentKeys(config) }
			rows = append(rows, row{key, "A BOSH " + kind + " config.", d.section("configs."+key, true, keys, func(places) { (*target)[key] = *config })})
		}
		return rows
	}, nil)
}

// secretLength bounds generated passwords: shorter ones can be guessed, longer ones break many programs.
const minSecretLength, maxSecretLength = 8, 4096

func (d *definition) secrets(target *[]Secret) field {
	keys := func(secret *Secret) fields {
		return d.keys("", secret, map[string]field{
			"name":   d.text("name", &secret.Name).shaped(schema{"type": "string", "pattern": secretName.String()}),
			"length": d.integer("length", &secret.Length).shaped(schema{"minimum": minSecretLength, "maximum": maxSecretLength}),
			"keepers": d.expressions("keepers", &secret.Keepers).
				meaning("For a generated password: it gets a new value, under a new name, when what one of these expressions gives changes."),
		})
	}
	return entries(d.document, "secrets", true, target, keys, func(at places, secret *Secret) bool {
		if secret.Value != nil {
			secret.Input, _ = secret.Value.Whole()
		}
		d.checkSecret(at, *secret)
		return true
	})
}

func (d *definition) checkSecret(at places, secret Secret) {
	if !secretName.MatchString(secret.Name) || numberedName.MatchString(secret.Name) {
		d.failf(at.at("name"), "secret-name", "secret name %q may only hold letters, digits, underscores and hyphens, "+
			"and may not end with a hyphen and a number", secret.Name)
	}
	if at.has("length") && (secret.Length < minSecretLength || secret.Length > maxSecretLength) {
		d.failf(at.at("length"), "secret-length", "length of secret %q must be %d to %d", secret.Name, minSecretLength, maxSecretLength)
	}
	if secret.Value != nil && len(secret.Keepers) > 0 {
		d.failf(at.at("keepers"), "secret-generated", "secret %q has a value, so keepers cannot give it another one", secret.Name)
	}
}

func (d *definition) references(target *[]Reference) field {
	return entries(d.document, "references", true, target, nil, func(_ places, reference *Reference) bool {
		if reference.Name == "" || reference.Path == nil {
			return false
		}
		reference.Input, _ = reference.Path.Whole()
		return true
	})
}

func (d *document) expressions(what string, target *map[string]*expr.Template) field {
	return field{words: "map of expressions", shape: mapOf(typed("string", "number", "boolean")), decode: func(node *yaml.Node) {
		*target = map[string]*expr.Template{}
		for key, item := range d.pairs(node, what) {
			var template *expr.Template
			d.expression(what+"."+key.Value, &template).decode(item)
			if template != nil {
				(*target)[key.Value] = template
			}
		}
	}}
}

func (d *definition) outputs(target *map[string]Output) field {
	return field{words: "map", shape: typed("object"), decode: func(node *yaml.Node) {
		*target = map[string]Output{}
		for key, item := range d.pairs(node, "outputs") {
			output := Output{Pos: d.pos(item)}
			output.Literal, output.Expr = d.defaultValue(item)
			(*target)[key.Value] = output
		}
	}}
}

func (d *definition) carryOver(bosh *Bosh) field {
	path := func() schema {
		return schema{"anyOf": []any{schema{"type": "string"}, schema{"type": "array", "items": schema{"type": "string"}}}}
	}
	return field{words: "name → path, or list of paths", shape: mapOf(path), decode: func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		bosh.CarryOver, bosh.carryOverAt = map[string][]string{}, map[string]diag.Pos{}
		for key, item := range d.pairs(node, "carry_over") {
			what := "carry_over." + key.Value
			var paths []string
			if item.Kind == yaml.SequenceNode {
				d.texts(what, &paths).decode(item)
			} else {
				paths = make([]string, 1)
				d.text(what, &paths[0]).decode(item)
			}
			bosh.CarryOver[key.Value], bosh.carryOverAt[key.Value] = paths, d.pos(key)
		}
	}}
}

func (d *definition) requires(target *Requires) field {
	return d.section("requires", true, func() fields {
		return d.keys("requires.", target, map[string]field{
			"releases":  d.constraints("requires.releases", &target.Releases),
			"jobs":      d.constraints("requires.jobs", &target.Jobs),
			"stemcells": d.constraints("requires.stemcells", &target.Stemcells),
		})
	}, nil)
}

func (d *definition) constraints(what string, target *[]Constraint) field {
	return field{words: "map of texts", shape: mapOf(typed("string", "number")), decode: func(node *yaml.Node) {
		for key, item := range d.pairs(node, what) {
			constraint := Constraint{Name: key.Value, Pos: d.pos(item)}
			d.text(what+"."+key.Value, &constraint.Constraint).decode(item)
			if _, err := ParseConstraint(constraint.Constraint); err != nil && item.Kind == yaml.ScalarNode {
				d.errorf(item, "constraint", "%s", err)
			}
			*target = append(*target, constraint)
		}
	}}
}

func (d *definition) checks(what string, target *[]Check) field {
	keys := func(check *Check) fields {
		return d.keys("", check, map[string]field{
			"audience": d.text("audience", (*string)(&check.Audience)).shaped(oneOf("operator", "user")),
		})
	}
	return entries(d.document, what, true, target, keys, func(at places, check *Check) bool {
		if check.Audience = cmp.Or(check.Audience, Operator); check.Audience != Operator && check.Audience != User {
			d.failf(at.at("audience"), "audience", "audience %q must be operator or user", check.Audience)
		}
		return check.That != nil && check.Message != nil
	})
}
