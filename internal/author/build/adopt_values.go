package build

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/redact"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// propertyKeys are the keys below which a manifest contains properties of jobs. Only these can be secrets.
var propertyKeys = []string{"properties", "env"} //nolint:gochecknoglobals // a constant table

// A visitor is called with each scalar of a manifest, including the keys of mappings. path consists of the keys that
// lead to the scalar, from "properties" or "env" on; items of a list have the path of the list. path is nil for a
// scalar outside of these sections and for the keys themselves. parent is the mapping or list that contains the scalar.
// The visitor may modify the scalar, but not path.
type visitor func(path []string, node, parent *yaml.Node)

// scalars calls visit with the scalars below the root of a tree, keys before their values. path is that of the tree
// itself, or nil for a whole manifest; see visitor.
func scalars(path []string, tree *yaml.Node, visit visitor) {
	for i, child := range tree.Content {
		childPath := path
		if tree.Kind == yaml.MappingNode {
			childPath = nil
			if i%2 == 1 && (path != nil || slices.Contains(propertyKeys, tree.Content[i-1].Value)) {
				childPath = append(slices.Clip(path), tree.Content[i-1].Value)
			}
		}
		if child.Kind == yaml.ScalarNode {
			visit(childPath, child, tree)
		}
		scalars(childPath, child, visit)
	}
}

// replaceSecrets is a visitor that replaces the secrets in a property by references to generated secrets of the
// definition. It adds each new secret to a.secrets and a.literals, with a note; a text that was replaced before gets
// the same reference. If the property is a private key, replaceSecrets only chooses the variable; copyReplacer replaces
// the key later. It adds a note for a property that is an IP address. A scalar with a nil path is not changed.
func (a *adoption) replaceSecrets(path []string, node, parent *yaml.Node) {
	if path == nil {
		return
	}
	last := path[len(path)-1]
	if text := strings.TrimSpace(node.Value); strings.Contains(text, privateKey) {
		if a.literals[text] == "" {
			a.pairKey(path, node, parent)
		}
		return
	}
	if net.ParseIP(node.Value) != nil {
		a.notef(node, "decide: %s is an address of this deployment; other instances have others", last)
	}
	plain, secrets := splitMasked(node.Value, maskSecrets(path, node))
	parts := plain[:1:1]
	for i, secret := range secrets {
		if a.literals[secret] == "" {
			name := a.names.choose(path[1:])
			a.secrets[name] = true
			a.literals[secret] = "((" + name + "))"
			a.notef(node, "%s: a secret, not copied; it is the generated secret %q of the definition now", last, name)
		}
		parts = append(parts, a.literals[secret], plain[i+1])
	}
	if len(secrets) > 0 {
		replaceScalar(node, strings.Join(parts, ""))
	}
}

// maskSecrets returns the text of a scalar with the parts that package redact considers secrets replaced by
// redact.Mask. path is that of the scalar and must not be empty. References ((name)), booleans, null and texts that
// begin with a PEM header, such as certificates, are not secrets. The caller must have replaced private keys, which
// begin with such a header as well. The whole text of a property for which namedSecret is true is one secret, but if it
// contains a reference and one of the characters : and =, as connection strings do, only parts of it may be. If the
// text cannot be masked in time, the result is redact.Mask alone, as if the whole text were one secret.
func maskSecrets(path []string, node *yaml.Node) string {
	text := node.Value
	literal := strings.TrimSpace(vars.Reference.ReplaceAllString(text, " "))
	switch tag := node.ShortTag(); {
	case literal == "", strings.HasPrefix(literal, "-----BEGIN "), tag == "!!null", tag == "!!bool":
		return text
	case namedSecret(path) && (!strings.Contains(text, "((") || !strings.ContainsAny(text, ":=")):
		return redact.Mask // other texts with a reference may be connection strings, of which only a part is secret
	}
	var secrets redact.Secrets
	if !namedSecret(path) { // redact would mask the whole text because of its name
		for _, part := range vars.Reference.Split(text, -1) {
			secrets.AddValues(nested(path, part))
		}
	}
	masked := secrets.Clean(text)
	if masked == redact.Withheld { // a text that cannot be masked in time counts as one secret
		return redact.Mask
	}
	return masked
}

// namedSecret reports whether a property is a secret because of a key in its path, which must not be empty.
func namedSecret(path []string) bool { return redact.Named("", nested(path, "x")) }

// nested returns nested mappings that contain the value leaf at a path, which must not be empty.
func nested(path []string, leaf string) map[string]any {
	tree := map[string]any{path[len(path)-1]: leaf}
	for _, key := range slices.Backward(path[:len(path)-1]) {
		tree = map[string]any{key: tree}
	}
	return tree
}

