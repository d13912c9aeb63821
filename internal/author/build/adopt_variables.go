package build

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
	"service-adapter/internal/vars"
	"service-adapter/internal/yamltree"
)

// An undeclared is a variable that the manifest uses but does not declare under variables. It collects its name in the
// template, the first scalar that uses it, whether it is a secret, and the keys with which it is used, such as
// "certificate" in ((name.certificate)). declareUnknown uses them to decide between a generated secret, a variable of
// BOSH and a plan input.
type undeclared struct {
	name   string          // the name of the variable in the template
	first  *yaml.Node      // the first scalar that uses it
	secret bool            // whether it is a secret of the broker, or the value of a property whose name means a secret
	keys   map[string]bool // the keys of the variable that are used, such as certificate
}

// collectNames marks the names of all variables of the manifest, whether declared or only used in references, as taken
// in a.names. It adds those that the manifest declares under variables to a.declared as well. A name has no parentheses
// and no keys: "ca" for ((ca.certificate)).
func (a *adoption) collectNames() {
	if list := get(a.root, "variables"); list != nil {
		for _, entry := range list.Content {
			if name := get(entry, "name"); name != nil {
				a.declared[name.Value], a.names.taken[name.Value] = true, true
			}
		}
	}
	scalars(nil, a.root, func(_ []string, node, _ *yaml.Node) {
		for _, reference := range vars.Reference.FindAllString(node.Value, -1) {
			name, _ := vars.Split(reference)
			a.names.taken[name] = true
		}
	})
}

var (
	// notInVariables matches characters that names of inputs and secrets must not contain.
	notInVariables = regexp.MustCompile(`[^A-Za-z0-9_-]+`)
	// numbered matches the suffix that names of secrets must not have, because the adapter appends it to changed
	// secrets.
	numbered = regexp.MustCompile(`-([0-9]+)$`)
	// ofBroker matches the names of secrets that an adapter created, before and after the broker has processed the
	// manifest.
	ofBroker = regexp.MustCompile(`^(odb_secret:|/odb/.*/)([^/:]+)$`)
)

// allowedName converts a text into a name that is allowed for an input or a secret, such as "a.b-1" into "a_b_1". Each
// run of characters other than ASCII letters, digits, underscores and hyphens becomes an underscore, and so does a
// hyphen before a number at the end. Underscores and hyphens at both ends are removed. The result is "" if nothing
// remains.
func allowedName(text string) string {
	return strings.Trim(numbered.ReplaceAllString(notInVariables.ReplaceAllString(text, "_"), "_$1"), "_-")
}

// variableNames is the set of the names that the variables, inputs and secrets of one template have. Its method choose
// returns a name that is not in the set yet and adds it to the set. The zero value is not usable, because its maps are
// nil.
type variableNames struct {
	taken    map[string]bool // the names that the manifest contains or choose has returned
	suffixes map[string]int  // the number of suffixes that choose has tried, by the name without a suffix
}

// choose returns a name for the value at a path of keys that is not taken, and marks it as taken. The name is the last
// key, preceded by as many of the other keys as are needed, and followed by a number from 2 on if even the whole path
// is taken; underscores join these parts. For the path ["db", "password"] it is the first of password, db_password,
// db_password_2, db_password_3 and so on that is not taken.
//
// The name is allowed for an input or a secret; see allowedName for the characters that are replaced. If the path has
// no key with an ASCII letter or a digit, the name is "secret", with a number if necessary.
func (n *variableNames) choose(path []string) string {
	name := ""
	for _, key := range slices.Backward(path) {
		if name = allowedName(strings.TrimSuffix(key+"_"+name, "_")); name != "" && !n.taken[name] {
			break
		}
	}
	name = cmp.Or(name, "secret")
	unique := name
	for n.taken[unique] {
		n.suffixes[name]++
		unique = name + "_" + strconv.Itoa(n.suffixes[name]+1)
	}
	n.taken[unique] = true
	return unique
}

// replaceVariables is a visitor that replaces each reference ((name)) in a scalar, which may be a value or a key, by
// the reference that templateReference returns for the template. templateReference also records the variable in
// a.unknown or a.references where necessary, and adds notes and errors to a. path decides whether a reference that is
// the whole value is a secret. A reference with an error is kept.
func (a *adoption) replaceVariables(path []string, node, _ *yaml.Node) {
	secret := path != nil && namedSecret(path)
	node.Value = vars.Reference.ReplaceAllStringFunc(node.Value, func(reference string) string {
		return a.templateReference(node, reference, secret && reference == node.Value)
	})
}

