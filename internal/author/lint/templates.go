package lint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/bundled"
	"service-adapter/internal/diag"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/odb"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// templates checks the OpenTofu templates of an action against its inputs and outputs and against the providers of the
// pak, and adds the findings to c.diags and the files to c.files. It also reports names that a template declares twice,
// calls of modules, and secrets in commands. Of the provision action, it checks the imports and the outputs as well;
// see provisionTemplate. name is "provision" or "bind". If a template is not valid HCL, only the findings of
// hclfile.Inspect, such as syntax errors, are reported.
func (c *serviceCheck) templates(name string, action *brokerpak.Action) {
	for _, source := range action.TemplateSources {
		c.files[source.Pos.File] = true
	}
	module, findings := hclfile.Inspect(action.Templates)
	for _, item := range findings.All() {
		item.Pos = templatePosition(action, item.Pos)
		c.diags.Add(item)
	}
	if slices.ContainsFunc(findings.All(), func(d diag.Diagnostic) bool { return d.Rule == "hcl-syntax" }) {
		return // declarations that could not be parsed would be reported as missing
	}
	for _, repeated := range module.Repeated {
		c.diags.Errorf(templatePosition(action, repeated.Pos), "duplicate", "%s is declared twice; first at %s",
			repeated.Name,
			templatePosition(action, repeated.First))
	}
	c.hclVariables(name, action, module)
	c.hclOutputs(name, action, module)
	c.providers(action, module)
	c.modules(action, module)
	checkCommands(c, action, module)
	checkEphemeral(c, action, module)
	if name == "provision" { // imports of the bind action have no effect
		checkImports(c, action, module)
		c.provisionTemplate(action, module)
	}
}

// templatePosition returns the position in the pak for a position in one of the action's templates, whose File is the
// name of the template. For any other file, it returns the position of the action.
func templatePosition(action *brokerpak.Action, pos diag.Pos) diag.Pos {
	source, ok := action.TemplateSources[pos.File]
	if !ok {
		return action.Pos
	}
	return source.At(max(pos.Line, 1), max(pos.Column, 1))
}

// hclVariables reports as errors variables that a template declares or uses although the action has no such input. name
// is that of the action in messages.
func (c *serviceCheck) hclVariables(name string, action *brokerpak.Action, module *hclfile.Module) {
	inputs := action.InputNames()
	for _, variable := range value.Keys(module.Variables) {
		if !slices.Contains(inputs, variable) {
			c.diags.Errorf(templatePosition(action, module.Variables[variable].Pos), "hcl-variable",
				"variable %q is not an input of %s%s; its inputs are %s",
				variable, name, diag.Suggest(variable, inputs), diag.Names(inputs))
		}
	}
	for _, variable := range value.Keys(module.Undeclared) {
		if !slices.Contains(inputs, variable) {
			c.diags.Errorf(templatePosition(action, module.Undeclared[variable]), "hcl-variable",
				"var.%s is neither declared in the template nor an input of %s%s", variable, name,
				diag.Suggest(variable, slices.Concat(inputs, value.Keys(module.Variables))))
		}
	}
}

// hclOutputs reports as errors outputs that only the definition or only the template declares, and a declaration of the
// status output. An output of provision.bosh may be declared as well. name is that of the action in messages.
func (c *serviceCheck) hclOutputs(name string, action *brokerpak.Action, module *hclfile.Module) {
	var declared []string
	for _, output := range action.Outputs {
		declared = append(declared, output.Name)
		exists := slices.Contains(module.Outputs, output.Name)
		if action.Bosh != nil {
			_, fromBosh := action.Bosh.Outputs[output.Name]
			exists = exists || fromBosh
		}
		switch {
		case output.Name == brokerpak.StatusOutput:
			c.diags.Errorf(output.Pos, "hcl-output",
				"the output %q must not be declared, because it is a credential without a declaration",
				brokerpak.StatusOutput)
		case !exists:
			c.diags.Errorf(output.Pos, "hcl-output", "output %q is not an output of the template of %s%s; it has %s",
				output.Name, name, diag.Suggest(output.Name, module.Outputs), diag.Names(module.Outputs))
		}
	}
	for _, output := range module.Outputs {
		if output != brokerpak.StatusOutput && !slices.Contains(declared, output) {
			c.diags.Errorf(templatePosition(action, module.OutputPositions[output]), "hcl-output",
				"output %q is not declared in %s.outputs%s", output, name, diag.Suggest(output, declared))
		}
	}
}

// providers reports as errors providers that a template uses although the pak does not contain them. Those that are
// built into OpenTofu are not reported.
func (c *serviceCheck) providers(action *brokerpak.Action, module *hclfile.Module) {
	addresses := map[string]bool{}
	for _, binary := range c.pak.Manifest.Binaries {
		if binary.Kind() == brokerpak.Provider {
			addresses[bundled.ShortAddress(binary.ProviderFQN)] = true
		}
	}
	for _, name := range value.Keys(module.Providers) {
		address := bundled.SourceOf(module, name)
		if address != "" && !addresses[address] {
			c.diags.Errorf(templatePosition(action, module.Providers[name]), "hcl-provider",
				"the pak does not bundle the provider %s; it bundles %s", address, diag.Names(value.Keys(addresses)))
		}
	}
}

