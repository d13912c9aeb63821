package manifestgen

import (
	"fmt"
	"slices"
	"strings"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A mention is one occurrence of a reference in a value. path is the path of the text or key that contains the
// reference, in the notation of value.Walk, such as "instance_groups/0/name"; reference is its text with the
// parentheses, such as "((ca))".
type mention struct{ path, reference string }

// mentions returns all references, such as "((ca.certificate))", in the texts and keys of a value at every level, in
// the order of value.Walk, with keys sorted and including repetitions. It returns nil if there are none.
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

// references returns all references in the texts and keys of a value, with their parentheses, in the order of mentions
// and including repetitions. It returns nil if there are none.
func references(tree any) []string {
	return value.Convert(mentions(tree), func(m mention) string { return m.reference })
}

// declaredVariables returns the names of the variables whose values BOSH generates: those of the mappings in a
// manifest's list `variables`, in the order of the list. A mapping without a name gives "", and other entries are
// skipped. The result is nil if tree is not a mapping or has no such entries.
func declaredVariables(tree any) []string {
	root, _ := tree.(map[string]any)
	return value.Convert(value.Mappings(root["variables"]), func(entry map[string]any) string {
		return value.Text(entry["name"])
	})
}

// checkReferences checks the ((references)) in the texts and keys of result, a rendered document, and returns an error
// if BOSH or the broker cannot resolve some of them or must not do so. config is the type of the document if it is a
// BOSH config, or "" for the manifest. d contains the decisions about the secrets, which are those of the definition,
// the sensitive outputs of the template and the secret inputs of an errand. variables are those of the template; error
// messages suggest their names.
//
// A reference is valid if it is that of one of these secrets, if its name without keys is in the list `variables` of
// the document, or if it is an absolute reference that is allowed (see allowed). A BOSH config must not refer to these
// secrets, because the broker resolves them only in the manifest.
//
// The error is a diag.Errors that contains every rejected reference with its position. If the manifest refers to a
// secret whose value is lost, the error is the lostErr of the first such secret alone. checkReferences returns nil if
// all references are valid.
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

// referenceProblem explains why BOSH cannot or must not resolve a reference, which includes its parentheses and is not
// that of a secret. The explanation is the end of a sentence that begins with the reference. It returns "" if BOSH can
// resolve the reference: if its name, without a key such as ".certificate", is among declared, the names in the
// manifest's list `variables`, or if it is an absolute path that is allowed, with its key or without (see allowed).
// Every other absolute path and every other name is a problem. The names in variables, those of the template, only
// serve suggestions.
func referenceProblem(d *decisions, variables variables, reference string, declared []string) string {
	name := strings.TrimSpace(strings.TrimPrefix(strings.Trim(reference, "()"), "!"))
	credential := vars.Credential(name)
	if slices.Contains(declared, credential) {
		return ""
	}
	if strings.HasPrefix(credential, "/") {
		if d.allowed(name) || d.allowed(credential) {
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
