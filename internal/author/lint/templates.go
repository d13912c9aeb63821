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

// templates checks the OpenTofu templates of an action against its inputs and outputs and against the providers of
// the pak, and adds the findings to c.diags. It also reports names that a template declares twice, calls of modules,
// secrets in commands, and misuse of ephemeral variables. For the provision action, it also performs the checks of
// checkImports and provisionTemplate, of which the latter may add a note to c.notes. name is "provision" or "bind".
//
// In all cases, templates adds the paths of the files that contain the templates to c.files. If a template is not
// valid HCL, only the findings of hclfile.Inspect, such as syntax errors, are reported. An action without templates
// is checked like one whose template declares nothing, so that hclOutputs reports the outputs that the action
// declares.
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

// templatePosition translates a position in one of the action's OpenTofu templates, whose File is the name of the
// template, such as "main.tf", to the position in the pak's file that contains it. A line or column of 0 counts as 1.
// If the action has no template with this name, templatePosition returns the position of the action.
func templatePosition(action *brokerpak.Action, pos diag.Pos) diag.Pos {
	source, ok := action.TemplateSources[pos.File]
	if !ok {
		return action.Pos
	}
	return source.At(max(pos.Line, 1), max(pos.Column, 1))
}

// hclVariables adds an error to c.diags for each variable that the parsed template module declares, or uses as
// var.NAME without a declaration, although no plan, user, computed or import input of the action has that name. name
// is that of the action in messages: "provision" or "bind".
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

// hclOutputs adds an error to c.diags for each output that the action declares but the parsed template module lacks,
// unless provision.bosh has it, and for each output of the template that the action does not declare. It is also an
// error if the action declares the output "status", which a template may have without a declaration. name is that of
// the action in messages: "provision" or "bind".
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

// providers adds an error to c.diags for each provider that the parsed template module uses although the pak does not
// contain it, in any version. Providers that are built into OpenTofu are not reported.
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

// modules adds a finding to c.diags for each call of a module in the parsed template. A pak cannot contain modules. A
// call of a module in a directory (./ or ../) is an error, because that directory does not exist. Any other call is a
// warning, because OpenTofu would have to download the module on the broker's machine.
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
// findings to c.diags. It is an error if the template declares or uses an input that is the value of a secret of the
// bosh section, because later requests cannot read that value. A sensitive output is stored as a secret. It is
// therefore an error if its name is that of a secret of the bosh section, or if its name ends with a hyphen and a
// number, such as "password-2". If the service has a bosh section, an output with the name of an input is a warning,
// whether or not it is sensitive, unless one of these errors was added for it.
//
// provisionTemplate adds a note to c.notes if plans cannot have the errand that applies the template, because the
// manifest needs an output of it.
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

// isNumbered reports whether a name ends with a hyphen and a number, such as "password-2". The adapter appends such a
// number to the name of a secret when its value changes.
func isNumbered(name string) bool {
	base := strings.TrimRight(name, "0123456789")
	return base != name && strings.HasSuffix(base, "-")
}

// secretInTemplate adds an error to c.diags if the parsed provision template module declares or uses the input whose
// value the secret has. After the first request only CredHub has that value, so that the adapter could not apply the
// template again. A secret whose value is not that of an input is not checked.
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
			"var.%s is the value of secret %q, which later requests cannot read; the provision template cannot use it",
			secret.Input, secret.Name)
	}
}

// provisioned returns the result of a simulated run of OpenTofu: sample values for the outputs that the service of the
// request declares for its provision template, and the names of the sensitive outputs. It ignores the other arguments
// and never returns an error.
func (c *player) provisioned(_ context.Context, request provision.Request, _ bool) (*provision.Result, error) {
	return &provision.Result{
		Outputs: odb.SampleOutputs(request.Service), Sensitive: c.provision.SensitiveOutputs,
	}, nil
}

// checkImports checks the import keys of a provision action against the parsed template module and adds the findings to
// c.diags. It always performs checkImportSkips. If the action has import inputs, it also adds these findings:
//   - those of importedResources, and those of checkImportedTemplate if all resources to import exist
//   - those of checkImportParameter for each entry of import_parameter_mappings and import_parameters_to_add
//   - an error for an entry of import_parameter_mappings whose tf_variable is empty or contains a dot
//   - a warning for a tf_attribute of a user input, such as "aws_instance.web.id", whose resource the template does not
//     have; a tf_attribute with fewer than three dotted parts is not checked
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

// importedResources returns the addresses, such as "aws_instance.web", of the action's resources to import that the
// parsed template module contains, in the order of the import inputs. It adds an error to c.diags for each resource
// that the template lacks, and for each import input without a field_name; the latter does not affect the result. The
// result is nil if there are no such resources.
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
// import_parameters_to_delete that does not begin with the address of an imported resource and a period. addresses,
// such as "aws_instance.web", must be those of all resources that the action imports.
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

// checkImportPath adds a warning to c.diags, at pos, unless path begins with one of addresses and a period, as in
// TYPE.NAME.ATTRIBUTE. addresses are those of the imported resources, such as "aws_instance.web". The part after the
// period is not checked. list is the key that contains the path, for the message.
func checkImportPath(c *serviceCheck, path, list string, addresses []string, pos diag.Pos) {
	if !slices.ContainsFunc(addresses, func(address string) bool { return strings.HasPrefix(path, address+".") }) {
		c.diags.Warnf(pos, "import",
			"%q in %s is not TYPE.NAME.ATTRIBUTE of an imported resource; the imported resources are %s",
			path, list, diag.Names(addresses))
	}
}

// checkImportParameter adds an error to c.diags if the parameter_name of an entry of import_parameter_mappings or
// import_parameters_to_add is empty or is not a valid expression. Otherwise it adds an error for each variable in the
// expression that is not an input of the action.
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

// checkImportSkips adds a warning to c.diags for each tf_attribute_skip of a user input that is not the name of an
// input of the action. tf_attribute is then not skipped, unless the plan or the operator sets a value of that name
// nevertheless.
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