// modules reports calls of modules. A pak cannot contain modules: those in a directory do not exist, which is an
// error, and OpenTofu would have to fetch others on the broker's machine, which is a warning.
func (c *serviceCheck) modules(action *brokerpak.Action, module *hclfile.Module) {
	for _, name := range value.Keys(module.Calls) {
		call := module.Calls[name]
		pos := templatePosition(action, call.Pos)
		if strings.HasPrefix(call.Source, "./") || strings.HasPrefix(call.Source, "../") {
			c.diags.Errorf(pos, "hcl-module",
				"module %q is in the folder %q, and a template cannot have folders; write its resources into the "+
					"template",
				name, call.Source)
			continue
		}
		c.diags.Warnf(pos, "hcl-module",
			"module %q comes from %q: OpenTofu fetches it from the network when the template is first prepared, "+
				"which fails where the broker has no access to it; write its resources into the template",
			name, call.Source)
	}
}

// provisionTemplate checks a provision template against the secrets and the inputs of the service, and adds the
// findings to c.diags. It is an error if the template uses an input with the value of a secret, and if a sensitive
// output, which is stored as a secret, has the name of another secret or one that a secret cannot have. If the service
// has a bosh section, any other output with the name of an input is a warning. provisionTemplate adds a note to c.notes
// if plans cannot have the errand that applies the template.
func (c *serviceCheck) provisionTemplate(action *brokerpak.Action, module *hclfile.Module) {
	var secrets []string
	if action.Bosh != nil {
		for _, secret := range action.Bosh.Secrets {
			secrets = append(secrets, secret.Name)
			c.secretInTemplate(action, module, secret)
		}
	}
	if name, pos := action.FindOutputUse(module.Outputs); name != "" {
		c.notes = append(c.notes,
			fmt.Sprintf("service %q: plans cannot have the lifecycle errand %s, because the manifest "+
				"needs the output %s of the provision template (%s)", c.service.Name, record.ApplyErrand, name, pos))
	}
	inputs := action.InputNames()
	for _, output := range module.Outputs {
		pos := templatePosition(action, module.OutputPositions[output])
		switch {
		case slices.Contains(module.SensitiveOutputs, output) && slices.Contains(secrets, output):
			c.diags.Errorf(pos, "output-name",
				"the sensitive output %q is stored as a secret, and another secret has its name; rename one of them",
				output)
		case slices.Contains(module.SensitiveOutputs, output) && isNumbered(output):
			c.diags.Errorf(pos, "output-name",
				"the sensitive output %q is stored as a secret, whose name must not end with a hyphen and a number",
				output)
		case slices.Contains(inputs, output) && action.Bosh != nil:
			c.diags.Warnf(pos, "output-name",
				"output %q has the name of an input, so ((%s)) in the manifest is the input", output, output)
		}
	}
}

// isNumbered reports whether a name ends with a hyphen and a number, which the adapter appends to the name of a
// secret when its value changes.
func isNumbered(name string) bool {
	base := strings.TrimRight(name, "0123456789")
	return base != name && strings.HasSuffix(base, "-")
}

// secretInTemplate reports as an error that a template uses the input with the value of a secret. After the first
// request only CredHub has that value, so that the adapter could not apply the template again. A secret that is not the
// value of an input is not checked.
func (c *serviceCheck) secretInTemplate(action *brokerpak.Action, module *hclfile.Module, secret brokerpak.Secret) {
	if secret.Input == "" {
		return
	}
	pos, used := module.Undeclared[secret.Input]
	if variable, declared := module.Variables[secret.Input]; declared {
		pos, used = variable.Pos, true
	}
	if used {
		c.diags.Errorf(templatePosition(action, pos), "secret-in-template",
			"var.%s is the value of secret %q, which later requests do not know; the provision template cannot use it",
			secret.Input, secret.Name)
	}
}

// provisioned returns sample values for the declared outputs of a provision template, in place of a run of OpenTofu.
// It never returns an error.
func (c *player) provisioned(_ context.Context, request provision.Request, _ bool) (*provision.Result, error) {
	return &provision.Result{
		Outputs: odb.SampleOutputs(request.Service), Sensitive: c.provision.SensitiveOutputs,
	}, nil
}

