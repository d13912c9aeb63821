package brokerpak

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

// bosh decodes provision.bosh. It is this project's own section, so unknown keys are errors.
func (d *definition) bosh(target **Bosh) field {
	return func(node *yaml.Node) {
		if isNull(node) {
			return
		}
		bosh := &Bosh{Pos: d.pos(resolve(node))}
		*target = bosh
		d.mapping(node, "provision.bosh", true, map[string]field{
			"manifest_ref":             d.documentRef("manifest_ref", &bosh.Manifest),
			"manifest":                 d.documentInline("manifest", &bosh.Manifest),
			"optional_instance_groups": d.texts("optional_instance_groups", &bosh.OptionalInstanceGroups),
			"ops":                      d.ops(&bosh.Ops),
			"secrets":                  d.secrets(&bosh.Secrets),
			"configs":                  d.configs(&bosh.Configs),
			"labels":                   d.expressions("labels", &bosh.Labels),
			"update":                   d.expressions("update", &bosh.Update),
			"requires":                 d.requires(&bosh.Requires),
			"checks":                   d.checks("checks", &bosh.Checks),
			"carry_over":               d.textMap("carry_over", &bosh.CarryOver),
			"outputs":                  d.outputs(&bosh.Outputs),
			"dashboard_url":            d.expression("dashboard_url", &bosh.DashboardURL),
		})
		if bosh.Manifest.Text == "" {
			d.errorf(resolve(node), "required", "provision.bosh needs manifest_ref or manifest")
		}
	}
}

func (d *definition) documentRef(what string, target *Document) field {
	return func(node *yaml.Node) {
		var ref string
		if d.text(what, &ref)(node); ref == "" {
			return
		}
		if text, ok := d.readRef(node, what, ref); ok {
			*target = Document{Text: text, Pos: diag.Pos{File: d.pak.display(ref), Line: 1, Column: 1}}
		}
	}
}

// documentInline takes a YAML text that stands in the definition as a block scalar, or as YAML of its own.
func (d *definition) documentInline(what string, target *Document) field {
	return func(node *yaml.Node) {
		node = resolve(node)
		if node.Kind == yaml.ScalarNode {
			pos := d.pos(node)
			if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
				pos.Line++ // the text begins after the "|"
			}
			pos.Column = 1
			target.Pos = pos
			d.text(what, &target.Text)(node)
			return
		}
		text, err := yaml.Marshal(node)
		if err != nil {
			d.errorf(node, "yaml-syntax", "%s is not usable YAML: %s", what, err)
			return
		}
		*target = Document{Text: string(text), Pos: d.pos(node)}
	}
}

func (d *definition) conditional(element *yaml.Node, what string, document *Document, condition **expr.Template) {
	d.mapping(element, what, true, map[string]field{
		"ref":    d.documentRef("ref", document),
		"inline": d.documentInline("inline", document),
		"if":     d.expression("if", condition),
	})
	if document.Text == "" {
		d.errorf(resolve(element), "required", "%s needs ref or inline", what)
	}
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
			secret := Secret{Pos: d.pos(resolve(element))}
			d.mapping(element, "a secret", true, map[string]field{
				"name":   d.text("name", &secret.Name),
				"length": d.integer("length", &secret.Length),
				"value":  d.expression("value", &secret.Value),
			})
			if secret.Value != nil {
				secret.Input, _ = secret.Value.Whole()
			}
			d.checkSecret(element, secret)
			*target = append(*target, secret)
		})
	}
}

// secretLength bounds generated passwords: shorter ones can be guessed, longer ones break many programs.
const minSecretLength, maxSecretLength = 8, 4096

func (d *definition) checkSecret(node *yaml.Node, secret Secret) {
	node = resolve(node)
	if !secretName.MatchString(secret.Name) || numberedName.MatchString(secret.Name) {
		d.errorf(node, "secret-name", "secret name %q may only hold letters, digits, underscores and hyphens, "+
			"and may not end with a hyphen and a number", secret.Name)
	}
	if (secret.Length != 0) == (secret.Value != nil) {
		d.errorf(node, "required", "secret %q needs either length or value", secret.Name)
	}
	if secret.Value == nil && (secret.Length < minSecretLength || secret.Length > maxSecretLength) {
		d.errorf(node, "secret-length", "length of secret %q must be %d to %d", secret.Name, minSecretLength, maxSecretLength)
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
			output := Output{Pos: d.pos(resolve(p.value))}
			output.Literal, output.Expr = d.defaultValue(p.value)
			(*target)[p.key.Value] = output
		}
	}
}

func (d *definition) requires(target *Requires) field {
	return func(node *yaml.Node) {
		d.mapping(node, "requires", true, map[string]field{
			"releases":     d.constraints("requires.releases", &target.Releases),
			"stemcells":    d.constraints("requires.stemcells", &target.Stemcells),
			"no_downgrade": d.texts("requires.no_downgrade", &target.NoDowngrade),
			"no_scale_in":  d.texts("requires.no_scale_in", &target.NoScaleIn),
		})
	}
}

func (d *definition) constraints(what string, target *[]Constraint) field {
	return func(node *yaml.Node) {
		for _, p := range d.pairs(node, what) {
			constraint := Constraint{Name: p.key.Value, Pos: d.pos(resolve(p.value))}
			d.text(what, &constraint.Constraint)(p.value)
			if _, err := ParseConstraint(constraint.Constraint); err != nil {
				d.errorf(resolve(p.value), "constraint", "%s", err)
			}
			*target = append(*target, constraint)
		}
	}
}

func (d *definition) checks(what string, target *[]Check) field {
	return func(node *yaml.Node) {
		d.sequence(node, what, func(element *yaml.Node) {
			check := Check{Pos: d.pos(resolve(element))}
			audience := "operator"
			d.mapping(element, "an entry of "+what, true, map[string]field{
				"that":     d.expression("that", &check.That),
				"message":  d.expression("message", &check.Message),
				"audience": d.text("audience", &audience),
			})
			switch strings.TrimSpace(audience) {
			case "operator":
			case "user":
				check.Audience = User
			default:
				d.errorf(resolve(element), "audience", "audience %q must be operator or user", audience)
			}
			if check.That == nil || check.Message == nil {
				d.errorf(resolve(element), "required", "an entry of %s needs that and message", what)
				return
			}
			*target = append(*target, check)
		})
	}
}
