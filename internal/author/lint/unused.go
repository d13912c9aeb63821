package lint

import (
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/expr"
	"service-adapter/internal/hclfile"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
)

// A usage knows which names the parts of a service use. It errs on the side of names that are used.
type usage struct {
	names     map[string]bool // what expressions refer to, and the constant arguments of their functions
	templates []string        // the texts of OpenTofu templates
}

// planProperties returns the names by which expressions read the properties of the plan.
func planProperties() []string { return []string{"plan.properties", "request.plan_properties"} }

// usageOf returns the names that expressions use, and the texts in which names of inputs may be used: the OpenTofu
// templates of an action and the expressions of its import parameters. expressions are those of the action. The name ""
// means that an expression reads all plan properties.
func usageOf(action *brokerpak.Action, expressions []brokerpak.Expression) usage {
	u := usage{names: map[string]bool{}}
	for _, template := range expressions {
		for _, reference := range template.References() {
			for name := range reference.Names() {
				u.names[name] = true
			}
			for _, properties := range planProperties() {
				if key, ok := reference.KeyOf(properties); ok {
					u.names[key] = true // "" for all properties
				}
			}
		}
		for _, call := range template.Calls() {
			for _, argument := range call.Args {
				if argument != "" { // not a constant
					u.names[argument] = true
				}
			}
		}
	}
	for _, name := range value.Keys(action.Templates) {
		u.templates = append(u.templates, action.Templates[name])
	}
	for _, entry := range slices.Concat(action.ImportParameterMappings, action.ImportParametersToAdd) {
		u.templates = append(u.templates, entry.Parameter)
	}
	return u
}

// inTemplates reports whether a template or the expression of an import parameter contains the name as a word. A text
// that contains "terraform.tfvars", which is the file with all inputs, uses every name.
func (u usage) inTemplates(name string) bool {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
	return slices.ContainsFunc(u.templates, func(text string) bool {
		return word.MatchString(text) || strings.Contains(text, "terraform.tfvars")
	})
}

// checkUnused warns about inputs, secrets and BOSH variables that nothing in the service uses. A service without
// instances, which only documents a service, and a bind action without a template are not checked. If the pak has
// errors, checkUnused does nothing, because a part that cannot be read may use the names.
func checkUnused(c *serviceCheck) {
	if c.diags.HasErrors() {
		return
	}
	provision, bind := &c.service.Provision, &c.service.Bind
	ofBind := usageOf(bind, bind.Expressions())
	used := usageOf(provision, provision.Expressions())
	for name := range ofBind.names { // such as plan properties, and names in paths
		used.names[name] = used.names[name] || ofBind.names[name]
	}
	if c.service.HasInstances() {
		checkUnusedInputs(c, "provision", provision, used)
	}
	if len(bind.Templates) > 0 && bind.Command == "" { // a command gets all inputs
		checkUnusedInputs(c, "bind", bind, ofBind)
	}
	if bosh := provision.Bosh; bosh != nil {
		for _, secret := range bosh.Secrets {
			if secret.Name != "" && len(bosh.PositionsOf(secret.Name)) == 0 && !used.names[secret.Name] {
				c.diags.Warnf(secret.Pos, "unused", "nothing uses the secret %q; write ((%s)) in the manifest, or "+
					"remove it", secret.Name, secret.Name)
			}
		}
		checkUnusedVariables(c, bosh, used)
	}
}

// checkUnusedInputs warns about inputs of an action, whose name is "provision" or "bind", that are not used by
// expressions, OpenTofu templates or BOSH templates. Inputs for imports, inputs that call assert, and inputs that
// isIgnored accepts are not reported. Each name is reported once.
func checkUnusedInputs(c *serviceCheck, name string, action *brokerpak.Action, used usage) {
	imports := map[string]bool{}
	for _, input := range action.UserInputs {
		imports[input.TFAttributeSkip] = true
		imports[input.Name] = imports[input.Name] || input.TFAttribute != ""
	}
	plan := brokerpak.Names(action.PlanInputs)
	reported := map[string]bool{}
	for _, input := range slices.Concat(action.PlanInputs, action.UserInputs, action.ComputedInputs) {
		switch {
		case isIgnored(input), asserts(input):
			continue
		case input.Name == "", reported[input.Name], imports[input.Name], used.names[input.Name],
			used.names[""] && slices.Contains(plan, input.Name), used.inTemplates(input.Name):
			continue
		case action.Bosh != nil && len(action.Bosh.PositionsOf(input.Name)) > 0:
			continue
		}
		reported[input.Name] = true
		c.diags.Warnf(input.Pos, "unused", "nothing in %s uses the input %q", name, input.Name)
	}
}

// isIgnored reports whether the details of an input contain "changes nothing", in upper or lower case. Such an input is
// only accepted because another adapter had it.
func isIgnored(input brokerpak.Variable) bool {
	return strings.Contains(strings.ToLower(input.Details), "changes nothing")
}

// asserts reports whether the expression of an input calls assert, so that the input may exist only for the check.
func asserts(input brokerpak.Variable) bool {
	return input.DefaultExpr != nil && slices.ContainsFunc(input.DefaultExpr.Calls(), func(call expr.Call) bool {
		return call.Name == "assert"
	})
}

// checkUnusedVariables warns about BOSH variables that the templates declare and that nothing refers to. A variable
// with an absolute name is not reported, because other deployments may use it.
func checkUnusedVariables(c *serviceCheck, bosh *brokerpak.Bosh, used usage) {
	var documents []templateDocument
	texts := map[string]int{} // how often each scalar occurs, such as the name of a CA in the options of a certificate
	for _, document := range bosh.Documents() {
		root, _ := document.Tree()
		if root == nil {
			continue
		}
		documents = append(documents, templateDocument{document, root})
		countTexts(root, texts)
	}
	for _, document := range documents {
		for _, name := range document.declarations() {
			if texts[name.Value] > 1 || strings.HasPrefix(name.Value, "/") || used.names[name.Value] ||
				len(bosh.PositionsOf(name.Value)) > 0 {
				continue
			}
			c.diags.Warnf(document.At(name.Line, name.Column), "unused", "nothing uses the BOSH variable %q",
				name.Value)
		}
	}
}

// countTexts adds the number of times that each scalar occurs in a node and below it, keys included, to texts.
func countTexts(node *yaml.Node, texts map[string]int) {
	if node.Kind == yaml.ScalarNode {
		texts[node.Value]++
	}
	for _, content := range node.Content {
		countTexts(content, texts)
	}
}

// checkCommands warns about secrets among the inputs of an action whose values become a part of a command line:
// sensitive variables of the template, values of secrets, and inputs with names such as password. module contains the
// declarations of the action's templates.
func checkCommands(c *serviceCheck, action *brokerpak.Action, module *hclfile.Module) {
	for _, exposed := range hclfile.Exposures(action.Templates) {
		isValue := action.Bosh != nil && action.Bosh.SecretOf(exposed.Variable) != nil
		if module.Variables[exposed.Variable].Sensitive || isValue || redact.Named(exposed.Variable, "x") {
			c.diags.Warnf(templatePosition(action, exposed.Pos), "secret-in-command",
				"the argument %s contains the secret var.%s, which all users of the machine can read while the "+
					"command runs; pass it in environment", exposed.Argument, exposed.Variable)
		}
	}
}
