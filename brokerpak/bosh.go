package brokerpak

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/yamltree"
)

// bosh decodes provision.bosh. It is this project's own section, so unknown keys are errors.
func (d *definition) bosh(target **Bosh) field {
	return func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		bosh := &Bosh{Pos: d.pos(node)}
		*target = bosh
		at := d.mapping(node, "provision.bosh", true, fields{
			{"manifest_ref", d.documentRef("manifest_ref", &bosh.Manifest)},
			{"manifest", d.documentInline("manifest", &bosh.Manifest)},
			{"optional_instance_groups", d.texts("optional_instance_groups", &bosh.OptionalInstanceGroups)},
			{"ops", d.ops(&bosh.Ops)},
			{"secrets", d.secrets(&bosh.Secrets)},
			{"references", d.references(&bosh.References)},
			{"plan_defaults", d.texts("plan_defaults", &bosh.PlanDefaults)},
			{"configs", d.configs(&bosh.Configs)},
			{"labels", d.expressions("labels", &bosh.Labels)},
			{"update", d.expressions("update", &bosh.Update)},
			{"requires", d.requires(&bosh.Requires)},
			{"checks", d.checks("checks", &bosh.Checks)},
			{"carry_over", d.carryOver(bosh)},
			{"outputs", d.outputs(&bosh.Outputs)},
			{"dashboard_url", d.expression("dashboard_url", &bosh.DashboardURL)},
		})
		d.oneOf(at, "provision.bosh", "manifest_ref", "manifest")
	}
}

func (d *definition) documentRef(what string, target *Document) field {
	return func(node *yaml.Node) {
		var ref string
		if d.text(what, &ref)(node); ref == "" {
			d.required(places{self: d.pos(node)}, "", what, ref)
			return
		}
		document, ok := d.readRef(node, what, ref)
		if ok && strings.TrimSpace(document.Text) == "" {
			d.errorf(node, "required", "%s %q is an empty file", what, ref)
		}
		*target = document
	}
}

// documentInline takes a YAML text that stands in the definition as a block scalar, or as YAML of its own.
func (d *definition) documentInline(what string, target *Document) field {
	return func(node *yaml.Node) {
		if node.Kind == yaml.ScalarNode {
			var text string
			d.text(what, &text)(node)
			*target = d.inlineDocument(node, text)
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
	}
}

// oneOf reports a mapping that has none or both of two keys.
func (d *definition) oneOf(at places, what, first, second string) {
	switch {
	case !at.has(first) && !at.has(second):
		d.failf(at.self, "required", "%s needs %s or %s", what, first, second)
	case at.has(first) && at.has(second):
		d.failf(at.at(second), "conflict", "%s may have only one of %s and %s", what, first, second)
	}
}

func (d *definition) conditional(element *yaml.Node, what string, document *Document, condition **expr.Template) {
	at := d.mapping(element, what, true, fields{
		{"ref", d.documentRef("ref", document)},
		{"inline", d.documentInline("inline", document)},
		{"if", d.expression("if", condition)},
	})
	d.oneOf(at, what, "ref", "inline")
}

func (d *definition) ops(target *[]Ops) field {
	return func(node *yaml.Node) {
		d.sequence(node, "ops", func(element *yaml.Node) {
			var ops Ops
			d.conditional(element, "an entry of ops", &ops.Document, &ops.If)
			*target = append(*target, ops)
		})
	}
}

func (d *definition) configs(target *map[string]Config) field {
	return func(node *yaml.Node) {
		*target = map[string]Config{}
		for _, p := range d.pairs(node, "configs") {
			if !slices.Contains([]string{"cloud", "cpi", "runtime"}, p.key.Value) {
				d.errorf(p.key, "config-type", "unknown config type %q; allowed: cloud, cpi, runtime", p.key.Value)
			}
			var config Config
			d.conditional(p.value, "configs."+p.key.Value, &config.Document, &config.If)
			(*target)[p.key.Value] = config
		}
	}
}

func (d *definition) secrets(target *[]Secret) field {
	return func(node *yaml.Node) {
		d.sequence(node, "secrets", func(element *yaml.Node) {
			secret := Secret{Pos: d.pos(element)}
			at := d.mapping(element, "a secret", true, fields{
				{"name", d.text("name", &secret.Name)},
				{"length", d.integer("length", &secret.Length)},
				{"value", d.expression("value", &secret.Value)},
			})
			if secret.Value != nil {
				secret.Input, _ = secret.Value.Whole()
			}
			d.checkSecret(at, secret)
			*target = append(*target, secret)
		})
	}
}

func (d *definition) references(target *[]Reference) field {
	return func(node *yaml.Node) {
		d.sequence(node, "references", func(element *yaml.Node) {
			reference := Reference{Pos: d.pos(element)}
			at := d.mapping(element, "a reference", true, fields{
				{"name", d.text("name", &reference.Name)},
				{"path", d.expression("path", &reference.Path)},
			})
			if !at.has("name") || !at.has("path") {
				d.failf(at.self, "required", "an entry of references needs name and path")
			}
			if reference.Name == "" || reference.Path == nil {
				return
			}
			reference.Input, _ = reference.Path.Whole()
			*target = append(*target, reference)
		})
	}
}

// secretLength bounds generated passwords: shorter ones can be guessed, longer ones break many programs.
const minSecretLength, maxSecretLength = 8, 4096

func (d *definition) checkSecret(at places, secret Secret) {
	if !secretName.MatchString(secret.Name) || numberedName.MatchString(secret.Name) {
		d.failf(at.at("name"), "secret-name", "secret name %q may only hold letters, digits, underscores and hyphens, "+
			"and may not end with a hyphen and a number", secret.Name)
	}
	d.oneOf(at, fmt.Sprintf("secret %q", secret.Name), "length", "value")
	if at.has("length") && (secret.Length < minSecretLength || secret.Length > maxSecretLength) {
		d.failf(at.at("length"), "secret-length", "length of secret %q must be %d to %d", secret.Name, minSecretLength, maxSecretLength)
	}
}

func (d *definition) expressions(what string, target *map[string]*expr.Template) field {
	return func(node *yaml.Node) {
		*target = map[string]*expr.Template{}
		for _, p := range d.pairs(node, what) {
			var template *expr.Template
			d.expression(what+"."+p.key.Value, &template)(p.value)
			if template != nil {
				(*target)[p.key.Value] = template
			}
		}
	}
}

func (d *definition) outputs(target *map[string]Output) field {
	return func(node *yaml.Node) {
		*target = map[string]Output{}
		for _, p := range d.pairs(node, "outputs") {
			output := Output{Pos: d.pos(p.value)}
			output.Literal, output.Expr = d.defaultValue(p.value)
			(*target)[p.key.Value] = output
		}
	}
}

func (d *definition) carryOver(bosh *Bosh) field {
	return func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		bosh.CarryOver, bosh.carryOverAt = map[string][]string{}, map[string]diag.Pos{}
		for _, p := range d.pairs(node, "carry_over") {
			what := "carry_over." + p.key.Value
			var paths []string
			if p.value.Kind == yaml.SequenceNode {
				d.texts(what, &paths)(p.value)
			} else {
				paths = make([]string, 1)
				d.text(what, &paths[0])(p.value)
			}
			bosh.CarryOver[p.key.Value], bosh.carryOverAt[p.key.Value] = paths, d.pos(p.key)
		}
	}
}

