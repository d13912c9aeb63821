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

// checkSecrets adds errors to diags for entries of provision.bosh.secrets that violate a rule which concerns the whole
// action. The action must have a bosh section. The rules are:
//   - Names must be unique, and must not be the name of an input other than the one that is the value of the secret.
//   - Values and keepers must not call functions that generate values (see Generators).
//   - The secret of the UAA client must not be a part of a value.
//   - An input, or any other variable, that is the value of a secret must not be used elsewhere and must not have a
//     generated value: its value is stored neither in the manifest nor in the record, so at the next update any other
//     use would lose it or reveal it.
func checkSecrets(action *Action, diags *diag.List) {
	names := map[string]bool{}
	for _, secret := range action.Bosh.Secrets {
		if names[secret.Name] {
			diags.Errorf(secret.Pos, "duplicate", "secret %q is declared twice", secret.Name)
		}
		names[secret.Name] = true
		if secret.Value != nil && Generates(secret.Value) {
			diags.Errorf(secret.Pos, "secret-generated",
				"secret %q must not use generating functions; give it a length instead",
				secret.Name)
		}
		for _, name := range value.Keys(secret.Keepers) {
			if Generates(secret.Keepers[name]) {
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

// checkSecretName adds an error to diags if a secret has the name of an input of the action, unless the value of the
// secret is only a reference to that input: ((name)) in the manifest is replaced by the secret, so the input would be
// hidden. The error is at the position of the secret.
func checkSecretName(action *Action, secret Secret, diags *diag.List) {
	if secret.Name != secret.Input && slices.Contains(action.InputNames(), secret.Name) {
		diags.Errorf(secret.Pos, "secret-name", "secret %q would hide the input with the same name", secret.Name)
	}
}

// checkSecretParts adds an error to diags for each reference to uaa_client.client_secret, the secret of the
// instance's UAA client, in the value of a secret, unless the value is exactly ${uaa_client.client_secret}. The
// record in the manifest contains the variables that are needed to compute such a value again, so the client secret
// would be stored there in clear text. The references uaa_client["client_secret"] and uaa_client[...] with a computed
// key are errors even if they are the whole value; the whole map uaa_client is an error only within a longer value. A
// secret without a value is ignored, and so is one whose value is a single variable, as in ${NAME}.
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

// checkSecretInput adds errors to diags for other uses of the input secret.Input, which is the value of the secret and
// must not be "": references in other expressions of the action to the input, to a part of it or to a map that contains
// it, and ((input)) in the documents of provision.bosh. It also adds an error if the default of such a user input, or
// the value of such a computed input, calls a function that generates values. The parameter secrets contains the names
// of all secrets: if one of them is that of the input, ((input)) refers to that secret and is allowed.
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
			if input.Name == secret.Input && input.DefaultExpr != nil && Generates(input.DefaultExpr) {
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

// secretNames returns the names of the secrets that the definition declares, in their order. It returns nil if there
// are none. The name of a secret without a name, which decoding reports, is "".
func (c *Credentials) secretNames() []string {
	return value.Convert(c.Secrets, func(s Secret) string { return s.Name })
}

// Documents returns the YAML texts of provision.bosh in which ((variables)) are interpolated, with their positions. The
// first is always the manifest template, whose text is "" if it is missing. All ops files follow in their order, and
// then the BOSH configs, sorted by type. Conditions are not evaluated: ops files and configs are returned even if
// theirs is false.
func (b *Bosh) Documents() []Document {
	ops := value.Convert(b.Ops, func(o Conditional) Document { return o.Document })
	configs := value.Convert(value.Keys(b.Configs), func(name string) Document { return b.Configs[name].Document })
	return slices.Concat([]Document{b.Manifest}, ops, configs)
}

// Generates reports whether an expression calls a function that returns a new value at each evaluation: rand.base64,
// time.nano or counter.next (see Generators). The template must not be nil.
func Generates(template *expr.Template) bool {
	return slices.ContainsFunc(template.Calls(), func(call expr.Call) bool {
		return slices.Contains(Generators(), call.Name)
	})
}

// Generators returns the names of the functions of expressions that return a new value at each evaluation: rand.base64,
// time.nano and counter.next. The result is a new slice.
func Generators() []string { return []string{"rand.base64", "time.nano", "counter.next"} }