// splitMasked splits a text into its secrets, which are the parts that are masked in the result of maskSecrets, and the
// plain parts before, between and after them. masked must be that result for the same text. There is always one plain
// part more than there are secrets; a plain part may be "".
func splitMasked(text, masked string) (plain, secrets []string) {
	plain = strings.Split(masked, redact.Mask)
	rest := strings.TrimPrefix(text, plain[0])
	for i, next := range plain[1:] {
		end := strings.Index(rest, next)
		if i == len(plain)-2 {
			end = len(rest) - len(next) // the last part ends the text
		}
		secrets = append(secrets, rest[:end])
		rest = rest[end+len(next):]
	}
	return plain, secrets
}

// privateKey is a part of the first line of every private key in PEM format.
const privateKey = "PRIVATE KEY-----"

// authority matches the names of properties that contain the certificate of a certificate authority, such as ca_cert.
var authority = regexp.MustCompile(`(?i)(^|[_-])(root_?)?ca([_-]|$|cert|_cert)`)

// pairKey chooses the variable, which BOSH will generate, for a private key, and adds a note. The parameters are those
// of a visitor; path must not be empty. pairKey adds the references that will replace the key to a.literals. If the key
// is the first one in its mapping or list, the certificates and public keys there become parts of the same variable. It
// declares the variable only if its type is ssh; declareUnknown derives other types from the parts in use.
func (a *adoption) pairKey(path []string, node, parent *yaml.Node) {
	owner := path
	if parent.Kind == yaml.MappingNode && len(path) > 2 {
		owner = path[:len(path)-1]
	}
	name := a.names.choose(owner[1:])
	a.notef(node, "%s: a private key, not copied; BOSH generates it as a part of the variable %q", path[len(path)-1],
		name)
	part := func(name, of string) string { return "((" + name + "." + of + "))" }
	ssh := strings.Contains(node.Value, "BEGIN OPENSSH")
	siblings := parent.Content
	if a.paired[parent] {
		siblings = []*yaml.Node{node}
	}
	a.paired[parent] = true
	for i, sibling := range siblings {
		text := strings.TrimSpace(sibling.Value)
		isCertificate := strings.Contains(text, "BEGIN CERTIFICATE-----")
		switch {
		case sibling == node && isCertificate:
			a.literals[text] = part(name, "certificate") + "\n" + part(name, "private_key")
		case sibling == node:
			a.literals[text] = part(name, "private_key")
		case parent.Kind == yaml.MappingNode && i%2 == 0: // a key of the mapping
		case strings.Contains(text, privateKey): // it belongs to another pair
		case isCertificate && parent.Kind == yaml.MappingNode && authority.MatchString(parent.Content[i-1].Value):
			a.literals[text] = part(name, "ca")
		case isCertificate:
			a.literals[text] = part(name, "certificate")
		case strings.HasPrefix(text, "ssh-"), strings.Contains(text, "BEGIN PUBLIC KEY-----"):
			ssh = ssh || strings.HasPrefix(text, "ssh-")
			a.literals[text] = part(name, "public_key")
		}
	}
	if ssh {
		a.declareVariable(node, name, "ssh")
	}
}

// distinct reports whether a secret is replaced in all texts that contain it. A secret of less than eight bytes, or one
// that consists of letters only, is not, because a word such as "postgres" may also be the name of a user.
func distinct(secret string) bool {
	const minLength = 8
	isOther := func(char rune) bool { return !unicode.IsLetter(char) }
	return len(secret) >= minLength && strings.ContainsFunc(secret, isOther)
}

// copyReplacer returns a visitor that replaces the distinct secrets in a.literals wherever a text or a key contains
// them. a.literals must be complete before the call. The visitor replaces all secrets in one pass over each text. If
// several begin at the same character, it replaces the longest one. A text that equals a secret which is not distinct
// is kept, with a note for the author.
func (a *adoption) copyReplacer() visitor {
	secrets := slices.DeleteFunc(value.Keys(a.literals), func(secret string) bool { return !distinct(secret) })
	slices.SortStableFunc(secrets, func(x, y string) int { return len(y) - len(x) })
	var pairs []string
	for _, secret := range secrets {
		pairs = append(pairs, secret, a.literals[secret])
	}
	replacer := strings.NewReplacer(pairs...)
	return func(_ []string, node, _ *yaml.Node) {
		whole := strings.TrimSpace(node.Value)
		switch reference := a.literals[whole]; {
		case reference == "":
			if text := replacer.Replace(node.Value); text != node.Value {
				replaceScalar(node, text)
			}
		case distinct(whole):
			replaceScalar(node, reference)
		default:
			a.notef(node, "decide: this text is also a secret elsewhere, which is %s now; here it was kept", reference)
		}
	}
}
