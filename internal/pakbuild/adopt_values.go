package pakbuild

import (
	"cmp"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/vars"
	"service-adapter/internal/redact"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// inProperties are the keys below which a manifest has values of jobs; only those may be secrets.
var inProperties = []string{"properties", "env"} //nolint:gochecknoglobals // a constant table

// visitor sees a scalar. The path is that of keys from properties or env on; it is nil outside of them and for keys. Around is what holds
// the scalar.
type visitor func(path []string, node, around *yaml.Node)

// scalars visits the scalars of a tree at a path, keys before their values.
func scalars(path []string, tree *yaml.Node, visit visitor) {
	for i, child := range tree.Content {
		below := path
		if tree.Kind == yaml.MappingNode {
			below = nil
			if i%2 == 1 && (path != nil || slices.Contains(inProperties, tree.Content[i-1].Value)) {
				below = append(slices.Clip(path), tree.Content[i-1].Value)
			}
		}
		if child.Kind == yaml.ScalarNode {
			visit(below, child, tree)
		}
		scalars(below, child, visit)
	}
}

// secret puts variables in the place of the secrets in a property. It chooses those of keys and certificates, too.
func (a *adoption) secret(path []string, node, around *yaml.Node) {
	if path == nil {
		return
	}
	last := path[len(path)-1]
	if text := strings.TrimSpace(node.Value); strings.Contains(text, privateKey) {
		if a.literals[text] == "" {
			a.keys(path, node, around)
		}
		return
	}
	if net.ParseIP(node.Value) != nil {
		a.notef(node, "decide: %s is an address of this deployment; other instances have others", last)
	}
	clean := masked(path, node)
	for _, secret := range hidden(node.Value, clean) {
		if a.literals[secret] == "" {
			name := a.newName(path[1:])
			a.secrets = append(a.secrets, name)
			a.literals[secret] = "((" + name + "))"
			a.notef(node, "%s: a secret, not copied; it is the generated secret %q of the definition now", last, name)
		}
		clean = strings.Replace(clean, redact.Mask, a.literals[secret], 1)
	}
	if clean != node.Value {
		write(node, clean)
	}
}

// masked is the text of a scalar with what is a secret by the rule of package redact masked. A reference or a variable is none.
func masked(path []string, node *yaml.Node) string {
	text := node.Value
	literal := strings.TrimSpace(vars.Reference.ReplaceAllString(text, " "))
	switch tag := node.ShortTag(); {
	case literal == "", strings.HasPrefix(literal, "-----BEGIN "), tag == "!!null", tag == "!!bool":
		return text
	case named(path) && (!strings.Contains(text, "((") || !strings.ContainsAny(text, ":=")): // of a connection string only a part is one
		return redact.Mask
	}
	var secrets redact.Secrets
	if !named(path) { // the rule would take the whole
		for _, part := range vars.Reference.Split(text, -1) {
			secrets.AddValues(nested(path, part))
		}
	}
	return secrets.Clean(text)
}

// named tells whether the name of a property says that it is a secret.
func named(path []string) bool {
	var found redact.Secrets
	found.AddValues(nested(path, "x"))
	return found.Any()
}

// nested is a mapping with a value at a path.
func nested(path []string, leaf string) map[string]any {
	tree := map[string]any{path[len(path)-1]: leaf}
	for _, key := range slices.Backward(path[:len(path)-1]) {
		tree = map[string]any{key: tree}
	}
	return tree
}

// hidden are the parts of a text that are masked in another one.
func hidden(text, clean string) []string {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(clean), regexp.QuoteMeta(redact.Mask), "(.*?)")
	return regexp.MustCompile("(?s)^" + pattern + "$").FindStringSubmatch(text)[1:]
}

const privateKey = "PRIVATE KEY-----"

// authority finds the names of certificates that sign others: ca, ca_cert, cacert.
var authority = regexp.MustCompile(`(?i)(^|[_-])(root_?)?ca([_-]|$|cert|_cert)`)

