package lint

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

// namePattern matches the names of services and plans that the brokerpak specification allows.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9.-]+$`)

// root is the position of the whole definition in the methods of positionIndex.
var root diag.Pos //nolint:gochecknoglobals // a constant

// specification adds warnings to c.diags about these violations of the brokerpak specification, which other brokers
// do not check:
//   - a section provision or bind that is missing or null
//   - a list of plans or examples that is missing, null or empty
//   - a plan without the key properties, or whose name has other characters than letters, digits, periods and hyphens
//   - in both sections, the violations in plan inputs, user inputs and outputs that the method variables reports
//   - in both sections, repeated names of computed inputs
func (c *serviceCheck) specification() {
	for _, section := range []string{"provision", "bind"} {
		if node := c.positions.get(root, section); node == nil || node.ShortTag() == "!!null" {
			c.diags.Warnf(c.service.Pos, "required", "the section %s is required", section)
		}
	}
	c.nonEmpty("plans", "no-plans",
		"a service must have at least one plan; without one it depends on plans of the operator")
	c.nonEmpty("examples", "no-examples",
		"a service must have at least one example; examples are documentation and tests")
	for _, plan := range c.service.Plans {
		if plan.Name != "" && !namePattern.MatchString(plan.Name) {
			c.diags.Warnf(c.positions.value(plan.Pos, "name"), "name",
				"plan name %q may contain only letters, digits, periods and hyphens", plan.Name)
		}
		if c.positions.get(plan.Pos, "properties") == nil {
			c.diags.Warnf(plan.Pos, "required", "properties of plan %q are required; write {} for none", plan.Name)
		}
	}
	for name, action := range map[string]*brokerpak.Action{"provision": &c.service.Provision, "bind": &c.service.Bind} {
		c.unique(name+".computed_inputs", action.ComputedInputs)
		c.variables(name+".plan_inputs", action.PlanInputs)
		c.variables(name+".user_inputs", action.UserInputs)
		c.variables(name+".outputs", action.Outputs)
	}
}

// instances adds a warning to c.diags about a service whose instances the on-demand broker cannot create, because its
// section provision has neither the key bosh nor a key of an OpenTofu template, such as template_refs. Other brokers
// support such a service: its bindings receive the inputs of the instance. A definition that could not be parsed, so
// that its service has no name, is not reported.
func (c *serviceCheck) instances() {
	pos := c.service.Provision.Pos
	if c.service.Name == "" {
		return // the definition could not be parsed, which has been reported
	}
	for _, key := range []string{"bosh", "template", "template_ref", "templates", "template_refs"} {
		if pos != (diag.Pos{}) && c.positions.get(pos, key) != nil {
			return
		}
	}
	if pos == (diag.Pos{}) {
		pos = c.service.Pos
	}
	c.diags.Warnf(pos, "no-instances",
		"service %q has neither a provision.bosh section nor a provision template, so the on-demand broker cannot "+
			"create instances of it", c.service.Name)
}

// nonEmpty adds a warning to c.diags if a top-level list of the definition is missing, null or empty. key is the key of
// the list, rule the rule of the warning, and message its text. A value of another type is not reported.
func (c *serviceCheck) nonEmpty(key, rule, message string) {
	switch node := c.positions.get(root, key); {
	case node == nil:
		c.diags.Warnf(c.service.Pos, rule, "%s", message)
	case node.Kind == yaml.SequenceNode && len(node.Content) == 0, node.ShortTag() == "!!null":
		c.diags.Warnf(c.positions.key(root, key), rule, "%s", message)
	}
}

// variables adds a warning to c.diags for each violation of the brokerpak specification in a list of inputs or
// outputs: a name that an earlier entry has, a missing key type, a constraint that the specification does not
// contain, and a default that is written as null although the entry is neither required nor nullable. A missing
// default is not reported. list is the path of the list in messages, such as "provision.user_inputs".
func (c *serviceCheck) variables(list string, variables []brokerpak.Variable) {
	c.unique(list, variables)
	for _, variable := range variables {
		if c.positions.get(variable.Pos, "type") == nil {
			c.diags.Warnf(variable.Pos, "required", "type of %q in %s is required", variable.Name, list)
		}
		node := c.positions.get(variable.Pos, "default")
		if node != nil && node.ShortTag() == "!!null" && !variable.Required && !variable.Nullable {
			c.diags.Warnf(c.positions.value(variable.Pos, "default"), "null-default",
				"the default of %q is null, so it must be required or nullable; leave the default out otherwise",
				variable.Name)
		}
		for _, keyword := range value.Keys(variable.Constraints) {
			if !slices.Contains(keywords, keyword) {
				c.diags.Warnf(c.positions.key(variable.Pos, "constraints", keyword), "constraint-keyword",
					"%q is not one of the constraints of the specification%s; they are %s", keyword,
					diag.Suggest(keyword, keywords), strings.Join(keywords, ", "))
			}
		}
	}
}