// templateReference returns the reference for the template that replaces a reference of the manifest, such as
// ((db.password)). The parameter reference and the result include the parentheses. node is the scalar that contains the
// reference; it is not changed, and its position is that of notes and errors. secret means that the reference is the
// whole value of a property whose name denotes a secret. The first of these rules that applies decides:
//
//   - A secret that the broker stores for an adapter (odb_secret:NAME or /odb/.../NAME) is added to a.unknown as a
//     secret, whatever the parameter secret is. Its reference becomes ((NAME)), without keys and without a number such
//     as -2 at the end of NAME. If that name is taken or not allowed, a unique variation of it is used.
//   - A reference that BOSH cannot interpolate is kept, and an error is added to a.faults.
//   - A variable that the manifest declares keeps its reference, and so does a generated secret in a.secrets.
//   - An absolute CredHub path such as ((/ca.certificate)) keeps its reference. When the path is first used, it is
//     added to a.references, without keys such as certificate, and gets a note.
//   - Any other variable is added to a.unknown, with the keys of the reference. A reference without keys marks it as a
//     secret if the parameter secret is true. Its reference keeps the keys and the name. A name that is not allowed in
//     a definition is replaced by a new unique one.
func (a *adoption) templateReference(node *yaml.Node, reference string, secret bool) string {
	name, keys := vars.Split(reference)
	preferred := name
	_, reason := vars.ReferenceName(reference, reference == node.Value)
	switch brokerSecret := ofBroker.FindStringSubmatch(name); {
	case brokerSecret != nil:
		// The number is the suffix of a changed value, and not a part of the secret's name.
		preferred, keys, secret = numbered.ReplaceAllString(brokerSecret[2], ""), "", true
	case reason != "":
		a.errorf(node, "%s %s; a manifest of spruce or another tool must be merged first", reference, reason)
		return reference
	case a.declared[name], a.secrets[name]:
		return reference
	case strings.HasPrefix(name, "/"):
		if !a.referenced[name] {
			a.referenced[name] = true
			a.references = append(a.references, name)
			a.notef(node, "decide: %s is a credential of CredHub, which the operator must allow", reference)
		}
		return reference
	}
	unknown := a.unknown[name]
	if unknown == nil {
		unknown = &undeclared{allowedName(preferred), node, false, map[string]bool{}}
		if unknown.name != name {
			unknown.name = a.names.choose([]string{preferred})
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

// declareUnknown declares each variable in a.unknown, sorted by their names in the manifest, and adds a note for
// each, and a second one for a certificate. It declares them under their names in the template, which
// replaceVariables must have written into all references before. A variable that is never used with keys and is a
// secret, by its use or its name, becomes a generated secret of the definition: its name is added to a.secrets. A
// variable with keys for which generatedKind returns a type becomes a variable that BOSH generates, in the section
// variables of the template; see declareVariable.
//
// Any other variable becomes a required plan input in a.inputs, whose value in the generated plan is a placeholder that
// the author must replace. The type of the input is "string", with the placeholder "change-me", or "object" if the
// variable is used with keys, with the placeholder as the value of each key.
func (a *adoption) declareUnknown() {
	for _, nameInManifest := range value.Keys(a.unknown) {
		unknown := a.unknown[nameInManifest]
		name, kind := unknown.name, generatedKind(unknown.keys)
		switch {
		case len(unknown.keys) == 0 && (unknown.secret || namedSecret([]string{name})):
			a.secrets[name] = true
			a.notef(unknown.first, "((%s)): a secret; the definition now generates it", name)
		case kind != "":
			a.notef(unknown.first,
				"((%s)): not declared in the manifest; BOSH now generates it as a variable of type %s", name, kind)
			a.declareVariable(unknown.first, name, kind)
		default:
			planInput := input{
				Name: name, Type: "string", Required: true, Details: "The value of ((" + name + "))",
				Value: changeMe,
			}
			if len(unknown.keys) > 0 {
				fields := map[string]any{}
				for key := range unknown.keys {
					setNested(fields, key, changeMe)
				}
				planInput.Type, planInput.Value = "object", string(value.MustJSON(fields))
			}
			a.inputs = append(a.inputs, planInput)
			a.notef(unknown.first, "decide: ((%s)) is now an input of plans; its value in the plan is %s", name,
				changeMe)
		}
	}
}

// generatedKinds are the types of the variables that BOSH generates, by a key that such a variable has. The first key
// that is used decides.
var generatedKinds = []struct{ key, kind string }{ //nolint:gochecknoglobals // a constant table
	{"certificate", "certificate"},
	{"ca", "certificate"},
	{"public_key_fingerprint", "ssh"},
	{"private_key", "rsa"},
	{"public_key", "rsa"},
	{"password", "user"},
}

// generatedKind returns the type of the BOSH variable that has these keys: "certificate" if certificate or ca is among
// them, otherwise "ssh" for public_key_fingerprint, "rsa" for private_key or public_key, or "user" for password. The
// first of these rules that matches decides. It returns "" if none of the keys matches, or if there are none, because
// BOSH generates no such variable.
func generatedKind(keys map[string]bool) string {
	for _, candidate := range generatedKinds {
		if keys[candidate.key] {
			return candidate.kind
		}
	}
	return ""
}

// declareVariable appends a variable that BOSH generates to the section variables of the template, and adds its name to
// a.declared. kind is the type of the variable: certificate, rsa, ssh or user. A missing section is created, and a
// section that is not a list is replaced. A certificate is declared as a self-signed authority, with a note for the
// author at the position of node, a scalar that uses the variable. For other types, node is not used.
func (a *adoption) declareVariable(node *yaml.Node, name, kind string) {
	list := get(a.root, "variables")
	if list == nil || list.Kind != yaml.SequenceNode {
		list = &yaml.Node{Kind: yaml.SequenceNode}
		yamltree.Set(a.root, "variables", list)
	}
	entry := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
		textNode("name"), textNode(name), textNode("type"), textNode(kind),
	}}
	if kind == "certificate" {
		options := &yaml.Node{}
		_ = options.Encode(map[string]any{"is_ca": true, "common_name": name}) // a plain mapping
		yamltree.Set(entry, "options", options)
		a.notef(node, "decide: who signs the certificate %q, and for which names; for now it is self-signed", name)
	}
	list.Style &^= yaml.FlowStyle
	list.Content = append(list.Content, entry)
	a.declared[name] = true
}
