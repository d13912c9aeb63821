package paklint

import (
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
)

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
