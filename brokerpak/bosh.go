package brokerpak

import (
	"cmp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// bosh returns the field of the section provision.bosh; a field describes and decodes the value of a key. Unknown keys
// in the section are errors, because only this adapter defines it. The target stays nil if the section is missing or
// null. A section that is not a mapping is reported as an error, and the target is then a Bosh without content.
func (d *definition) bosh(target **Bosh) field {
	bosh := &Bosh{}
	return d.section("provision.bosh", true, func() fields { return d.boshKeys(bosh) }, func(mapping mappingNode) {
		bosh.Pos = mapping.pos
		*target = bosh
	})
}

// boshKeys returns the keys of provision.bosh, which are decoded into bosh. The table in docs/format.md is generated
// from them.
func (d *definition) boshKeys(bosh *Bosh) fields {
	return append(fields{
		{
			"manifest_ref", "The manifest template, a BOSH manifest with ((variables)): a file of the pak.",
			alternative(d.documentRef("manifest_ref", &bosh.Manifest)),
		},
		{"manifest", "The manifest template itself.", alternative(d.documentInline("manifest", &bosh.Manifest))},
	}, d.keys("", bosh, map[string]field{
		"optional_instance_groups": d.texts("optional_instance_groups", &bosh.OptionalInstanceGroups).
			withTypeWords("list of names").
			withDoc("Groups of the template or of ops files that a plan may leave out; all others are required."),
		"instance_groups": d.groupSizes(&bosh.Groups).
			withDoc("Instance groups whose size the definition computes. Plans may omit those that are computed " +
				"completely."),
		"ops":        d.ops(&bosh.Ops),
		"secrets":    d.secrets(&bosh.Secrets),
		"references": d.references(&bosh.References),
		"plan_defaults": d.texts("plan_defaults", &bosh.PlanDefaults).withTypeWords("list of user inputs").
			withDoc("User inputs for which a plan's property is only a default: users may set the parameter."),
		"configs": d.configs(&bosh.Configs).
			withDoc("BOSH configs that are returned to the broker. A config that is no longer returned stays at the " +
				"Director until the instance is deleted."),
		"requires": d.requires(&bosh.Requires),
		"checks": d.checks("checks", &bosh.Checks).
			withDoc("Other rules: a request is rejected with `message` if `that` is false, unless it was already " +
				"false for the deployed instance."),
		"update": d.expressions("update", &bosh.Update).
			withDoc("The `update` block for plans without one; its expressions may use `previous.exists`."),
		"carry_over": d.carryOver(bosh).
			withDoc("The path, in a manifest of another adapter, of the value of an input, secret, reference or " +
				"`uaa_client` field."),
		"outputs": d.outputs(&bosh.Outputs).
			withDoc("Values of the instance: `instance.details` in bind expressions, and part of every binding's " +
				"credentials."),
		"dashboard_url": d.expression("dashboard_url", &bosh.DashboardURL).
			withDoc("The URL of the dashboard; without it, the command exits with code 10."),
	})...)
}

// documentRef returns the field of a key that contains the path of a file in the pak, whose text is read into target. A
// file that cannot be read or is empty, an empty path and null are reported as errors. The target is then unchanged for
// an empty path or null, a zero Document for an unreadable file, and the Document of an empty file. The label is the
// key for errors.
func (d *definition) documentRef(label string, target *Document) field {
	return field{words: "path", newSchema: typed("string"), decode: func(node *yaml.Node) {
		var ref string
		if d.text(label, &ref).decode(node); ref == "" {
			d.errorf(node, "required", "%s must not be empty", label)
			return
		}
		document, ok := d.readRef(node, label, ref)
		if ok && strings.TrimSpace(document.Text) == "" {
			d.errorf(node, "required", "%s %q is an empty file", label, ref)
		}
		*target = document
	}}
}

// documentInline returns the field of a key that contains a YAML document: either a block scalar with the text of the
// document, or a YAML node, which is encoded. It is decoded into target. Positions in the text of an encoded node are
// not known: every position is that of the node. An empty text and null are reported as errors and stored with the text
// "". A node that cannot be encoded is reported as an error and leaves the target unchanged. The label is the key for
// errors.
func (d *definition) documentInline(label string, target *Document) field {
	return field{words: "text or YAML", newSchema: typed("object", "array", "string"), decode: func(node *yaml.Node) {
		if node.Kind == yaml.ScalarNode {
			*target = d.inlineDocument(node)
			if target.Text == "" {
				d.errorf(node, "required", "%s must not be empty", label)
			}
			return
		}
		text, err := yaml.Marshal(node)
		if err != nil {
			d.errorf(node, "yaml-syntax", "%s is not usable YAML: %s", label, err)
			return
		}
		*target = Document{Text: string(text), Pos: d.pos(node), Folded: true}
	}}
}

// documentKeys returns the keys of a document with a condition, ref, inline and if, which are decoded into target.
// Exactly one of ref and inline must be present; see fields.
func (d *definition) documentKeys(target *Conditional) fields {
	return fields{
		{"ref", "A file of the pak.", alternative(d.documentRef("ref", &target.Document))},
		{"inline", "The document itself.", alternative(d.documentInline("inline", &target.Document))},
		{"if", "The document is used only if this is true; default true.", d.expression("if", &target.If)},
	}
}

// groupSizes returns the field of the key provision.bosh.instance_groups, a list that is appended to target. The Sizes
// of each entry are set to one element for each property of a group, in a fixed order. Entries without a name are
// reported as errors and are not stored.
func (d *definition) groupSizes(target *[]GroupSize) field {
	keys := func(group *GroupSize) fields {
		rows := d.keys("", group, map[string]field{
			"like": d.text("like", &group.Like).
				withDoc("A group of the plan from which this group copies every property that neither the plan nor " +
					"another key sets. Plans may omit this group."),
		})
		group.Sizes = []Size{
			{Key: "instances", Type: "integer", doc: "How many instances.", mandatory: true},
			{
				Key: "at_most", Type: "integer",
				doc: "The maximum number of instances. A request that would exceed it is rejected.",
			},
			{Key: "vm_type", Type: "string", doc: "The VM type.", mandatory: true},
			{
				Key: "persistent_disk_type", Type: "string",
				doc: "The type of the persistent disk; an empty text for none.",
			},
			{Key: "vm_extensions", Type: "array", doc: "A list of VM extensions."},
			{Key: "networks", Type: "array", doc: "A list of networks.", mandatory: true},
			{Key: "azs", Type: "array", doc: "A list of availability zones.", mandatory: true},
		}
		for i := range group.Sizes {
			size := &group.Sizes[i]
			rows = append(rows, row{size.Key, size.doc, d.expression(size.Key, &size.Template)})
		}
		return rows
	}
	return entries(d.document, "instance_groups", true, target, keys, func(_ mappingNode, group *GroupSize) bool {
		return group.Name != ""
	})
}

// ops returns the field of the key provision.bosh.ops, a list that is appended to target in the order of the file. An
// entry without a document, or with two, is reported as an error and stored all the same.
func (d *definition) ops(target *[]Conditional) field {
	keys := func(ops *Conditional) fields {
		return append(d.documentKeys(ops), row{
			"completed",
			"Whether it is applied to the complete manifest, with the values that the broker supplies, instead of " +
				"the template.",
			d.boolean("completed", &ops.Completed),
		})
	}
	return entries(d.document, "ops", true, target, keys, nil)
}

// configs returns the field of the key provision.bosh.configs, which is decoded into target. The map has an entry for
// each type of config, "cloud", "cpi" or "runtime", that is present and not null. Null leaves the target nil. A value
// or a config that is not a mapping is reported as an error; the config is stored without a document.
func (d *definition) configs(target *map[string]Conditional) field {
	return d.section("configs", true, func() fields {
		*target = map[string]Conditional{}
		var rows fields
		for _, kind := range []string{"cloud", "CPI", "runtime"} {
			key, config := strings.ToLower(kind), &Conditional{}
			keys := func() fields { return d.documentKeys(config) }
			store := func(mappingNode) { (*target)[key] = *config }
			rows = append(rows, row{key, "A BOSH " + kind + " config.", d.section("configs."+key, true, keys, store)})
		}
		return rows
	}, nil)
}

// The limits for the length of generated passwords. Shorter ones can be guessed; many programs do not accept longer
// ones.
const minSecretLength, maxSecretLength = 8, 4096

// secrets returns the field of the key provision.bosh.secrets, a list that is appended to target in the order of the
// file. Decoding also sets Secret.Input. A secret that lacks a name, has not exactly one of length and value, or
// violates the rules of checkSecret is reported as an error and stored all the same.
func (d *definition) secrets(target *[]Secret) field {
	keys := func(secret *Secret) fields {
		return d.keys("", secret, map[string]field{
			"name": d.text("name", &secret.Name).withSchema(schema{"type": "string", "pattern": secretName.String()}),
			"length": d.integer("length", &secret.Length).
				withSchema(schema{"minimum": minSecretLength, "maximum": maxSecretLength}),
			"keepers": d.expressions("keepers", &secret.Keepers).
				withDoc("Expressions for a generated password. It is generated again, with a new name in CredHub, if " +
					"the result of one of them changes."),
		})
	}
	return entries(d.document, "secrets", true, target, keys, func(mapping mappingNode, secret *Secret) bool {
		if secret.Value != nil {
			secret.Input, _ = secret.Value.SingleVariable()
		}
		d.checkSecret(mapping, *secret)
		return true
	})
}

// checkSecret reports as errors: a name with other characters than letters, digits, underscores and hyphens or with a
// number at its end as in NAME-2, a length that is present and not from 8 to 4096, and keepers of a secret with a
// value. The mapping is that of the secret. Rules that concern several secrets or inputs are in checkSecrets.
func (d *definition) checkSecret(mapping mappingNode, secret Secret) {
	if !secretName.MatchString(secret.Name) || numberedName.MatchString(secret.Name) {
		d.failf(mapping.posOf("name"), "secret-name",
			"secret name %q may only contain letters, digits, underscores and "+
				"hyphens, and must not end with a hyphen and a number", secret.Name)
	}
	if mapping.has("length") && (secret.Length < minSecretLength || secret.Length > maxSecretLength) {
		d.failf(mapping.posOf("length"), "secret-length", "length of secret %q must be %d to %d", secret.Name,
			minSecretLength, maxSecretLength)
	}
	if secret.Value != nil && len(secret.Keepers) > 0 {
		d.failf(mapping.posOf("keepers"), "secret-generated",
			"keepers of secret %q are only allowed with length, not with value", secret.Name)
	}
}

// references returns the field of the key provision.bosh.references, a list that is appended to target in the order of
// the file. Decoding also sets Reference.Input. Entries without name or path, and those whose path has a syntax error,
// are reported as errors and are not stored.
func (d *definition) references(target *[]Reference) field {
	keys := func(reference *Reference) fields {
		return d.keys("", reference, map[string]field{
			"name": d.text("name", &reference.Name).
				withDoc("The name: ((NAME)) in the manifest template stands for the credential."),
			"path": d.expression("path", &reference.Path).
				withDoc("The absolute path in CredHub, which the operator must allow; empty for none."),
		})
	}
	return entries(d.document, "references", true, target, keys, func(_ mappingNode, reference *Reference) bool {
		if reference.Name == "" || reference.Path == nil {
			return false
		}
		reference.Input, _ = reference.Path.SingleVariable()
		return true
	})
}

// expressions returns the field of a mapping from names to expressions, which replaces the content of the target. The
// target is not nil afterwards. Null is an empty mapping, and so is a value that is not a mapping, which is reported as
// an error. The parameter label is the path of the mapping for errors. An entry that is null is not stored, nor is one
// that is not a scalar or has a syntax error, which is reported.
func (d *document) expressions(label string, target *map[string]*expr.Template) field {
	shape := mapOf(typed("string", "number", "boolean"))
	return field{words: "map of expressions", newSchema: shape, decode: func(node *yaml.Node) {
		*target = map[string]*expr.Template{}
		for key, item := range d.pairs(node, label) {
			var template *expr.Template
			d.expression(label+"."+key.Value, &template).decode(item)
			if template != nil {
				(*target)[key.Value] = template
			}
		}
	}}
}

// outputs returns the field of the key provision.bosh.outputs, which replaces the content of the target; null makes it
// empty, and so does a value that is not a mapping, which is reported as an error. See Output for the values that are
// expressions. A syntax error in one is reported, and the output is stored without Expr.
func (d *definition) outputs(target *map[string]Output) field {
	return field{words: "map", newSchema: typed("object"), decode: func(node *yaml.Node) {
		*target = map[string]Output{}
		for key, item := range d.pairs(node, "outputs") {
			output := Output{Pos: d.pos(item)}
			output.Literal, output.Expr = d.defaultValue(item)
			(*target)[key.Value] = output
		}
	}}
}

// carryOver returns the field of the key provision.bosh.carry_over, which replaces CarryOver and carryOverPos of bosh.
// A single path is stored as a list of one, and null in place of it as the path "". Null in place of the mapping leaves
// bosh unchanged; any other value that is not a mapping is reported as an error and stored as an empty one. See
// checkCarryOver for the rules on names and paths, which are checked later.
func (d *definition) carryOver(bosh *Bosh) field {
	path := func() schema {
		list := schema{"type": "array", "items": schema{"type": "string"}}
		return schema{"anyOf": []any{schema{"type": "string"}, list}}
	}
	return field{words: "name → path, or list of paths", newSchema: mapOf(path), decode: func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		bosh.CarryOver, bosh.carryOverPos = map[string][]string{}, map[string]diag.Pos{}
		for key, item := range d.pairs(node, "carry_over") {
			label := "carry_over." + key.Value
			var paths []string
			if item.Kind == yaml.SequenceNode {
				d.texts(label, &paths).decode(item)
			} else {
				paths = make([]string, 1)
				d.text(label, &paths[0]).decode(item)
			}
			bosh.CarryOver[key.Value], bosh.carryOverPos[key.Value] = paths, d.pos(key)
		}
	}}
}