// keywords are the JSON Schema keywords that the brokerpak specification allows as constraints.
var keywords = []string{ //nolint:gochecknoglobals // a constant table
	"const", "examples", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum",
	"minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "propertyNames",
}

// unique adds a warning to c.diags for each variable whose name an earlier one in the list has. Empty names are
// ignored. list is the path of the list in messages, such as "bind.computed_inputs".
func (c *serviceCheck) unique(list string, variables []brokerpak.Variable) {
	seen := map[string]diag.Pos{}
	for _, variable := range variables {
		if first, ok := seen[variable.Name]; ok && variable.Name != "" {
			c.diags.Warnf(variable.Pos, "duplicate-input", "%q is in %s twice; first at %s", variable.Name, list, first)
			continue
		}
		seen[variable.Name] = variable.Pos
	}
}

// image checks the image_url of the service and adds at most one finding to c.diags:
//   - A data URL is a warning if its media type does not begin with "image/", if it has no comma, or if its base64 data
//     is invalid. The image itself is not checked.
//   - In a pak directory, a file:// URL is an error if the file, whose path is relative to the root of the pak, cannot
//     be read or is not a PNG, JPEG or SVG image.
//   - In a pak file, every file:// URL is a warning, because pak build replaces it.
//   - Any other URL, and a missing one, is not checked.
func (c *serviceCheck) image() {
	pos := c.positions.value(root, "image_url")
	if data, ok := strings.CutPrefix(c.service.ImageURL, "data:"); ok {
		kind, encoded, ok := strings.Cut(data, ",")
		_, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || !strings.HasPrefix(kind, "image/") || strings.HasSuffix(kind, ";base64") && err != nil {
			c.diags.Warnf(pos, "image", "image_url must be a data URL of an image, such as data:image/png;base64,…")
		}
		return
	}
	name, ok := strings.CutPrefix(c.service.ImageURL, "file://")
	if !ok {
		return
	}
	if c.pak.IsZip() {
		c.diags.Warnf(pos, "image",
			"image_url %q is not a part of the pak; pak build would put the image into the definition",
			c.service.ImageURL)
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

// fileName matches the names of credentials that Cloud Foundry can write to files, for apps that read bindings from
// files. The rule is that of ServiceBindingFilesBuilder in the Cloud Controller.
var fileName = regexp.MustCompile(`^[a-z0-9._-]+$`)

// The limits of Cloud Foundry for credentials, in bytes.
const (
	maxFileName     = 253       // the length of a name
	maxCredentials  = 1_000_000 // the size of all files of a binding
	maxVcapServices = 131_072   // the size of an environment variable on Linux
)

// credentials adds warnings to c.diags about credentials that Cloud Foundry cannot pass to apps. An output of the bind
// action or of provision.bosh gets one if its name cannot be a file name, because it is longer than 253 bytes or
// contains other characters than a-z, 0-9, period, underscore and hyphen. An empty name is ignored.
//
// The constant texts among the outputs of provision.bosh get one warning if they together exceed the 131,072 bytes of
// an environment variable or the 1,000,000 bytes of all files of a binding. If these outputs are sorted by name, the
// position of the warning is that of the last text. Outputs of provision.bosh with values that are not texts, such as
// numbers and lists, are neither checked nor counted.
func (c *serviceCheck) credentials() {
	checkName := func(pos diag.Pos, name string) {
		if name != "" && (len(name) > maxFileName || !fileName.MatchString(name)) {
			c.diags.Warnf(pos, "credential",
				"Cloud Foundry cannot write the credential %q to a file: a name must have 1 to 253 lower-case "+
					"letters, digits "+
					"and characters - _ .; apps that read bindings from files cannot start", name)
		}
	}
	for _, output := range c.service.Bind.Outputs {
		checkName(output.Pos, output.Name)
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
		checkName(output.Expr.Pos(), key)
		if output.Expr.IsLiteral() {
			size, last = size+len(output.Expr.Text()), output.Expr.Pos()
		}
	}
	switch {
	case size > maxCredentials:
		c.diags.Warnf(last, "credential",
			"the outputs of provision.bosh have %d bytes, and Cloud Foundry accepts at most %d",
			size, maxCredentials)
	case size > maxVcapServices:
		c.diags.Warnf(last, "credential",
			"the outputs of provision.bosh have %d bytes, and the variable VCAP_SERVICES of an app can have at most %d",
			size, maxVcapServices)
	}
}
