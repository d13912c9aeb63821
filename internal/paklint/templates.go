package paklint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/provision"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// templates checks the OpenTofu files of an action against its inputs and outputs and the pak's providers.
func (c *serviceCheck) templates(name string, action *brokerpak.Action) {
	for _, source := range action.TemplateSources {
		c.files[source.Pos.File] = true
	}
	module, found := hclfile.Inspect(action.Templates)
	for _, item := range found.All() {
		item.Pos = templatePlace(action, item.Pos)
		c.diags.Add(item)
	}
	if slices.ContainsFunc(found.All(), func(d diag.Diagnostic) bool { return d.Rule == "hcl-syntax" }) {
		return // what was not read would seem missing
	}
	for _, repeated := range module.Repeated {
		c.diags.Errorf(templatePlace(action, repeated.Pos), "duplicate", "%s is declared twice; first at %s", repeated.Name,
			templatePlace(action, repeated.First))
	}
	c.hclVariables(name, action, module)
	c.hclOutputs(name, action, module)
	c.providers(action, module)
	c.modules(action, module)
	if name == "provision" { // those of bind have no effect
		(&importCheck{c}).imports(action, module)
		c.provisionTemplate(action, module)
	}
}

// templatePlace turns a place in one of the action's templates into the place in the pak.
func templatePlace(action *brokerpak.Action, pos diag.Pos) diag.Pos {
	source, ok := action.TemplateSources[pos.File]
	if !ok {
		return action.Pos
	}
	return source.At(max(pos.Line, 1), max(pos.Column, 1))
}

func (c *serviceCheck) hclVariables(name string, action *brokerpak.Action, module *hclfile.Module) {
	known := action.InputNames()
	for _, variable := range value.Keys(module.Variables) {
		if !slices.Contains(known, variable) {
			c.diags.Errorf(templatePlace(action, module.Variables[variable].Pos), "hcl-variable",
				"variable %q is not an input of %s%s; its inputs are %s", variable, name, diag.Suggest(variable, known), diag.Names(known))
		}
	}
	for _, variable := range value.Keys(module.Undeclared) {
		if !slices.Contains(known, variable) {
			c.diags.Errorf(templatePlace(action, module.Undeclared[variable]), "hcl-variable",
				"var.%s is neither declared in the template nor an input of %s%s", variable, name,
				diag.Suggest(variable, slices.Concat(known, value.Keys(module.Variables))))
		}
	}
}

func (c *serviceCheck) hclOutputs(name string, action *brokerpak.Action, module *hclfile.Module) {
	var declared []string
	for _, output := range action.Outputs {
		declared = append(declared, output.Name)
		given := slices.Contains(module.Outputs, output.Name)
		if action.Bosh != nil {
			_, fromBosh := action.Bosh.Outputs[output.Name]
			given = given || fromBosh
		}
		switch {
		case output.Name == brokerpak.StatusOutput:
			c.diags.Errorf(output.Pos, "hcl-output", "the output %q must not be declared: it is a credential without", brokerpak.StatusOutput)
		case !given:
			c.diags.Errorf(output.Pos, "hcl-output", "output %q is not an output of the template of %s%s; it has %s",
				output.Name, name, diag.Suggest(output.Name, module.Outputs), diag.Names(module.Outputs))
		}
	}
	for _, output := range module.Outputs {
		if output != brokerpak.StatusOutput && !slices.Contains(declared, output) {
			c.diags.Errorf(templatePlace(action, module.OutputPlaces[output]), "hcl-output",
				"output %q is not declared in %s.outputs%s", output, name, diag.Suggest(output, declared))
		}
	}
}

// providers checks that the pak bundles the providers of a template.
func (c *serviceCheck) providers(action *brokerpak.Action, module *hclfile.Module) {
	bundled := map[string]bool{}
	for _, binary := range c.pak.Manifest.Binaries {
		if binary.Kind() == brokerpak.Provider {
			bundled[shortAddress(binary.ProviderFQN)] = true
		}
	}
	for _, name := range value.Keys(module.Providers) {
		source := module.RequiredProviders[name]
		if source == "" {
			source = name
		}
		address := shortAddress(source)
		if source == "terraform" || strings.HasPrefix(address, "terraform.io/builtin/") {
			continue // a part of OpenTofu
		}
		if !bundled[address] {
			c.diags.Errorf(templatePlace(action, module.Providers[name]), "hcl-provider",
				"the pak does not bundle the provider %s; it bundles %s", address, diag.Names(value.Keys(bundled)))
		}
	}
}

