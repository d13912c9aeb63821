package brokerpak

import (
	"regexp"
	"slices"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

var (
	// secretName is what a secret or reference may be called.
	secretName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?$`)
	// numberedName is the form of the names that changed values get, NAME-2; a secret of such a name could meet one.
	numberedName = regexp.MustCompile(`-[0-9]+$`)
	// templateVariable is a ((variable)) of a BOSH manifest; the group is its name.
	templateVariable = regexp.MustCompile(`\(\( ?!?([-/\w]+)`)
)

// checkSecrets holds the rules about secrets that concern the whole action. An input that is a secret's value stays out of the
// manifest and of the record in it, so nothing else may use it: it would be lost, or leak, at the next update.
func checkSecrets(action *Action, diags *diag.List) {
	names := map[string]bool{}
	for _, secret := range action.Bosh.Secrets {
		if names[secret.Name] {
			diags.Errorf(secret.Pos, "duplicate", "secret %q is declared twice", secret.Name)
		}
		names[secret.Name] = true
		if secret.Value != nil && generates(secret.Value) {
			diags.Errorf(secret.Pos, "secret-generated", "secret %q must not use generating functions; give it a length instead", secret.Name)
		}
		for _, name := range value.Keys(secret.Keepers) {
			if generates(secret.Keepers[name]) {
				diags.Errorf(secret.Keepers[name].Pos(), "secret-generated", "keeper %q of secret %q must not use generating functions: the secret would "+
					"change with each request", name, secret.Name)
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

// checkSecretName: ((name)) in the manifest is the secret, which would hide an input of the same name.
func checkSecretName(action *Action, secret Secret, diags *diag.List) {
	if secret.Name != secret.Input && slices.Contains(action.InputNames(), secret.Name) {
		diags.Errorf(secret.Pos, "secret-name", "there is an input %q as well; the secret would hide it", secret.Name)
	}
}

// checkSecretParts: the UAA client's secret may only be the whole value of a secret. As a part of one it would stand in clear in
// the record, from which the value is made again.
func checkSecretParts(secret Secret, diags *diag.List) {
	const clientSecret = UAAClient + "client_secret"
	if secret.Value == nil || secret.Input != "" {
		return
	}
	for _, reference := range secret.Value.References() {
		if reads(reference, clientSecret) {
			diags.Errorf(reference.Pos, "secret-input", "%q must be the whole value of secret %q, as in ${%s}: as a part of it, it would "+
				"stand in clear in the manifest", clientSecret, secret.Name, clientSecret)
		}
	}
}

// checkSecretInput looks for other uses of the input that is a secret's value.
func checkSecretInput(action *Action, secret Secret, secrets map[string]bool, diags *diag.List) {
	for _, template := range action.Expressions() {
		for _, reference := range template.References() {
			if template.Template != secret.Value && reads(reference, secret.Input) {
				diags.Errorf(reference.Pos, "secret-input", "%q is the value of secret %q and may not be used elsewhere",
					secret.Input, secret.Name)
			}
		}
	}
	generated := func(what string, inputs []Variable) {
		for _, input := range inputs {
			if input.Name == secret.Input && input.DefaultExpr != nil && generates(input.DefaultExpr) {
				diags.Errorf(input.Pos, "secret-generated", "%s %q is the value of secret %q and must not use generating functions; give the "+
					"secret a length instead", what, input.Name, secret.Name)
			}
		}
	}
	generated("the default of input", action.UserInputs)
	generated("computed input", action.ComputedInputs)
	if secrets[secret.Input] {
		return // ((name)) is that secret
	}
	for _, at := range action.Bosh.Mentions(secret.Input) {
		diags.Errorf(at, "secret-input", "input %q is the value of secret %q; write ((%s)) for it", secret.Input, secret.Name, secret.Name)
	}
}

func (b *Bosh) secretNames() []string {
	return value.Each(b.Secrets, func(s Secret) string { return s.Name })
}

// Documents returns the YAML texts that are interpolated.
func (b *Bosh) Documents() []Document {
	ops := value.Each(b.Ops, func(o Conditional) Document { return o.Document })
	configs := value.Each(value.Keys(b.Configs), func(name string) Document { return b.Configs[name].Document })
	return slices.Concat([]Document{b.Manifest}, ops, configs)
}

// generates tells whether an expression makes a new value at each evaluation.
func generates(template *expr.Template) bool {
	return slices.ContainsFunc(template.Calls(), func(call expr.Call) bool { return slices.Contains(Generators(), call.Name) })
}

// Generators are the functions that give a new value at each evaluation.
func Generators() []string { return []string{"rand.base64", "time.nano", "counter.next"} }