func (d *definition) requires(target *Requires) field {
	return func(node *yaml.Node) {
		if yamltree.IsNull(node) {
			return
		}
		d.mapping(node, "requires", true, fields{
			{"releases", d.constraints("requires.releases", &target.Releases)},
			{"jobs", d.constraints("requires.jobs", &target.Jobs)},
			{"stemcells", d.constraints("requires.stemcells", &target.Stemcells)},
			{"no_downgrade", d.texts("requires.no_downgrade", &target.NoDowngrade)},
			{"no_downgrade_jobs", d.texts("requires.no_downgrade_jobs", &target.NoDowngradeJobs)},
			{"no_scale_in", d.texts("requires.no_scale_in", &target.NoScaleIn)},
		})
	}
}

func (d *definition) constraints(what string, target *[]Constraint) field {
	return func(node *yaml.Node) {
		for _, p := range d.pairs(node, what) {
			constraint := Constraint{Name: p.key.Value, Pos: d.pos(p.value)}
			d.text(what+"."+p.key.Value, &constraint.Constraint)(p.value)
			if _, err := ParseConstraint(constraint.Constraint); err != nil && p.value.Kind == yaml.ScalarNode {
				d.errorf(p.value, "constraint", "%s", err)
			}
			*target = append(*target, constraint)
		}
	}
}

func (d *definition) checks(what string, target *[]Check) field {
	return func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			check := Check{Pos: d.pos(element)}
			audience := "operator"
			at := d.mapping(element, "an entry of "+what, true, fields{
				{"that", d.expression("that", &check.That)},
				{"message", d.expression("message", &check.Message)},
				{"audience", d.text("audience", &audience)},
			})
			switch audience {
			case "operator":
			case "user":
				check.Audience = User
			default:
				d.failf(at.at("audience"), "audience", "audience %q must be operator or user", audience)
			}
			if !at.has("that") || !at.has("message") {
				d.failf(at.self, "required", "an entry of %s needs that and message", what)
			}
			if check.That == nil || check.Message == nil {
				return
			}
			*target = append(*target, check)
		})
	}
}