// requires returns the field of the key provision.bosh.requires, a mapping that is decoded into target. Unknown keys
// are errors, and so are invalid constraints, which are stored all the same.
func (d *definition) requires(target *Requires) field {
	return d.section("requires", true, func() fields {
		return d.keys("requires.", target, map[string]field{
			"releases":  d.constraints("requires.releases", &target.Releases),
			"jobs":      d.constraints("requires.jobs", &target.Jobs),
			"stemcells": d.constraints("requires.stemcells", &target.Stemcells),
			"no_downgrade_jobs": d.texts("requires.no_downgrade_jobs", &target.NoDowngradeJobs).
				withDoc("Jobs whose releases must not become older than the deployed ones."),
		})
	}, nil)
}

// constraints returns the field of a mapping from names to version constraints. Decoding the field appends the
// constraints to the target, in the order of the file. An invalid constraint is reported as an error and appended all
// the same; one that is not a scalar is appended as "". A value that is not a mapping is reported as an error, except
// null, which has no constraints. The parameter label is the path of the mapping for errors.
func (d *definition) constraints(label string, target *[]Constraint) field {
	return field{words: "map of texts", newSchema: mapOf(typed("string", "number")), decode: func(node *yaml.Node) {
		for key, item := range d.pairs(node, label) {
			constraint := Constraint{Name: key.Value, Pos: d.pos(item)}
			d.text(label+"."+key.Value, &constraint.Constraint).decode(item)
			if _, err := ParseConstraint(constraint.Constraint); err != nil && item.Kind == yaml.ScalarNode {
				d.errorf(item, "constraint", "%s", err)
			}
			*target = append(*target, constraint)
		}
	}}
}

// checks returns the field of a list of checks, which are appended to target in the order of the file. The parameter
// label is the key of the list for errors. A check without audience gets the audience Operator; an unknown audience is
// reported as an error and stored all the same. Checks without a valid condition or message are reported as errors and
// are not stored.
func (d *definition) checks(label string, target *[]Check) field {
	keys := func(check *Check) fields {
		return d.keys("", check, map[string]field{
			"that": d.expression("that", &check.That).
				withDoc("The request is rejected if this is false; an empty or null result is false."),
			"audience": d.text("audience", (*string)(&check.Audience)).withSchema(oneOf("operator", "user")),
		})
	}
	return entries(d.document, label, true, target, keys, func(mapping mappingNode, check *Check) bool {
		if check.Audience = cmp.Or(check.Audience, Operator); check.Audience != Operator && check.Audience != User {
			d.failf(mapping.posOf("audience"), "audience", "audience %q must be operator or user", check.Audience)
		}
		return check.That != nil && check.Message != nil
	})
}
