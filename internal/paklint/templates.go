package paklint

import (
	"slices"
	"strings"

	"service-adapter/brokerpak"
	"service-adapter/internal/diag"
	"service-adapter/internal/hclfile"
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
