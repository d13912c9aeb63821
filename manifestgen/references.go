package manifestgen

import (
	"fmt"
	"slices"
	"strings"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A mention is one occurrence of a reference in a value. The path is that of the text or key that contains it, in the
// notation of value.Walk; the reference includes its parentheses.
type mention struct{ path, reference string }

// mentions returns all references in the texts and keys of a value, in the order of value.Walk, including repetitions.
// It returns nil if there are none.
func mentions(tree any) []mention {
	var all []mention
	value.Walk(tree, func(path string, leaf any) bool {
		if text, ok := leaf.(string); ok && strings.Contains(text, "((") {
			for _, reference := range vars.Reference.FindAllString(text, -1) {
				all = append(all, mention{path, reference})
			}
		}
		return true
	})
	return all
}

// references returns the references of all mentions in a value, with their parentheses, in the order of mentions and
// including repetitions.
func references(tree any) []string {
	return value.Convert(mentions(tree), func(m mention) string { return m.reference })
}

// declaredVariables returns the names in the manifest's `variables` list, whose values BOSH generates, in its order. A
// tree without such a list, or that is not a mapping, has none.
func declaredVariables(tree any) []string {
	root, _ := tree.(map[string]any)
	return value.Convert(value.Mappings(root["variables"]), func(entry map[string]any) string {
		return value.Text(entry["name"])
	})
}

// checkReferences reports every ((reference)) of a rendered document that BOSH or the broker cannot resolve or must not
// resolve. The variables are those of the template; messages suggest their names. The config is the type of the BOSH
// config, or "" for the manifest. A BOSH config must not refer to secrets, because the broker resolves its secrets only
// in the manifest. The error is a diag.Errors with all of these references, or, if the manifest refers to a secret with
// a lostErr, that lostErr alone.
func checkReferences(d *decisions, variables variables, result *renderedDocument, config string) error {
	diags := &diag.List{}
	declared := declaredVariables(result.tree)
	for _, m := range mentions(result.tree) {
		problem, name := "", d.secrets.nameOf(m.reference)
		switch {
		case name == "":
			problem = referenceProblem(d, variables, m.reference, declared)
		case config != "":
			problem = fmt.Sprintf("is secret %q, which the %s config cannot refer to: "+
				"the broker manages secrets of the manifest only", name, config)
		case d.secrets[name].lostErr != nil:
			return d.secrets[name].lostErr
		}
		if problem != "" {
			diags.Errorf(result.sources.position(m.reference), "bosh-variable", "%s at /%s %s",
				m.reference, m.path, problem)
		}
	}
	return diags.Err()
}

// referenceProblem explains why BOSH cannot or must not resolve a reference. The explanation is the end of a sentence
// that begins with the reference. The variables are those of the template, for suggestions, and declared contains the
// names that the manifest declares. referenceProblem returns "" if BOSH can resolve the reference: if the manifest
// declares its variable, or if it is an absolute path that the operator allows.
func referenceProblem(d *decisions, variables variables, reference string, declared []string) string {
	name := strings.TrimSpace(strings.TrimPrefix(strings.Trim(reference, "()"), "!"))
	credential := vars.Credential(name)
	if slices.Contains(declared, credential) {
		return ""
	}
	if strings.HasPrefix(credential, "/") {
		if d.allowed(credential) {
			return ""
		}
		return "is an absolute reference; " + d.allowanceHint("it", credential)
	}
	if secret := d.definedSecrets.ofInput(credential); secret != nil {
		return fmt.Sprintf("is the value of secret %q; write ((%s))", secret.Name, secret.Name)
	}
	names := slices.Concat(value.Keys(variables), declared)
	return fmt.Sprintf("is neither an input, a secret nor declared under variables%s; known: %s",
		diag.Suggest(credential, names), diag.Names(names))
}
