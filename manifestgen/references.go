package manifestgen

import (
	"fmt"
	"slices"
	"strings"

	"service-adapter/brokerpak/vars"
	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// mention is a reference in a value and its path as value.Walk writes it.
type mention struct{ path, reference string }

// mentions returns the references in the texts and keys of a value, in the order of value.Walk, with repetitions.
func mentions(tree any) []mention {
	var found []mention
	value.Walk(tree, func(path string, leaf any) bool {
		if text, ok := leaf.(string); ok && strings.Contains(text, "((") {
			for _, reference := range vars.Reference.FindAllString(text, -1) {
				found = append(found, mention{path, reference})
			}
		}
		return true
	})
	return found
}

// references returns the references of mentions.
func references(tree any) []string {
	return value.Each(mentions(tree), func(m mention) string { return m.reference })
}

// declaredVariables are the names under `+"`variables:`"+`, which BOSH generates.
func declaredVariables(tree any) []string {
	root, _ := tree.(map[string]any)
	return value.Each(value.Mappings(root["variables"]), func(entry map[string]any) string { return value.Text(entry["name"]) })
}

// checkReferences refuses every ((reference)) of a manifest that nothing will resolve, or that would resolve to another's credential.
// A BOSH config, named by its kind, cannot refer to a secret either, because the broker stores those that the manifest refers to, and
// replaces references only there. The error is a diag.Errors, or that of a secret that is lost.
func checkReferences(in *input, secrets decisions, variables variables, result *rendered, config string) error {
	diags := &diag.List{}
	declared := declaredVariables(result.tree)
	for _, m := range mentions(result.tree) {
		wrong, name := "", secrets.named(m.reference)
		switch {
		case name == "":
			wrong = unresolved(in, variables, m.reference, declared)
		case config != "":
			wrong = fmt.Sprintf("is secret %q, which the %s config cannot refer to: the broker manages secrets of the manifest only", name, config)
		case secrets[name].lost != nil:
			return secrets[name].lost
		}
		if wrong != "" {
			diags.Errorf(result.places.of(m.reference), "bosh-variable", "%s at /%s %s", m.reference, m.path, wrong)
		}
	}
	return diags.Err()
}

// unresolved says what is wrong with a reference that BOSH is to resolve, as the end of a sentence; "" for nothing.
func unresolved(in *input, variables variables, found string, declared []string) string {
	name := strings.TrimSpace(strings.TrimPrefix(strings.Trim(found, "()"), "!"))
	whole := vars.Credential(name)
	if slices.Contains(declared, whole) {
		return ""
	}
	if strings.HasPrefix(whole, "/") {
		if in.allowed(whole) {
			return ""
		}
		return "is an absolute reference; " + in.mustAllow("it", whole)
	}
	if secret := in.bosh.SecretOf(whole); secret != nil {
		return fmt.Sprintf("is the value of secret %q; write ((%s))", secret.Name, secret.Name)
	}
	known := slices.Concat(value.Keys(variables), declared)
	return fmt.Sprintf("is neither an input, a secret nor declared under variables%s; known: %s", diag.Suggest(whole, known), diag.Names(known))
}
