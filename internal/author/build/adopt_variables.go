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

// An undeclared is a variable that the manifest uses but does not declare.
type undeclared struct {
	name   string          // the name of the variable in the template
	first  *yaml.Node      // the first scalar that uses it
	secret bool            // whether it is a secret of the broker, or the value of a property whose name means a secret
	keys   map[string]bool // the keys of the variable that are used, such as certificate
}

// collectNames adds the names of all variables of the manifest, declared or only used, to a.names. It adds those that
// the manifest declares to a.declared as well.
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

// allowedName returns a text in a form that is allowed as the name of an input or a secret: each run of other
// characters becomes an underscore, and so does a hyphen before a number at the end. Underscores and hyphens at both
// ends are removed. The result may be empty.
func allowedName(text string) string {
	return strings.Trim(numbered.ReplaceAllString(notInVariables.ReplaceAllString(text, "_"), "_$1"), "_-")
}

// variableNames are the names of the variables of a template. They are unique.
type variableNames struct {
	taken    map[string]bool // the names that the manifest contains or choose has returned
	suffixes map[string]int  // the number of suffixes that choose has tried, by the name without a suffix
}

// choose returns a name that is not taken, and marks it as taken. The name is the last key of the path, preceded by as
// many of the other keys as are needed to be unique, and followed by a number if even the whole path is taken, all
// joined by underscores. It can be the name of an input or a secret: other characters are replaced, see allowedName. If
// nothing that is allowed remains of the path, the name is "secret", with a number if necessary.
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

// replaceVariables is a visitor that replaces the references in a scalar by those of the template. See
// templateReference.
func (a *adoption) replaceVariables(path []string, node, _ *yaml.Node) {
	secret := path != nil && namedSecret(path)
	node.Value = vars.Reference.ReplaceAllStringFunc(node.Value, func(reference string) string {
		return a.templateReference(node, reference, secret && reference == node.Value)
	})
}

// templateReference returns the reference of the template that replaces a reference of the manifest. The result is the
// same, except for an undeclared variable whose name a definition cannot have, such as a secret that the broker stores:
// that variable gets a new name, which is unique in the template. An undeclared variable is added to a.unknown, and a
// CredHub path to a.references with a note. node is the scalar that contains the reference. secret means that the
// reference is the whole value of a property whose name means a secret; a secret that the broker stores counts as a
// secret in any case, and its reference loses its keys. For a reference that BOSH cannot interpolate, templateReference
// adds an error and returns the reference unchanged.
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

// declareUnknown declares each variable in a.unknown, and adds a note. A variable without keys that is a secret, or
// whose name means one, becomes a generated secret of the definition in a.secrets. A variable with keys for which
// generatedKind returns a type becomes a variable in the template that BOSH generates. Any other variable becomes an
// input of plans in a.inputs, whose value in the plan the author must change.
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

// generatedKind returns the type of the BOSH variable to which references with these keys belong, such as "certificate"
// for the key "ca". The first entry of generatedKinds whose key is among them decides. It returns "" if there is none,
// because BOSH generates no such variable.
func generatedKind(keys map[string]bool) string {
	for _, candidate := range generatedKinds {
		if keys[candidate.key] {
			return candidate.kind
		}
	}
	return ""
}

// declareVariable adds a variable that BOSH generates to the section variables of the template and to a.declared. It
// replaces the section if that is not a list. kind is the type of the variable. A certificate is declared as a
// self-signed authority, with a note for the author at the position of node.
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
