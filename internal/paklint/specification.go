package paklint

import (
	"encoding/base64"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// namePattern is what the specification demands of the names of services and plans.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9.-]+$`)

// root stands for the whole definition in places.
var root diag.Pos //nolint:gochecknoglobals // a constant

// specification holds what the specification demands and other brokers do not check.
func (c *serviceCheck) specification() {
	for _, section := range []string{"provision", "bind"} {
		if node := c.places.get(root, section); node == nil || node.ShortTag() == "!!null" {
			c.diags.Warnf(c.service.Pos, "required", "the section %s is required", section)
		}
	}
	c.filled("plans", "no-plans", "a service must have at least one plan; without one it depends on plans of the operator")
	c.filled("examples", "no-examples", "a service must have at least one example; examples are documentation and tests")
	for _, plan := range c.service.Plans {
		if plan.Name != "" && !namePattern.MatchString(plan.Name) {
			c.diags.Warnf(c.places.value(plan.Pos, "name"), "name",
				"plan name %q may only hold letters, digits, periods and hyphens", plan.Name)
		}
		if c.places.get(plan.Pos, "properties") == nil {
			c.diags.Warnf(plan.Pos, "required", "properties of plan %q are required; write {} for none", plan.Name)
		}
	}
	for name, action := range map[string]*brokerpak.Action{"provision": &c.service.Provision, "bind": &c.service.Bind} {
		c.once(name+".computed_inputs", action.ComputedInputs)
		c.variables(name+".plan_inputs", action.PlanInputs)
		c.variables(name+".user_inputs", action.UserInputs)
		c.variables(name+".outputs", action.Outputs)
	}
}

// instances warns of a service that the on-demand broker cannot create. Other brokers answer for one with what its inputs hold.
func (c *serviceCheck) instances() {
	pos := c.service.Provision.Pos
	if c.service.Name == "" {
		return // it could not be read, which was reported
	}
	for _, key := range []string{"bosh", "template", "template_ref", "templates", "template_refs"} {
		if pos != (diag.Pos{}) && c.places.get(pos, key) != nil {
			return
		}
	}
	if pos == (diag.Pos{}) {
		pos = c.service.Pos
	}
	c.diags.Warnf(pos, "no-instances", "service %q has neither a provision.bosh section nor a provision template, so the on-demand broker cannot "+
		"create instances of it", c.service.Name)
}

// filled warns of a list that is missing or empty.
func (c *serviceCheck) filled(key, rule, message string) {
	switch node := c.places.get(root, key); {
	case node == nil:
		c.diags.Warnf(c.service.Pos, rule, "%s", message)
	case node.Kind == yaml.SequenceNode && len(node.Content) == 0, node.ShortTag() == "!!null":
		c.diags.Warnf(c.places.key(root, key), rule, "%s", message)
	}
}

func (c *serviceCheck) variables(list string, variables []brokerpak.Variable) {
	c.once(list, variables)
	for _, variable := range variables {
		if c.places.get(variable.Pos, "type") == nil {
			c.diags.Warnf(variable.Pos, "required", "type of %q in %s is required", variable.Name, list)
		}
		if node := c.places.get(variable.Pos, "default"); node != nil && node.ShortTag() == "!!null" && !variable.Required && !variable.Nullable {
			c.diags.Warnf(c.places.value(variable.Pos, "default"), "null-default",
				"the default of %q is null, so it must be required or nullable; leave the default out otherwise", variable.Name)
		}
		for _, keyword := range value.Keys(variable.Constraints) {
			if !slices.Contains(keywords, keyword) {
				c.diags.Warnf(c.places.key(variable.Pos, "constraints", keyword), "constraint-keyword",
					"%q is not one of the constraints of the specification%s; they are %s", keyword,
					diag.Suggest(keyword, keywords), strings.Join(keywords, ", "))
			}
		}
	}
}

// keywords are the constraints of the specification.
var keywords = []string{ //nolint:gochecknoglobals // a constant table
	"const", "examples", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
	"minLength", "minProperties", "minimum", "multipleOf", "pattern", "propertyNames",
}

// once warns of names that are in a list twice.
func (c *serviceCheck) once(list string, variables []brokerpak.Variable) {
	seen := map[string]diag.Pos{}
	for _, variable := range variables {
		if first, ok := seen[variable.Name]; ok && variable.Name != "" {
			c.diags.Warnf(variable.Pos, "duplicate-input", "%q is in %s twice; first at %s", variable.Name, list, first)
			continue
		}
		seen[variable.Name] = variable.Pos
	}
}

// image checks that the image of the catalog is there and is one.
func (c *serviceCheck) image() {
	pos := c.places.value(root, "image_url")
	if data, ok := strings.CutPrefix(c.service.ImageURL, "data:"); ok {
		kind, encoded, found := strings.Cut(data, ",")
		_, err := base64.StdEncoding.DecodeString(encoded)
		if !found || !strings.HasPrefix(kind, "image/") || strings.HasSuffix(kind, ";base64") && err != nil {
			c.diags.Warnf(pos, "image", "image_url must be a data URL of an image, such as data:image/png;base64,…")
		}
		return
	}
	name, ok := strings.CutPrefix(c.service.ImageURL, "file://")
	if !ok {
		return
	}
	if c.pak.IsZip() {
		c.diags.Warnf(pos, "image", "image_url %q is not a part of the pak; pak build would put the image into the definition", c.service.ImageURL)
		return
	}
	content, err := fs.ReadFile(c.pak.Files(), path.Clean(name))
	switch {
	case err != nil:
		c.diags.Errorf(pos, "image", "the image %q cannot be read from the root of the pak", name)
	case brokerpak.ImageType(name, content) == "":
		c.diags.Errorf(pos, "image", "the image %q must be a PNG, JPEG or SVG image", name)
	}
}

// fileName is what Cloud Foundry takes as the name of a file with a credential, for apps with bindings in files:
// ServiceBindingFilesBuilder of the Cloud Controller. The sizes, in bytes, are what it and Linux, for the variable VCAP_SERVICES, take.
var fileName = regexp.MustCompile(`^[a-z0-9._-]+$`)

const (
	maxFileName     = 253
	maxCredentials  = 1_000_000
	maxVcapServices = 131_072
)

// credentials warns of what Cloud Foundry does not give to apps: names, and texts in the definition that are too large.
func (c *serviceCheck) credentials() {
	name := func(pos diag.Pos, name string) {
		if name != "" && (len(name) > maxFileName || !fileName.MatchString(name)) {
			c.diags.Warnf(pos, "credential", "Cloud Foundry makes no file of the credential %q: a name has 1 to 253 small letters, digits "+
				"and the characters - _ .; apps with bindings in files cannot start", name)
		}
	}
	for _, output := range c.service.Bind.Outputs {
		name(output.Pos, output.Name)
	}
	if c.service.Provision.Bosh == nil {
		return
	}
	size, last := 0, diag.Pos{}
	for _, key := range value.Keys(c.service.Provision.Bosh.Outputs) {
		output := c.service.Provision.Bosh.Outputs[key]
		if output.Expr == nil {
			continue
		}
		name(output.Expr.Pos(), key)
		if output.Expr.IsLiteral() {
			size, last = size+len(output.Expr.Text()), output.Expr.Pos()
		}
	}
	switch {
	case size > maxCredentials:
		c.diags.Warnf(last, "credential", "the outputs of provision.bosh have %d bytes, and Cloud Foundry takes no more than %d", size, maxCredentials)
	case size > maxVcapServices:
		c.diags.Warnf(last, "credential", "the outputs of provision.bosh have %d bytes, and the variable VCAP_SERVICES of an app no more than %d",
			size, maxVcapServices)
	}
}
