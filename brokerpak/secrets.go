package brokerpak

import (
	"regexp"
	"slices"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

var (
	// secretName matches the allowed names of secrets and references.
	secretName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?$`)
	// numberedName matches names such as NAME-2, which the broker's secrets get when their value changes. Definitions
	// must not use such names, because they could collide.
	numberedName = regexp.MustCompile(`-[0-9]+$`)
	// templateVariable matches a ((variable)) of a BOSH manifest. The group is its name.
	templateVariable = regexp.MustCompile(`\(\( ?!?([-/\w]+)`)
)

// checkSecrets adds errors to diags for violations of the rules for secrets that concern the whole action, which must
// have a bosh section: names must be unique and must not hide an input, values and keepers must not call generating
// functions, and the secret of the UAA client must not be a part of a value. The most important rule: an input that is
// the value of a secret must not be used elsewhere. Its value is stored neither in the manifest nor in the record, so
// at the next update any other use would lose it or reveal it.
func checkSecrets(action *Action, diags *diag.List) {
	names := map[string]bool{}
	for _, secret := range action.Bosh.Secrets {
		if names[secret.Name] {
			diags.Errorf(secret.Pos, "duplicate", "secret %q is declared twice", secret.Name)
		}
		names[secret.Name] = true
		if secret.Value != nil && usesGenerators(secret.Value) {
			diags.Errorf(secret.Pos, "secret-generated",
				"secret %q must not use generating functions; give it a length instead",
				secret.Name)
		}
		for _, name := range value.Keys(secret.Keepers) {
			if usesGenerators(secret.Keepers[name]) {
				diags.Errorf(secret.Keepers[name].Pos(), "secret-generated",
					"keeper %q of secret %q must not use generating functions: "+
						"the secret would change with each request", name, secret.Name)
			}
		}
	}
	for _, secret := range action.Bosh.Secrets {
		checkSecretName(action, secret, diags)
		checkSecretParts(secret, diags)
		if secret.Input != "" {
			checkSecretInput(action, secret, names, diags)
		}
	}
}

// checkSecretName adds an error to diags for a secret with the name of an input of the action, unless that input is the
// value of the secret: ((name)) in the manifest is replaced by the secret, so the input would be hidden.
func checkSecretName(action *Action, secret Secret, diags *diag.List) {
	if secret.Name != secret.Input && slices.Contains(action.InputNames(), secret.Name) {
		diags.Errorf(secret.Pos, "secret-name", "secret %q would hide the input with the same name", secret.Name)
	}
}

// checkSecretParts adds errors to diags for a secret whose value contains the UAA client's secret together with other
// text. The record contains the variables that are needed to compute such a value again, so the client secret would be
// stored in it in clear text.
func checkSecretParts(secret Secret, diags *diag.List) {
	const clientSecret = UAAClient + "client_secret"
	if secret.Value == nil || secret.Input != "" {
		return
	}
	for _, reference := range secret.Value.References() {
		if readsVariable(reference, clientSecret) {
			diags.Errorf(reference.Pos, "secret-input",
				"%q must be the whole value of secret %q, as in ${%s}: a part of the "+
					"value would be stored in clear text in the manifest", clientSecret, secret.Name, clientSecret)
		}
	}
}

// checkSecretInput adds errors to diags for other uses of an input that is the value of a secret, in expressions and as
// ((input)) in the manifest. It also reports such an input if its value is generated. The secret must have an Input.
// The parameter secrets contains the names of all secrets: ((input)) refers to a secret of that name and is then
// allowed.
func checkSecretInput(action *Action, secret Secret, secrets map[string]bool, diags *diag.List) {
	for _, template := range action.Expressions() {
		for _, reference := range template.References() {
			if template.Template != secret.Value && readsVariable(reference, secret.Input) {
				diags.Errorf(reference.Pos, "secret-input",
					"%q is the value of secret %q and may not be used elsewhere",
					secret.Input, secret.Name)
			}
		}
	}
	generated := func(label string, inputs []Variable) {
		for _, input := range inputs {
			if input.Name == secret.Input && input.DefaultExpr != nil && usesGenerators(input.DefaultExpr) {
				diags.Errorf(input.Pos, "secret-generated",
					"%s %q is the value of secret %q and must not use generating "+
						"functions; give the secret a length instead", label, input.Name, secret.Name)
			}
		}
	}
	generated("the default of input", action.UserInputs)
	generated("computed input", action.ComputedInputs)
	if secrets[secret.Input] {
		return // ((input)) in the manifest refers to the secret with the name of the input
	}
	for _, pos := range action.Bosh.PositionsOf(secret.Input) {
		diags.Errorf(pos, "secret-input", "input %q is the value of secret %q; write ((%s)) instead",
			secret.Input, secret.Name, secret.Name)
	}
}

// secretNames returns the names of the declared secrets, in their order.
func (c *Credentials) secretNames() []string {
	return value.Convert(c.Secrets, func(s Secret) string { return s.Name })
}

// Documents returns the YAML texts whose ((variables)) are interpolated: the manifest template, which is always the
// first and has the text "" if it is missing, the ops files in their order, and the BOSH configs, sorted by type. Ops
// files and configs are contained whatever their conditions are.
func (b *Bosh) Documents() []Document {
	ops := value.Convert(b.Ops, func(o Conditional) Document { return o.Document })
	configs := value.Convert(value.Keys(b.Configs), func(name string) Document { return b.Configs[name].Document })
	return slices.Concat([]Document{b.Manifest}, ops, configs)
}

// usesGenerators reports whether an expression, which must not be nil, calls one of the Generators.
func usesGenerators(template *expr.Template) bool {
	return slices.ContainsFunc(template.Calls(), func(call expr.Call) bool {
		return slices.Contains(Generators(), call.Name)
	})
}

// Generators returns the names of the functions that return a new value at each evaluation.
func Generators() []string { return []string{"rand.base64", "time.nano", "counter.next"} }