// modules warns of modules: the pak has none, so OpenTofu would have to fetch them on the broker's machine.
func (c *serviceCheck) modules(action *brokerpak.Action, module *hclfile.Module) {
	for _, name := range value.Keys(module.Calls) {
		call := module.Calls[name]
		pos := templatePlace(action, call.Pos)
		if strings.HasPrefix(call.Source, "./") || strings.HasPrefix(call.Source, "../") {
			c.diags.Errorf(pos, "hcl-module", "module %q is in the folder %q, and a template has no folders; write its resources into the template",
				name, call.Source)
			continue
		}
		c.diags.Warnf(pos, "hcl-module", "module %q comes from %q: OpenTofu fetches it from the network when the template is first prepared, "+
			"which fails where the broker has no access to it; write its resources into the template", name, call.Source)
	}
}

// shortAddress is the source of a provider with its namespace, and without OpenTofu's or Terraform's registry, which stand for each other.
func shortAddress(source string) string {
	parts := strings.Split(source, "/")
	if parts[0] == "registry.opentofu.org" || parts[0] == "registry.terraform.io" {
		parts = parts[1:]
	}
	if len(parts) == 1 {
		parts = []string{"hashicorp", parts[0]}
	}
	return strings.Join(parts, "/")
}

// provisionTemplate checks a provision template against the secrets and the inputs of the service.
func (c *serviceCheck) provisionTemplate(action *brokerpak.Action, module *hclfile.Module) {
	var secrets []string
	if action.Bosh != nil {
		for _, secret := range action.Bosh.Secrets {
			secrets = append(secrets, secret.Name)
			c.secretInTemplate(action, module, secret)
		}
	}
	if what, at := action.NeedsOutputs(module.Outputs); what != "" {
		c.notes = append(c.notes, fmt.Sprintf("service %q: plans cannot have the lifecycle errand %s, because the manifest needs the output %s of the "+
			"provision template (%s)", c.service.Name, record.ApplyErrand, what, at))
	}
	inputs := action.InputNames()
	for _, output := range module.Outputs {
		pos := templatePlace(action, module.OutputPlaces[output])
		switch {
		case slices.Contains(module.SensitiveOutputs, output) && slices.Contains(secrets, output):
			c.diags.Errorf(pos, "output-name", "the sensitive output %q is kept as a secret, and has the name of one; rename one of them", output)
		case slices.Contains(module.SensitiveOutputs, output) && isNumbered(output):
			c.diags.Errorf(pos, "output-name", "the sensitive output %q is kept as a secret, whose name must not end like that of a changed value", output)
		case slices.Contains(inputs, output) && action.Bosh != nil:
			c.diags.Warnf(pos, "output-name", "output %q has the name of an input, so ((%s)) in the manifest is the input", output, output)
		}
	}
}

// isNumbered tells whether a name ends like those that changed values of secrets get.
func isNumbered(name string) bool {
	base := strings.TrimRight(name, "0123456789")
	return base != name && strings.HasSuffix(base, "-")
}

// secretInTemplate refuses a template that uses the value of a secret: only CredHub has it when the next request comes.
func (c *serviceCheck) secretInTemplate(action *brokerpak.Action, module *hclfile.Module, secret brokerpak.Secret) {
	if secret.Input == "" {
		return
	}
	pos, used := module.Undeclared[secret.Input]
	if variable, declared := module.Variables[secret.Input]; declared {
		pos, used = variable.Pos, true
	}
	if used {
		c.diags.Errorf(templatePlace(action, pos), "secret-in-template",
			"var.%s is the value of secret %q, which later requests do not know; the provision template cannot use it", secret.Input, secret.Name)
	}
}

// provisioned makes up the outputs of a provision template.
func (c *player) provisioned(_ context.Context, request provision.Request, _ bool) (*provision.Result, error) {
	made := &provision.Result{Outputs: map[string]any{}, Sensitive: c.provision.SensitiveOutputs}
	for _, output := range request.Service.Provision.Outputs {
		made.Outputs[output.Name] = c.plausible(output)
	}
	return made, nil
}

// importCheck holds the rules about imports.
type importCheck struct{ *serviceCheck }

