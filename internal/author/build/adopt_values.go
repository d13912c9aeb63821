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

// A visitor is called by scalars with each scalar of a manifest, including the keys of mappings. path consists of the
// keys from "properties" or "env" down to the scalar's own key, such as ["properties", "db", "password"]; items of a
// list have the path of the list. path is nil for a scalar outside of these sections and for a key of a mapping. parent
// is the mapping or list that contains the scalar. The visitor may modify the scalar, but not path.
type visitor func(path []string, node, parent *yaml.Node)

// scalars calls visit with each scalar below the root of a tree, in the order of the text, so that a key comes before
// its value. The root itself is not visited. path is the path of the root in the sense of visitor: nil for a whole
// manifest or for a tree outside of properties and env.
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

// replaceSecrets is a visitor that replaces the secrets in the scalar of a property, which are the parts that
// maskSecrets masks, by references to generated secrets of the definition. For each new secret it chooses a unique name
// from the keys of the path (see variableNames.choose), adds the name to a.secrets and the reference to a.literals, and
// adds a note. A secret that is in a.literals already gets the same reference and no note.
//
// A text that contains a private key in PEM format is not changed, because copyReplacer replaces it later.
// replaceSecrets only calls pairKey for it, unless a.literals contains the same text already. A property that is an
// IP address gets a note. A scalar with a nil path, which is the key of a mapping or is outside of the properties, is
// ignored.
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

// maskSecrets returns the text of a scalar in which redact.Mask replaces the parts that package redact considers
// secrets. It does not modify the node. path is the path of the scalar, see visitor, and must not be empty. A text
// without secrets is returned unchanged.
//
// Booleans, null, empty texts, texts of references ((name)) alone, and texts that begin with a PEM header, such as
// certificates, are never secrets. Private keys begin with such a header as well, so the caller must handle them
// itself. If namedSecret is true for the property, any other text is one secret as a whole. But if such a text contains
// a reference and one of the characters : and =, as connection strings do, only the parts that package redact detects
// within the text are masked. If masking takes longer than redact.Limit, the result is redact.Mask alone, as if the
// whole text were one secret.
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

// namedSecret reports whether a property is a secret because a key in its path denotes one, such as "password" in
// ["properties", "db", "password"], and no key after it denotes an id or a harmless value, such as "username". See
// redact.Named for the words. The value of the property does not matter. path must not be empty.
func namedSecret(path []string) bool { return redact.Named("", nested(path, "x")) }

// nested returns nested mappings that contain the value leaf at a path of keys: {"a": {"b": leaf}} for the path ["a",
// "b"]. It panics if the path is empty.
func nested(path []string, leaf string) map[string]any {
	tree := map[string]any{path[len(path)-1]: leaf}
	for _, key := range slices.Backward(path[:len(path)-1]) {
		tree = map[string]any{key: tree}
	}
	return tree
}

// splitMasked splits a text into its secrets and the plain parts before, between and after them. masked must be the
// result of maskSecrets for the same text; each redact.Mask in it marks one secret. For the text "user:pw@host" and
// "user:[redacted]@host", plain is ["user:", "@host"] and secrets is ["pw"]. plain always has one element more than
// secrets, and its elements may be "". If no part is masked, plain contains the text and secrets is nil. Of adjacent
// marks, the last one gets the text of all, and the others get "". If a secret that is not the last one contains the
// plain part after it, the split is not exact.
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

// pairKey replaces a private key in a property by a part of a variable, so that BOSH generates a new key. It chooses
// the name of the variable, adds a note, and adds an entry to a.literals. The entry maps the text of the key to a
// reference such as "((db_tls.private_key))", or to the references of certificate and key if the text contains both.
// copyReplacer replaces the text later; pairKey does not change the node. The parameters are those of a visitor; path
// must not be empty.
//
// The unique name of the variable is chosen from the keys of the path below "properties" or "env" without the last one,
// such as "db_tls" for the key private_key in the mapping db_tls. The last key is included if it is the only one, or if
// it is the key of a list that contains the private key.
//
// If the key is the first private key in its mapping or list, the certificates, authorities and public keys there
// become parts of the same variable, and also get entries in a.literals; a.paired records the mapping or list. A later
// private key there gets a variable of its own.
//
// The type of the variable is ssh if the key is in the OpenSSH format or a public key that becomes a part of the
// variable begins with "ssh-". pairKey declares such a variable in the template. It declares no other variable, because
// declareUnknown derives their types from the parts that the template uses.
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

// distinct reports whether a secret is so distinctive that copyReplacer may replace it in all texts that contain it. It
// returns false for a secret of less than eight bytes and for one that consists of letters only, because a word such as
// "postgres" may also be the name of a user.
func distinct(secret string) bool {
	const minLength = 8
	isOther := func(char rune) bool { return !unicode.IsLetter(char) }
	return len(secret) >= minLength && strings.ContainsFunc(secret, isOther)
}

// copyReplacer returns a visitor that replaces the secrets in a.literals by their references, wherever a value or a key
// of the manifest contains them, also outside of properties. Only distinct secrets are replaced; see distinct. If a
// text consists of a distinct secret and white space at its ends, the reference replaces the whole text. A text that
// equals a secret that is not distinct, apart from white space at its ends, is kept, with a note that asks the author
// to decide.
//
// The visitor replaces all secrets in one pass over each text. If several begin at the same character, it replaces the
// longest one. a.literals must be complete before the call. The visitor uses neither the path nor the parent of a
// scalar.
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
