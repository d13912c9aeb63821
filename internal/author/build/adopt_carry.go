package build

import (
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A carriedSecret is an entry of the key carry_over in the generated definition. It lets the pak take over an instance
// that another adapter deployed: Name is the name of a generated secret, and Path is the go-patch path of the secret's
// value in the manifest of that adapter, such as "/instance_groups/name=db/jobs/name=pg/properties/password".
type carriedSecret struct{ Name, Path string }

// addressable matches keys and names that a path can contain as they are. Others have a meaning in paths, such as
// numbers, or would have to be escaped.
var addressable = regexp.MustCompile(`^[A-Za-z0-9_.-]*[A-Za-z_][A-Za-z0-9_.-]*$`)

// carrySecrets appends to a.carried, sorted by name, an entry for each secret in a.secrets whose reference ((name)) is
// the whole value of a scalar with a go-patch path in the template; see visitPaths. The template has the same structure
// as the manifest, so the path of the first such scalar is also the path of the value that another adapter deployed.
//
// Any other secret to which a value of the template refers gets a note at the first such value, because instances of
// that adapter would get a new secret. A secret without a reference in a value is left out silently. References with
// keys, such as ((secret.key)), do not count. declareUnknown must run first, because it completes a.secrets.
func (a *adoption) carrySecrets() {
	paths, users := map[string]string{}, map[string]*yaml.Node{}
	visitPaths("", true, a.root, func(path string, node *yaml.Node) {
		for _, reference := range vars.Reference.FindAllString(node.Value, -1) {
			name, keys := vars.Split(reference)
			if !a.secrets[name] || keys != "" {
				continue
			}
			if users[name] == nil {
				users[name] = node
			}
			if reference == node.Value && path != "" && paths[name] == "" {
				paths[name] = path
			}
		}
	})
	for _, name := range value.Keys(a.secrets) {
		if path := paths[name]; path != "" {
			a.carried = append(a.carried, carriedSecret{name, path})
		} else if node := users[name]; node != nil {
			a.notef(node, "decide: carry_over cannot read the secret %q, "+
				"which is not the whole value of a property here; "+
				"instances that another adapter deployed get a new one", name)
		}
	}
}

// visitPaths calls visit with each scalar value of a tree, in the order of the text, and with its go-patch path, such
// as "/instance_groups/name=db/azs/0". Keys of mappings are not visited. prefix is the path of the tree itself, and ""
// for the root of a manifest. If hasPath is false, the tree has no path, and all scalars below it have the path "".
//
// The path of a scalar is also "" if a key on it is not addressable, which means that a path cannot contain the key as
// it is: it has neither a letter nor an underscore, such as a number, or contains other characters than letters,
// digits, hyphens, underscores and periods. An item of a list is selected by its name, if the name is addressable and
// no other item of the list has it, and otherwise by its index.
func visitPaths(prefix string, hasPath bool, tree *yaml.Node, visit func(path string, node *yaml.Node)) {
	descend := func(step string, addressed bool, child *yaml.Node) {
		visitPaths(prefix+"/"+step, hasPath && addressed, child, visit)
	}
	switch tree.Kind {
	case yaml.ScalarNode:
		if !hasPath {
			prefix = ""
		}
		visit(prefix, tree)
	case yaml.MappingNode:
		for i := 0; i+1 < len(tree.Content); i += 2 {
			key := tree.Content[i].Value
			descend(key, addressable.MatchString(key), tree.Content[i+1])
		}
	case yaml.SequenceNode:
		counts := map[string]int{}
		for _, item := range tree.Content {
			counts[itemName(item)]++
		}
		for i, item := range tree.Content {
			step := strconv.Itoa(i)
			if name := itemName(item); counts[name] == 1 && addressable.MatchString(name) {
				step = "name=" + name
			}
			descend(step, true, item)
		}
	}
}

// itemName returns the value of the key name of an item of a list. It returns "" if the item is not a mapping with that
// key, or if the value contains a variable, that is, the text "((".
func itemName(item *yaml.Node) string {
	name := get(item, "name")
	if name == nil || strings.Contains(name.Value, "((") {
		return ""
	}
	return name.Value
}

// setNested sets the value at a dotted path of keys in a tree of mappings to leaf: with the keys "a.b", tree["a"]["b"].
// It modifies the tree, which must not be nil, and creates the mappings above the value. A value on the path that is
// not a mapping is replaced by a mapping. If the value at the end of the path is a mapping, it is kept and leaf is not
// set.
func setNested(tree map[string]any, keys, leaf string) {
	first, rest, more := strings.Cut(keys, ".")
	child, isMapping := tree[first].(map[string]any)
	switch {
	case !more && !isMapping:
		tree[first] = leaf
	case more && !isMapping:
		child = map[string]any{}
		tree[first] = child
		fallthrough
	case more:
		setNested(child, rest, leaf)
	}
}