// checkImports checks that the resources, attributes and inputs to which the import keys of a provision action refer
// exist, and adds the findings to c.diags: the errors of importedResources and checkImportParameter, an error for a
// mapping to something else than the bare name of an attribute, and a warning for a tf_attribute of a resource that the
// template does not have. The checks of checkImportedTemplate are only performed if all resources to import exist. If
// the action has no import inputs, only checkImportSkips is performed.
func checkImports(c *serviceCheck, action *brokerpak.Action, module *hclfile.Module) {
	checkImportSkips(c, action)
	if len(action.ImportInputs) == 0 {
		return
	}
	if addresses := importedResources(c, action, module); len(addresses) == len(action.ImportInputs) {
		checkImportedTemplate(c, action, addresses)
	}
	for _, entry := range action.ImportParameterMappings {
		if entry.TFVariable == "" || strings.Contains(entry.TFVariable, ".") {
			c.diags.Errorf(c.positions.value(entry.Pos, "tf_variable"), "import",
				"tf_variable %q of a mapping must be the name of an attribute alone; it concerns all resources",
				entry.TFVariable)
		}
		checkImportParameter(c, action, entry)
	}
	for _, entry := range action.ImportParametersToAdd {
		checkImportParameter(c, action, entry)
	}
	for _, input := range action.UserInputs {
		parts := strings.SplitN(input.TFAttribute, ".", 3)
		if len(parts) == 3 && !slices.Contains(module.Resources, parts[0]+"."+parts[1]) {
			c.diags.Warnf(c.positions.value(input.Pos, "tf_attribute"), "import",
				"tf_attribute %q reads a resource that the template does not have; it has %s",
				input.TFAttribute, diag.Names(module.Resources))
		}
	}
}

// importedResources returns the addresses of the resources to import that the template contains. It reports the others,
// and import inputs without a name, as errors.
func importedResources(c *serviceCheck, action *brokerpak.Action, module *hclfile.Module) []string {
	var addresses []string
	for _, input := range action.ImportInputs {
		if input.Name == "" {
			c.diags.Errorf(input.Pos, "import", "an import input without field_name cannot get a value")
		}
		if !slices.Contains(module.Resources, input.Resource) {
			c.diags.Errorf(c.positions.value(input.Pos, "tf_resource"), "import",
				"tf_resource %q is not a resource of the provision template%s; it has %s", input.Resource,
				diag.Suggest(input.Resource, module.Resources), diag.Names(module.Resources))
			continue
		}
		addresses = append(addresses, input.Resource)
	}
	return addresses
}

// checkImportedTemplate adds findings to c.diags: those of hclfile.CheckImport about resources that cannot be imported
// and about parts of the template that an import loses, and a warning for each path in import_parameters_to_add and
// import_parameters_to_delete that does not begin with the address of an imported resource. The addresses, "type.name",
// must be those of all resources that the action imports.
func checkImportedTemplate(c *serviceCheck, action *brokerpak.Action, addresses []string) {
	for _, entry := range action.ImportParametersToAdd {
		checkImportPath(c, entry.TFVariable, "import_parameters_to_add", addresses,
			c.positions.value(entry.Pos, "tf_variable"))
	}
	for _, path := range action.ImportParametersToDelete {
		checkImportPath(c, path, "import_parameters_to_delete", addresses,
			c.positions.value(root, "provision", "import_parameters_to_delete"))
	}
	for _, finding := range hclfile.CheckImport(action.Templates, addresses, action.ImportParametersToAdd).All() {
		finding.Pos = templatePosition(action, finding.Pos)
		c.diags.Add(finding)
	}
}

// checkImportPath warns about a path that does not begin with the address of an imported resource. list is the key that
// contains the path.
func checkImportPath(c *serviceCheck, path, list string, addresses []string, pos diag.Pos) {
	if !slices.ContainsFunc(addresses, func(address string) bool { return strings.HasPrefix(path, address+".") }) {
		c.diags.Warnf(pos, "import",
			"%q in %s is not TYPE.NAME.ATTRIBUTE of an imported resource; the imported resources are %s",
			path, list, diag.Names(addresses))
	}
}

// checkImportParameter reports as an error an entry of a mapping or addition whose parameter_name is not a valid
// expression or uses a variable that is not an input.
func checkImportParameter(c *serviceCheck, action *brokerpak.Action, entry hclfile.Mapping) {
	pos := c.positions.value(entry.Pos, "parameter_name")
	names, err := hclfile.ParameterVariables(entry)
	if err != nil {
		c.diags.Errorf(pos, "import", "%s", err)
		return
	}
	inputs := action.InputNames()
	for _, name := range names {
		if !slices.Contains(inputs, name) {
			c.diags.Errorf(pos, "import", "parameter_name %q uses var.%s, which is not an input%s; the inputs are %s",
				entry.Parameter, name, diag.Suggest(name, inputs), diag.Names(inputs))
		}
	}
}

// checkImportSkips warns about a tf_attribute_skip that is not the name of an input.
func checkImportSkips(c *serviceCheck, action *brokerpak.Action) {
	inputs := action.InputNames()
	for _, input := range action.UserInputs {
		if name := input.TFAttributeSkip; name != "" && !slices.Contains(inputs, name) {
			c.diags.Warnf(c.positions.value(input.Pos, "tf_attribute_skip"), "import",
				"tf_attribute_skip %q is not an input%s, so tf_attribute is never skipped", name,
				diag.Suggest(name, inputs))
		}
	}
}
