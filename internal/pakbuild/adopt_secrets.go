package pakbuild

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/vars"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
)

// inProperties are the keys below which a manifest has values of jobs; only those may be secrets.
var inProperties = []string{"properties", "env"} //nolint:gochecknoglobals // a constant table

// scalars visits the scalars of a tree, keys before their values. The path is that of keys from properties or env on; it is nil outside
// of them and for keys. Around is what holds the scalar.
func scalars(node *yaml.Node, visit func(path []string, node, around *yaml.Node)) {
	walk(nil, node, nil, visit)
}

func walk(path []string, node, around *yaml.Node, visit func(path []string, node, around *yaml.Node)) {
	if node.Kind == yaml.ScalarNode {
		visit(path, node, around)
		return
	}
	for i, child := range node.Content {
		below := path
		if node.Kind == yaml.MappingNode {
			below = nil
			if i%2 == 1 && path != nil {
				below = append(slices.Clip(path), node.Content[i-1].Value)
			} else if i%2 == 1 && slices.Contains(inProperties, node.Content[i-1].Value) {
				below = []string{}
			}
		}
		walk(below, child, node, visit)
	}
}

// collect finds the secrets in the properties of jobs and chooses what stands in their place. Around is what holds the scalar.
func (a *adoption) collect(path []string, node, around *yaml.Node) {
	text := strings.TrimSpace(node.Value)
	if _, known := a.literals[text]; path == nil || known {
		return
	}
	if strings.Contains(text, privateKey) {
		a.keyPair(path, node, around)
		return
	}
	if net.ParseIP(text) != nil {
		a.notef(node, "decide: %s is an address of this deployment; other instances have others", last(path))
	}
	for _, secret := range hidden(node.Value, masked(path, node)) {
		if _, known := a.literals[secret]; !known {
			name := a.newName(path)
			a.secrets = append(a.secrets, name)
			a.literals[secret] = "((" + name + "))"
			a.notef(node, "%s: a secret, not copied; it is the generated secret %q of the definition now", last(path), name)
		}
	}
}

func last(path []string) string {
	if len(path) == 0 {
		return "properties"
	}
	return path[len(path)-1]
}

// masked is the text of a scalar with what is a secret by the rule of package redact masked. A reference or a variable is none.
func masked(path []string, node *yaml.Node) string {
	text := node.Value
	literal := vars.Reference.ReplaceAllString(text, " ")
	public := strings.HasPrefix(strings.TrimSpace(text), "-----BEGIN ") && !strings.Contains(text, privateKey)
	switch tag := node.ShortTag(); {
	case strings.TrimSpace(literal) == "", public, tag == "!!null", tag == "!!bool":
		return text
	case named(path) && (literal == text || !strings.ContainsAny(text, ":=")): // of a connection string only a part is one
		return redact.Mask
	}
	var forms, generated redact.Secrets
	text = forms.Clean(text)
	for _, part := range vars.Reference.Split(text, -1) {
		generated.AddValues(nested(path, part))
	}
	if named(path) { // the rule would take the whole
		return text
	}
	return generated.Clean(text)
}

// named tells whether the name of a property says that it is a secret.
func named(path []string) bool {
	var found redact.Secrets
	found.AddValues(nested(path, "x"))
	return found.Any()
}

// nested is a mapping with a value at a path.
func nested(path []string, leaf any) map[string]any {
	for _, key := range slices.Backward(path) {
		leaf = map[string]any{key: leaf}
	}
	if tree, ok := leaf.(map[string]any); ok {
		return tree
	}
	return map[string]any{"": leaf}
}

// hidden are the parts of a text that are masked in another one.
func hidden(text, clean string) []string {
	var all []string
	parts := strings.Split(clean, redact.Mask)
	for i, part := range parts[1:] {
		rest := strings.TrimPrefix(text, parts[i])
		end := len(rest)
		if at := strings.Index(rest, part); at >= 0 && part != "" {
			end = at
		}
		all = append(all, rest[:end])
		text = rest[end:]
	}
	return all
}

// What the texts of keys and certificates in PEM hold.
const (
	privateKey  = "PRIVATE KEY-----"
	certificate = "BEGIN CERTIFICATE-----"
)

// authority finds the names of certificates that sign others: ca, ca_cert, cacert.
var authority = regexp.MustCompile(`(?i)(^|[_-])(root_?)?ca([_-]|$|cert|_cert)`)

// keyPair makes a private key, and the certificates beside it, a variable that BOSH generates.
func (a *adoption) keyPair(path []string, node, around *yaml.Node) {
	owner := path
	if len(path) > 1 && around.Kind == yaml.MappingNode {
		owner = path[:len(path)-1]
	}
	name, kind := a.newName(owner), "rsa"
	key := "((" + name + ".private_key))"
	for i, sibling := range around.Content {
		text := strings.TrimSpace(sibling.Value)
		switch {
		case strings.HasPrefix(text, "ssh-"):
			kind, a.literals[text] = "ssh", "(("+name+".public_key))"
		case strings.Contains(text, "BEGIN PUBLIC KEY-----"):
			a.literals[text] = "((" + name + ".public_key))"
		case !strings.Contains(text, certificate):
		case sibling == node:
			kind, key = "certificate", "(("+name+".certificate))\n"+key
		case strings.Contains(text, privateKey): // a pair of its own
		case around.Kind == yaml.MappingNode && authority.MatchString(around.Content[i-1].Value):
			kind, a.literals[text] = "certificate", "(("+name+".ca))"
		default:
			kind, a.literals[text] = "certificate", "(("+name+".certificate))"
		}
	}
	if strings.Contains(node.Value, "BEGIN OPENSSH") {
		kind = "ssh"
	}
	a.literals[strings.TrimSpace(node.Value)] = key
	a.notef(node, "%s: a private key, not copied; BOSH generates it as the variable %q of type %s", last(path), name, kind)
	a.declareVariable(node, name, kind)
}

// shortestCopy is the length from which a secret is looked for in other texts.
const shortestCopy = 8

// distinct tells whether a text is a secret wherever it stands: a word such as "postgres" is also the name of a user.
func distinct(secret string) bool {
	return len(secret) >= shortestCopy && strings.ContainsFunc(secret, func(char rune) bool { return !unicode.IsLetter(char) })
}

// replace puts what was chosen in the place of the secrets in a scalar.
func (a *adoption) replace(path []string, node, _ *yaml.Node) {
	text := node.Value
	whole := strings.TrimSpace(text)
	by, known := a.literals[whole]
	clean := text
	if path != nil {
		clean = masked(path, node)
	}
	switch {
	case known && (distinct(whole) || clean == redact.Mask):
		text = by
	default:
		for _, secret := range hidden(text, clean) {
			clean = strings.Replace(clean, redact.Mask, a.literals[secret], 1)
		}
		text = clean
		for _, secret := range longestFirst(a.literals) {
			if distinct(secret) {
				text = strings.ReplaceAll(text, secret, a.literals[secret])
			}
		}
		if known && text == node.Value {
			a.notef(node, "decide: this text is also a secret elsewhere, which is %s now; here it was kept", by)
		}
	}
	if text != node.Value {
		changed := textNode(text)
		changed.Line, changed.Column = node.Line, node.Column
		*node = *changed
	}
}

// longestFirst are the keys, so that one that holds another is replaced as a whole.
func longestFirst(literals map[string]string) []string {
	keys := value.Keys(literals)
	slices.SortStableFunc(keys, func(a, b string) int { return len(b) - len(a) })
	return keys
}
