package pakbuild

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak/vars"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

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