// keys makes a private key, and the certificates and public keys beside it, parts of a variable that BOSH generates. Its type follows from
// the parts, but for that of SSH.
func (a *adoption) keys(path []string, node, around *yaml.Node) {
	owner := path
	if around.Kind == yaml.MappingNode && len(path) > 2 {
		owner = path[:len(path)-1]
	}
	name := a.newName(owner[1:])
	a.notef(node, "%s: a private key, not copied; BOSH generates it as a part of the variable %q", path[len(path)-1], name)
	part := func(name, of string) string { return "((" + name + "." + of + "))" }
	ssh := strings.Contains(node.Value, "BEGIN OPENSSH")
	for i, sibling := range around.Content {
		text := strings.TrimSpace(sibling.Value)
		isCertificate := strings.Contains(text, "BEGIN CERTIFICATE-----")
		switch {
		case sibling == node && isCertificate:
			a.literals[text] = part(name, "certificate") + "\n" + part(name, "private_key")
		case sibling == node:
			a.literals[text] = part(name, "private_key")
		case strings.Contains(text, privateKey): // a pair of its own
		case isCertificate && around.Kind == yaml.MappingNode && authority.MatchString(around.Content[i-1].Value):
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

// copies replaces secrets wherever else they stand. One of a few letters is kept: a word such as "postgres" is also the name of a user.
func (a *adoption) copies(_ []string, node, _ *yaml.Node) {
	const shortest = 8
	distinct := func(secret string) bool {
		return len(secret) >= shortest && strings.ContainsFunc(secret, func(char rune) bool { return !unicode.IsLetter(char) })
	}
	text := node.Value
	whole := strings.TrimSpace(text)
	switch by := a.literals[whole]; {
	case by != "" && distinct(whole):
		text = by
	case by != "":
		a.notef(node, "decide: this text is also a secret elsewhere, which is %s now; here it was kept", by)
	default:
		secrets := value.Keys(a.literals)
		slices.SortStableFunc(secrets, func(x, y string) int { return len(y) - len(x) }) // one that holds another is replaced as a whole
		for _, secret := range slices.DeleteFunc(secrets, func(secret string) bool { return !distinct(secret) }) {
			text = strings.ReplaceAll(text, secret, a.literals[secret])
		}
	}
	if text != node.Value {
		write(node, text)
	}
}

// undeclared is a variable that the manifest does not declare, and the keys below it that are used.
type undeclared struct {
	name   string // in the template
	first  *yaml.Node
	secret bool // of the broker, or by the name of a property
	keys   map[string]bool
}

// names notes which names variables have, wherever they stand.
func (a *adoption) names() {
	if list := get(a.root, "variables"); list != nil {
		for _, entry := range list.Content {
			if name := get(entry, "name"); name != nil {
				a.declared[name.Value], a.taken[name.Value] = true, true
			}
		}
	}
	scalars(nil, a.root, func(_ []string, node, _ *yaml.Node) {
		for _, found := range vars.Reference.FindAllString(node.Value, -1) {
			name, _ := vars.Split(found)
			a.taken[name] = true
		}
	})
}

var (
	// notInVariables are the characters that names of inputs and secrets cannot have.
	notInVariables = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
	// numbered is the end that names of secrets must not have.
	numbered = regexp.MustCompile(`-([0-9]+)$`)
	// ofBroker are references to secrets that an adapter made: before the broker has seen the manifest, and after.
	ofBroker = regexp.MustCompile(`^(odb_secret:|/odb/.*/)([^/:]+)$`)
)

// allowedName makes a name that inputs and secrets can have of a text; it may be empty.
func allowedName(text string) string {
	return strings.Trim(numbered.ReplaceAllString(notInVariables.ReplaceAllString(text, "_"), "_$1"), "_-")
}

// newName makes a name of the last of some keys that is not taken, with as many of the others before it as it needs.
func (a *adoption) newName(path []string) string {
	name := ""
	for _, key := range slices.Backward(path) {
		if name = allowedName(strings.TrimSuffix(key+"_"+name, "_")); name != "" && !a.taken[name] {
			break
		}
	}
	name = cmp.Or(name, "secret")
	unique := name
	for n := 2; a.taken[unique]; n++ {
		unique = name + "_" + strconv.Itoa(n)
	}
	a.taken[unique] = true
	return unique
}

// variables finds the variables in a scalar that the manifest does not declare, and gives them names that a definition can have.
func (a *adoption) variables(path []string, node, _ *yaml.Node) {
	secret := path != nil && named(path)
	node.Value = vars.Reference.ReplaceAllStringFunc(node.Value, func(found string) string {
		return a.variable(node, found, secret && found == node.Value)
	})
}

// variable returns what stands in the place of a variable. Secret tells that it is the whole of a property that is a secret by its name.
func (a *adoption) variable(node *yaml.Node, found string, secret bool) string {
	name, keys := vars.Split(found)
	wanted := name
	_, wrong := vars.ReferenceName(found, found == node.Value)
	switch made := ofBroker.FindStringSubmatch(name); {
	case made != nil:
		wanted, keys, secret = numbered.ReplaceAllString(made[2], ""), "", true // without the number of a changed value
	case wrong != "":
		a.errorf(node, "%s %s; a manifest of spruce or another tool must be merged first", found, wrong)
		return found
	case a.declared[name], slices.Contains(a.secrets, name):
		return found
	case strings.HasPrefix(name, "/"):
		if !slices.Contains(a.references, name) {
			a.references = append(a.references, name)
			a.notef(node, "decide: %s is a credential of CredHub, which the operator must allow", found)
		}
		return found
	}
	unknown := a.unknown[name]
	if unknown == nil {
		unknown = &undeclared{allowedName(wanted), node, false, map[string]bool{}}
		if unknown.name != name {
			unknown.name = a.newName([]string{wanted})
		}
		a.unknown[name] = unknown
	}
	if keys == "" {
		unknown.secret = unknown.secret || secret
		return "((" + unknown.name + "))"
	}
	unknown.keys[keys] = true
	return "((" + unknown.name + "." + keys + "))"
}

// declare declares what the variables stand for that the manifest does not declare.
func (a *adoption) declare() {
	const changeMe = "change-me" // nobody knows the value
	for _, found := range value.Keys(a.unknown) {
		unknown := a.unknown[found]
		name, kind := unknown.name, generatedKind(unknown.keys)
		switch {
		case len(unknown.keys) == 0 && (unknown.secret || named([]string{name})):
			a.secrets = append(a.secrets, name)
			a.notef(unknown.first, "((%s)): a secret; it is a generated secret of the definition now", name)
		case kind != "":
			a.notef(unknown.first, "((%s)): declared nowhere; BOSH generates it as a variable of type %s now", name, kind)
			a.declareVariable(unknown.first, name, kind)
		default:
			made := input{name, "string", changeMe}
			if len(unknown.keys) > 0 {
				fields := map[string]string{}
				for key := range unknown.keys {
					fields[key] = changeMe
				}
				made.Type, made.Value = "object", string(value.MustJSON(fields))
			}
			a.inputs = append(a.inputs, made)
			a.notef(unknown.first, "decide: ((%s)) is an input of plans; the plan's property says %s", name, changeMe)
		}
	}
	slices.Sort(a.secrets)
}

// generatedKinds are the types of BOSH's variables by the keys that tell them apart, the first that is there.
var generatedKinds = []struct{ key, kind string }{ //nolint:gochecknoglobals // a constant table
	{"certificate", "certificate"}, {"ca", "certificate"}, {"public_key_fingerprint", "ssh"}, {"private_key", "rsa"}, {"public_key", "rsa"}, {"password", "user"},
}

// generatedKind is the type of a variable of BOSH with these keys; "" where there is none.
func generatedKind(keys map[string]bool) string {
	for _, one := range generatedKinds {
		if keys[one.key] {
			return one.kind
		}
	}
	return ""
}

// declareVariable declares a variable that BOSH generates.
func (a *adoption) declareVariable(node *yaml.Node, name, kind string) {
	list := get(a.root, "variables")
	if list == nil || list.Kind != yaml.SequenceNode {
		list = &yaml.Node{Kind: yaml.SequenceNode}
		yamltree.Set(a.root, "variables", list)
	}
	entry := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{textNode("name"), textNode(name), textNode("type"), textNode(kind)}}
	if kind == "certificate" {
		options := &yaml.Node{}
		_ = options.Encode(map[string]any{"is_ca": true, "common_name": name}) // a plain mapping
		yamltree.Set(entry, "options", options)
		a.notef(node, "decide: who signs the certificate %q, and for which names; it signs itself", name)
	}
	list.Style &^= yaml.FlowStyle
	list.Content = append(list.Content, entry)
	a.declared[name] = true
}
