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

// A usage contains the names that the expressions of an action use, and the texts of its OpenTofu templates and of the
// expressions of its import parameters, in which inTemplates searches for a name. The name "" means that an expression
// reads all plan properties. A usage may contain a name that these expressions do not use, and lacks none that they
// use, except names that they compute, such as a computed argument of previous.parameter. References such as ((name))
// in BOSH templates are not contained. The zero usage contains no names.
type usage struct {
	names     map[string]bool // the names that expressions refer to, and the constant arguments of their functions
	templates []string        // the texts of OpenTofu templates and of the expressions of import parameters
}

// planProperties returns the names of the variables by which expressions read all properties of the plan:
// "plan.properties" and "request.plan_properties". The result is a new slice.
func planProperties() []string { return []string{"plan.properties", "request.plan_properties"} }

// usageOf returns the names that the expressions of an action use (variables, their dotted prefixes, keys of plan
// properties, and constant arguments of functions) and the texts that may contain names of inputs: the OpenTofu
// templates of the action and the expressions of its import parameters. expressions are all expressions of the action.
// The name "" in the result means that an expression reads all plan properties.
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

// inTemplates reports whether an OpenTofu template, or the expression of an import parameter, contains name as a word.
// If one of these texts contains "terraform.tfvars", which is the file with all inputs, the result is true for every
// name.
func (u usage) inTemplates(name string) bool {
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
	return slices.ContainsFunc(u.templates, func(text string) bool {
		return word.MatchString(text) || strings.Contains(text, "terraform.tfvars")
	})
}

// checkUnused adds a warning to c.diags for each plan input, user input, computed input, secret and BOSH variable that
// no part of the service uses, with the exceptions of checkUnusedInputs, such as inputs whose details contain "changes
// nothing", and of checkUnusedVariables. It does nothing if c.diags already contains an error, even about another part
// of the pak, because a part that cannot be read may use the names.
//
// The inputs of provision are not checked if the service has neither a bosh section nor a provision template, because
// it then only documents a service. The inputs of bind are checked only if bind has OpenTofu templates and no command,
// because a command receives all inputs.
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

// checkUnusedInputs adds a warning to c.diags for each plan input, user input and computed input of an action that
// neither the expressions in used nor the action's OpenTofu templates nor its BOSH templates use. name is that of the
// action: "provision" or "bind". Each name is reported once, and these inputs are not reported:
//   - user inputs with the key tf_attribute, and inputs that tf_attribute_skip names
//   - inputs whose default or value calls assert, and inputs that isIgnored accepts
//   - all plan inputs, if an expression reads all plan properties
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

// isIgnored reports whether the details of an input contain "changes nothing", in upper or lower case. By this phrase,
// authors mark an input that is only accepted because another adapter had it.
func isIgnored(input brokerpak.Variable) bool {
	return strings.Contains(strings.ToLower(input.Details), "changes nothing")
}

// asserts reports whether the default or value of an input is an expression that calls assert, so that the input may
// exist only for the check.
func asserts(input brokerpak.Variable) bool {
	return input.DefaultExpr != nil && slices.ContainsFunc(input.DefaultExpr.Calls(), func(call expr.Call) bool {
		return call.Name == "assert"
	})
}

// checkUnusedVariables adds a warning to c.diags for each BOSH variable that the BOSH templates declare but no
// ((variable)), no expression and no other scalar with exactly its name refers to. used contains the names that
// expressions use. A variable with an absolute name, such as "/ca", is not reported, because other deployments may use
// it. Declarations in a template that is not valid YAML are ignored.
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

// countTexts adds the number of times that each scalar occurs at and below a node, keys of mappings included, to texts.
// The keys of texts are the values of the scalars. node and texts must not be nil.
func countTexts(node *yaml.Node, texts map[string]int) {
	if node.Kind == yaml.ScalarNode {
		texts[node.Value]++
	}
	for _, content := range node.Content {
		countTexts(content, texts)
	}
}

// checkCommands adds warnings to c.diags about secret variables whose values become parts of command lines in the
// action's OpenTofu templates, because all users of the machine can read command lines. There is one warning for each
// such variable in each argument with a command line, at the position of the argument; see hclfile.Exposures for
// these arguments. Values in the environment of a command do not count. A variable is secret if the template declares
// it sensitive, if it is the input with the value of a secret, or if its name suggests a secret, such as password.
// module contains the declarations of the templates, and must not be nil.
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
