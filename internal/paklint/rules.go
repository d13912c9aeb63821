package paklint

import "slices"

// Rule is what a finding violates.
type Rule struct {
	// Name stands in brackets behind the finding.
	Name string
	// Severity is "error", "warning", or "both" where other brokers accept some of it.
	Severity string
	// Summary is what the rule demands, as a clause.
	Summary string
}

// Rules returns all rules, sorted by name. docs/rules.md has a section for each.
func Rules() []Rule { return slices.Clone(rules) }

var rules = []Rule{ //nolint:gochecknoglobals // a constant table
	{"app-binding", "warning", "what a binding makes is not named after the app alone"},
	{"audience", "error", "the audience of a check is operator or user"},
	{"binary", "both", "the pak holds its binaries for each of its platforms"},
	{"bosh-manifest", "error", "the rendered manifest is a BOSH manifest, version 2"},
	{"bosh-variable", "error", "every ((variable)) of a BOSH template is known, and BOSH can replace it"},
	{"carry-over", "error", "carry_over maps inputs, secrets, references and the UAA client's fields to paths"},
	{"conflict", "error", "of two keys that say the same only one is set"},
	{"constraint", "both", "a constraint can be used"},
	{"constraint-keyword", "warning", "a constraint is one of the specification"},
	{"credential", "warning", "Cloud Foundry can give a credential to apps"},
	{"default", "error", "one OpenTofu is the default, the highest version"},
	{"default-value", "warning", "a default fits its type, enum and constraints"},
	{"deployment", "error", "every plan can be deployed with its defaults"},
	{"duplicate", "error", "names and ids are unique"},
	{"duplicate-input", "warning", "an input or output is in a list once"},
	{"duplicate-key", "error", "a YAML key is in a mapping once"},
	{"enum-value", "warning", "an enum value fits type and constraints"},
	{"example-parameters", "both", "the parameters of an example are accepted"},
	{"example-plan", "warning", "the plan of an example exists"},
	{"exit", "error", "an error rule of bind ends with 41, 49 or user, one of provision with user"},
	{"expression-order", "warning", "a default reads only what is set before it"},
	{"expression-syntax", "error", "an expression can be parsed"},
	{"expression-type", "error", "every part of an expression has a type that can be used there"},
	{"function-arguments", "error", "a function gets as many arguments as it takes"},
	{"hcl-module", "both", "a template needs no modules from elsewhere"},
	{"hcl-output", "both", "the outputs of a template are the declared ones"},
	{"hcl-provider", "error", "the pak bundles the providers of its templates"},
	{"hcl-syntax", "error", "a template is HCL in native syntax"},
	{"hcl-variable", "error", "the variables of a template are inputs"},
	{"id", "error", "an id is a UUID"},
	{"image", "both", "the image can be put into the catalog"},
	{"import", "both", "an import finds its resources and inputs, and loses nothing of the template"},
	{"input-name", "error", "the names of a BOSH service's inputs hold no dots"},
	{"instance-group", "error", "instance groups that are named exist"},
	{"instance-output", "error", "outputs of the instance that bind reads exist"},
	{"job", "error", "jobs that rules name exist"},
	{"manifest-path", "error", "paths that manifest.get reads exist"},
	{"missing-file", "error", "files that are named exist in the pak"},
	{"name", "both", "names hold letters, digits, periods and hyphens only"},
	{"no-examples", "warning", "a service has at least one example"},
	{"no-instances", "warning", "a service has a BOSH manifest or a provision template"},
	{"no-plans", "warning", "a service has at least one plan"},
	{"null-default", "warning", "an input whose default is null is required or nullable"},
	{"ops", "error", "operations can be applied to the manifest"},
	{"output-name", "both", "an output of a provision template has no secret's or input's name"},
	{"packversion", "error", "packversion is 1"},
	{"plan-default", "error", "plan_defaults names parameters of users"},
	{"plan-owned", "warning", "a template sets nothing of a group that the plan decides"},
	{"plan-property", "both", "properties of plans fit the inputs that they set"},
	{"platform", "error", "a platform is one for which OpenTofu exists"},
	{"previous", "error", "only rules look at the previous deployment"},
	{"provider", "error", "a provider is [[HOSTNAME/]NAMESPACE/]TYPE"},
	{"reference-name", "error", "the name of a reference is no input's, secret's or other reference's"},
	{"regexp", "error", "a regular expression is one (RE2)"},
	{"required", "both", "required fields are set"},
	{"reserved-name", "error", "no name in a template begins with _binding or _complete"},
	{"secret-generated", "error", "generated secrets have a length instead of an expression"},
	{"secret-in-template", "error", "a provision template uses no secret's value"},
	{"secret-input", "error", "an input that is a secret's value is used as nothing else"},
	{"secret-length", "error", "the length of a generated secret is safe"},
	{"secret-name", "error", "the name of a secret is one for CredHub, and no other input's"},
	{"template-key", "error", "the key of a template is a file name"},
	{"template-name", "error", "OpenTofu reads the file of a template"},
	{"tf-attribute", "error", "tf_attribute is TYPE.NAME.ATTRIBUTE"},
	{"type", "both", "a value has the type that its key demands"},
	{"unknown-function", "error", "functions in expressions exist"},
	{"unknown-key", "both", "keys are those of the format"},
	{"unknown-variable", "error", "variables in expressions exist"},
	{"unused-file", "warning", "something uses each file"},
	{"upgrade-path", "error", "the upgrade path ascends to the default OpenTofu"},
	{"url", "error", "links are URLs with a scheme"},
	{"version", "error", "versions are versions, and that of the format is 1"},
	{"yaml-aliases", "error", "aliases and merges of a file end, and stay within bounds"},
	{"yaml-ambiguous", "error", "all readers of a BOSH template agree about its values"},
	{"yaml-documents", "warning", "a file holds one YAML document"},
	{"yaml-syntax", "error", "a file is YAML"},
}