// imports checks what an import of the provision action names.
func (c *importCheck) imports(action *brokerpak.Action, module *hclfile.Module) {
	c.skips(action)
	if len(action.ImportInputs) == 0 {
		return
	}
	if addresses := c.importedResources(action, module); len(addresses) == len(action.ImportInputs) {
		c.importedTemplate(action, addresses)
	}
	for _, entry := range action.ImportParameterMappings {
		if entry.TFVariable == "" || strings.Contains(entry.TFVariable, ".") {
			c.diags.Errorf(c.places.value(entry.Pos, "tf_variable"), "import",
				"tf_variable %q of a mapping must be the name of an attribute alone; it concerns all resources", entry.TFVariable)
		}
		c.parameter(action, entry)
	}
	for _, entry := range action.ImportParametersToAdd {
		c.parameter(action, entry)
	}
	for _, input := range action.UserInputs {
		parts := strings.SplitN(input.TFAttribute, ".", 3)
		if len(parts) == 3 && !slices.Contains(module.Resources, parts[0]+"."+parts[1]) {
			c.diags.Warnf(c.places.value(input.Pos, "tf_attribute"), "import", "tf_attribute %q reads a resource that the template does not have; it has %s",
				input.TFAttribute, diag.Names(module.Resources))
		}
	}
}

// importedResources returns the resources that are imported, and reports those that are not in the template.
func (c *importCheck) importedResources(action *brokerpak.Action, module *hclfile.Module) []string {
	var addresses []string
	for _, input := range action.ImportInputs {
		if input.Name == "" {
			c.diags.Errorf(input.Pos, "import", "an import input without field_name can be given no value")
		}
		if !slices.Contains(module.Resources, input.Resource) {
			c.diags.Errorf(c.places.value(input.Pos, "tf_resource"), "import", "tf_resource %q is no resource of the provision template%s; it has %s",
				input.Resource, diag.Suggest(input.Resource, module.Resources), diag.Names(module.Resources))
			continue
		}
		addresses = append(addresses, input.Resource)
	}
	return addresses
}

// importedTemplate checks the template and the paths of the lists against the resources that are imported.
func (c *importCheck) importedTemplate(action *brokerpak.Action, addresses []string) {
	for _, entry := range action.ImportParametersToAdd {
		c.importPath(entry.TFVariable, "import_parameters_to_add", addresses, c.places.value(entry.Pos, "tf_variable"))
	}
	for _, path := range action.ImportParametersToDelete {
		c.importPath(path, "import_parameters_to_delete", addresses, c.places.value(root, "provision", "import_parameters_to_delete"))
	}
	for _, found := range hclfile.CheckImport(action.Templates, addresses, action.ImportParametersToAdd).All() {
		found.Pos = templatePlace(action, found.Pos)
		c.diags.Add(found)
	}
}

// importPath warns of a path that begins with no imported resource.
func (c *importCheck) importPath(path, list string, addresses []string, pos diag.Pos) {
	if !slices.ContainsFunc(addresses, func(address string) bool { return strings.HasPrefix(path, address+".") }) {
		c.diags.Warnf(pos, "import", "%q in %s is no TYPE.NAME.ATTRIBUTE of an imported resource; imported are %s", path, list, diag.Names(addresses))
	}
}

// parameter checks the expression of a mapping or addition.
func (c *importCheck) parameter(action *brokerpak.Action, entry hclfile.Mapping) {
	pos := c.places.value(entry.Pos, "parameter_name")
	names, err := hclfile.ParameterVariables(entry)
	if err != nil {
		c.diags.Errorf(pos, "import", "%s", err)
		return
	}
	known := action.InputNames()
	for _, name := range names {
		if !slices.Contains(known, name) {
			c.diags.Errorf(pos, "import", "parameter_name %q uses var.%s, which is no input%s; the inputs are %s",
				entry.Parameter, name, diag.Suggest(name, known), diag.Names(known))
		}
	}
}

// skips checks that tf_attribute_skip names inputs.
func (c *importCheck) skips(action *brokerpak.Action) {
	known := action.InputNames()
	for _, input := range action.UserInputs {
		if name := input.TFAttributeSkip; name != "" && !slices.Contains(known, name) {
			c.diags.Warnf(c.places.value(input.Pos, "tf_attribute_skip"), "import", "tf_attribute_skip %q is no input%s, so tf_attribute is never skipped",
				name, diag.Suggest(name, known))
		}
	}
}
