package brokerpak

import (
	"regexp"
	"strings"

	"service-adapter/brokerpak/expr"
	"service-adapter/internal/diag"
)

var (
	// secretName keeps names usable in CredHub paths and in ((odb_secret:NAME)).
	secretName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?$`)
	// numberedName is the form of the names that changed values get, NAME-2; a secret of such a name could meet one.
	numberedName = regexp.MustCompile(`-[0-9]+$`)
)

// checkSecrets holds the rules about secrets that concern the whole definition. An input that is a secret's value stays out
// of the manifest and of the record in it, so nothing else may use it: it would be lost, or leak, at the next update.
func checkSecrets(service *Service, diags *diag.List) {
	bosh := service.Provision.Bosh
	if bosh == nil {
		return
	}
	names := map[string]bool{}
	bound := map[string]Secret{}
	for _, secret := range bosh.Secrets {
		if names[secret.Name] {
			diags.Errorf(secret.Pos, "duplicate", "secret %q is declared twice", secret.Name)
		}
		names[secret.Name] = true
		if secret.Input != "" {
			bound[secret.Input] = secret
		}
		if secret.Value != nil && generates(secret.Value) {
			diags.Errorf(secret.Pos, "secret-generated", "secret %q must not use generating functions; give it a length instead", secret.Name)
		}
	}
	for _, template := range service.Provision.expressions() {
		for _, reference := range template.References() {
			if secret, ok := bound[reference.Name]; ok && template != secret.Value {
				diags.Errorf(reference.Pos, "secret-input", "input %q is the value of secret %q and may not be used elsewhere",
					reference.Name, secret.Name)
			}
		}
	}
	for _, computed := range service.Provision.ComputedInputs {
		if secret, ok := bound[computed.Name]; ok && computed.Expr != nil && generates(computed.Expr) {
			diags.Errorf(computed.Pos, "secret-generated", "computed input %q is the value of secret %q and must not use generating "+
				"functions; give the secret a length instead", computed.Name, secret.Name)
		}
	}
}

// generates tells whether an expression makes a new value at each evaluation.
func generates(template *expr.Template) bool {
	for _, call := range template.Calls() {
		switch call.Name {
		case "rand.base64", "time.nano", "counter.next":
			return true
		}
	}
	return false
}

// expressions returns all expressions of an action except the conditions that decide nothing rendered.
func (a *Action) expressions() []*expr.Template {
	var all []*expr.Template
	add := func(templates ...*expr.Template) {
		for _, template := range templates {
			if template != nil {
				all = append(all, template)
			}
		}
	}
	for _, variable := range a.UserInputs {
		add(variable.DefaultExpr)
	}
	for _, computed := range a.ComputedInputs {
		add(computed.Expr)
	}
	if a.Bosh == nil {
		return all
	}
	for _, ops := range a.Bosh.Ops {
		add(ops.If)
	}
	for _, config := range a.Bosh.Configs {
		add(config.If)
	}
	for _, secret := range a.Bosh.Secrets {
		add(secret.Value)
	}
	for _, check := range a.Bosh.Checks {
		add(check.That, check.Message)
	}
	for _, template := range a.Bosh.Labels {
		add(template)
	}
	for _, template := range a.Bosh.Update {
		add(template)
	}
	for _, output := range a.Bosh.Outputs {
		add(output.Expr)
	}
	add(a.Bosh.DashboardURL)
	return all
}

// Uses tells which keys of a map variable, such as "request.context", the action's expressions read, and whether one reads it
// in a way that needs all of them.
func (a *Action) Uses(variable string) (keys []string, all bool) {
	for _, template := range a.expressions() {
		for _, reference := range template.References() {
			rest, below := strings.CutPrefix(reference.Name, variable+".")
			switch {
			case below:
				keys = append(keys, rest)
			case reference.Name == variable && reference.Indexed && reference.Key != "":
				keys = append(keys, reference.Key)
			case reference.Name == variable:
				all = true
			}
		}
	}
	return keys, all
}
