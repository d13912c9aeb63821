package brokerpak

import (
	"cmp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// bosh returns the field of the key provision.bosh, a section that determines the BOSH manifest of an instance; a field
// describes the value of a key and decodes it. Decoding stores a new Bosh in target, and leaves target unchanged if the
// section is null. It adds errors to the diagnostics of d for values that are invalid, for unknown keys, and unless the
// section has exactly one of manifest and manifest_ref. A section that is not a mapping is also reported as an error,
// and target then becomes a Bosh with a position and no content.
func (d *definition) bosh(target **Bosh) field {
	bosh := &Bosh{}
	return d.section("provision.bosh", true, func() fields { return d.boshKeys(bosh) }, func(mapping mappingNode) {
		bosh.Pos = mapping.pos
		*target = bosh
	})
}

// boshKeys returns descriptions of the keys of provision.bosh. Decoding a key stores its value in a field of the
// parameter bosh, and adds errors to the diagnostics of d if the value is not valid. The table of these keys in
// docs/format.md is generated from the descriptions.
func (d *definition) boshKeys(bosh *Bosh) fields {
	return append(fields{
		{
			"manifest_ref", "The path of the manifest template, which is a file of the pak: a BOSH manifest with " +
				"((variables)).",
			alternative(d.documentRef("manifest_ref", &bosh.Manifest)),
		},
		{"manifest", "The text of the manifest template.", alternative(d.documentInline("manifest", &bosh.Manifest))},
	}, d.keys("", bosh, map[string]field{
		"optional_instance_groups": d.texts("optional_instance_groups", &bosh.OptionalInstanceGroups).
			withTypeWords("list of names").
			withDoc("Instance groups of the template or of ops files that a plan may omit. Any other group is " +
				"required, unless `instance_groups` computes its size completely."),
		"instance_groups": d.groupSizes(&bosh.Groups).
			withDoc("Instance groups whose size the definition computes. A plan may omit a group if the definition " +
				"computes its size completely."),
		"ops":        d.ops(&bosh.Ops),
		"secrets":    d.secrets(&bosh.Secrets),
		"references": d.references(&bosh.References),
		"plan_defaults": d.texts("plan_defaults", &bosh.PlanDefaults).withTypeWords("list of user inputs").
			withDoc("User inputs that users may set although the plan has a property with the name of the input. The " +
				"property is then only the default."),
		"configs": d.configs(&bosh.Configs).
			withDoc("BOSH configs that the adapter returns to the broker. If the adapter no longer returns a config, " +
				"the config stays at the Director until the instance is deleted."),
		"requires": d.requires(&bosh.Requires),
		"checks": d.checks("checks", &bosh.Checks).
			withDoc("Other rules. If `that` is false, the adapter rejects the request with `message`, unless `that` " +
				"is also false for the deployed instance."),
		"update": d.expressions("update", &bosh.Update).
			withDoc("Keys of the manifest's `update` block. A key of the plan's `update` block takes precedence. The " +
				"expressions may read the deployed instance, for example with `previous.exists`."),
		"carry_over": d.carryOver(bosh).
			withDoc("For an input, secret, reference or field of `uaa_client`, the path of its value in the manifest " +
				"of another adapter. If there are several paths, the adapter uses the first one with a value."),
		"outputs": d.outputs(&bosh.Outputs).
			withDoc("Values of the instance. Bind expressions read them as `instance.details`, and the credentials " +
				"of every binding contain them."),
		"dashboard_url": d.expression("dashboard_url", &bosh.DashboardURL).
			withDoc("The URL of the dashboard. If the key is missing, the command `dashboard-url` exits with 10, and " +
				"the service has no dashboard."),
	})...)
}

// documentRef returns the field for a key that contains the path of a file in the pak, relative to its root; decoding
// reads the file and stores its text in target, with the first character of the file as the position. The label is the
// name of the key in error messages. Decoding adds an error to the diagnostics of d in three cases:
//   - The path is null, empty or not a scalar. target is then unchanged.
//   - The file is outside of the pak, missing, not a regular file, larger than 4 MB or not readable. target becomes a
//     zero Document.
//   - The file is empty or contains only white space. Its text is stored in target all the same.
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

// documentInline returns the field for a key that contains a YAML document; decoding stores the document in target. If
// the value is a scalar, usually a block scalar, its text is the text of the document. If the value is a mapping or
// list, it is encoded as YAML; since its lines are then different, every position in the text is reported as that of
// the value. An empty text and null are reported as errors in the diagnostics of d and stored with the text "". A value
// that cannot be encoded is reported as an error and leaves target unchanged. The label is the name of the key in error
// messages.
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

// documentKeys returns descriptions of the keys ref, inline and if, which describe a document and the condition for
// its use. Decoding the keys stores their values in target: ref is the path of a file in the pak, inline is the
// document itself, and if is an expression. Invalid values are reported as errors; see documentRef, documentInline
// and expression.
//
// Decoding a mapping with these keys reports an error unless it has exactly one of ref and inline, and that is
// neither null nor an empty text. If it has both, target gets one of the documents or an empty one. If the key if is
// missing, null or invalid, target.If stays nil, which means that the document is always used.
func (d *definition) documentKeys(target *Conditional) fields {
	return fields{
		{"ref", "A file of the pak.", alternative(d.documentRef("ref", &target.Document))},
		{"inline", "The document itself.", alternative(d.documentInline("inline", &target.Document))},
		{"if", "The document is used only if this is true; default true.", d.expression("if", &target.If)},
	}
}

// groupSizes returns the field of the key provision.bosh.instance_groups, a list of instance groups whose size the
// definition computes; decoding appends them to target. The Sizes of each entry always have seven elements, in this
// order: instances, at_most, vm_type, persistent_disk_type, vm_extensions, networks and azs. The Template of an element
// is nil if the entry does not have its key, or has null or an invalid expression there.
//
// Decoding adds errors to the diagnostics of d for invalid expressions, for unknown keys, and for a list or mapping as
// the value of the key like; such an entry is stored all the same. An entry without a name and one that is not a
// mapping are reported as errors and are not stored. Null is an empty list; any other value that is not a list is
// reported as an error.
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

// ops returns the field of the key provision.bosh.ops, a list of ops files with optional conditions; decoding appends
// them to target in the order of the file. Decoding adds errors to the diagnostics of d for an entry without a
// document, with both ref and inline, with unknown keys or with invalid values, and for an entry that is not a mapping.
// Such an entry is stored all the same. Null is an empty list; any other value that is not a list is reported as an
// error.
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

// configs returns the field of the key provision.bosh.configs, a mapping from a type of BOSH config (cloud, cpi or
// runtime) to a document with an optional condition. Decoding sets target to a new map that has an entry, with the
// lower-case type as its key, for each config that is present and not null. Null instead of the mapping leaves target
// unchanged, and any other value that is not a mapping makes the map empty and is reported as an error.
//
// Configs of other types are reported as errors in the diagnostics of d and are not stored. A config that is not a
// mapping, has unknown keys or invalid values, or does not have exactly one of ref and inline, is also reported as an
// error. It is stored all the same, with an empty document if it has none.
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

// secrets returns the field of the key provision.bosh.secrets, a list of values that the broker stores in CredHub;
// decoding appends them to target in the order of the file. Decoding also sets Secret.Input to NAME if the value of the
// secret is only a reference ${NAME}.
//
// Decoding adds errors to the diagnostics of d for a secret that is not a mapping, has an unknown key, a value of the
// wrong type or an invalid expression, lacks a name, has not exactly one of length and value, or violates the rules
// of checkSecret on the name, the length and keepers. Such a secret is stored all the same, without the values of a
// wrong type and the invalid expressions, but with a name, a length or keepers that checkSecret rejects. Null is an
// empty list; any other value that is not a list is reported as an error.
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

// checkSecret adds errors to the diagnostics of d if a secret is invalid by itself. Its name must consist of ASCII
// letters, digits, underscores and hyphens, must neither begin nor end with a hyphen nor be empty, and must not end
// with a hyphen and a number, as in NAME-2. Its length, if present, must be from 8 to 4096. A secret with a value must
// not have keepers. mapping contains the nodes of the secret, for the positions of the errors. Rules that concern
// several secrets or inputs are in checkSecrets.
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

// references returns the field of the key provision.bosh.references, a list of credentials that CredHub already
// contains; decoding appends them to target in the order of the file. Decoding also sets Reference.Input to NAME if the
// path is only a reference ${NAME}. Entries that are not mappings, lack a name or a path, or have a path that is not a
// valid expression are reported as errors in the diagnostics of d and are not stored. Unknown keys and a path that is
// the empty text are also reported as errors, but do not keep an entry from being stored. Null is an empty list; any
// other value that is not a list is reported as an error.
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

// expressions returns the field of a mapping from names to expressions, which are strings such as "${size}"; decoding
// replaces the content of target, which is never nil afterwards. The parameter label is the path of the mapping in
// error messages, such as "labels". Null counts as an empty mapping, and so does a value that is not a mapping, which
// is reported as an error in the diagnostics of d. An entry that is null is not stored. An entry that is not a scalar
// or has a syntax error is reported as an error and not stored.
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

// outputs returns the field of the key provision.bosh.outputs, a mapping from the names of outputs to values of any
// type; decoding replaces the content of target. A string is parsed as an expression and stored in both Literal and
// Expr. Other values, also null, are stored in Literal only; strings within a list or mapping are not parsed.
//
// Null instead of the mapping results in an empty map, and so does a value that is not a mapping, which is reported as
// an error in the diagnostics of d. A string with a syntax error is reported as an error and stored without Expr. A
// scalar that JSON cannot represent, such as .inf, or that does not fit its YAML tag is reported as an error and
// becomes nil, also within a list or mapping.
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

// carryOver returns the field of the key provision.bosh.carry_over, a mapping from names to paths in a manifest of
// another adapter, such as /instance_groups/name=db/jobs/name=pg/properties/port. The value is one path or a list of
// them. Decoding replaces the field CarryOver of bosh, which has the paths of each name, and carryOverPos, which has
// the positions of the names. One path is stored as a list of one, null in place of a path as the path "", and an empty
// list as nil. A mapping in place of a path, and a list within the list, are stored as "" as well, and are reported as
// errors in the diagnostics of d.
//
// Null in place of the mapping of all names leaves bosh unchanged. Any other value that is not a mapping is reported as
// an error and stored as an empty mapping. checkCarryOver checks the names and the paths later.
func (d *definition) carryOver(bosh *Bosh) field {
	path := func() schema {
		list := schema{"type": "array", "items": schema{"type": "string"}}
		return schema{"anyOf": []any{schema{"type": "string"}, list}}
	}
	return field{words: "map of paths, or of lists of paths", newSchema: mapOf(path), decode: func(node *yaml.Node) {
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

// requires returns the field of the key provision.bosh.requires, a mapping of preconditions of a deployment, such as
// version constraints on releases; decoding stores them in target. Null leaves target unchanged.
//
// Decoding adds errors to the diagnostics of d for unknown keys, for a value that is not a mapping, for values of the
// wrong type in it, such as a text in place of a list, and for invalid version constraints. An invalid constraint is
// stored all the same; see constraints.
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

// constraints returns the field of a mapping from names to version constraints such as ">= 4.1, < 6"; decoding appends
// the constraints to target in the order of the file. The parameter label is the path of the mapping in error messages.
// A constraint that ParseConstraint rejects, also an empty one or null, is reported as an error in the diagnostics of d
// and appended all the same; a constraint that is not a scalar is reported and appended with the text "". A value that
// is not a mapping is reported as an error and appends nothing. Null in place of the mapping has no constraints.
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

// checks returns the field of a list of checks, which are rules for requests; decoding appends them to target in the
// order of the file. The parameter label is the path of the list in error messages, such as "bind.requires". A check
// whose audience is missing, null, empty or not a scalar gets the audience Operator.
//
// Decoding adds errors to the diagnostics of d for an audience that is unknown or not a scalar, for unknown keys, and
// for a condition or message that is the empty text; such a check is stored all the same. A check whose condition or
// message is missing, null or not a valid expression, and an entry that is not a mapping, are reported as errors and
// are not stored. Null is an empty list; any other value that is not a list is reported as an error.
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
