package build

import (
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A carriedSecret is an entry of carry_over: a generated secret and the go-patch path of its value in a manifest that
// another adapter deployed.
type carriedSecret struct{ Name, Path string }

// addressable matches keys and names that a path can contain as they are. Others have a meaning in paths, such as
// numbers, or would have to be escaped.
var addressable = regexp.MustCompile(`^[A-Za-z0-9_.-]*[A-Za-z_][A-Za-z0-9_.-]*$`)

// carrySecrets fills a.carried with the generated secrets that are the whole value of a property with a path, sorted by
// name; see visitPaths. The template has the same structure as the manifest, so the path of the first such property is
// also the path of the value that the other adapter deployed. Each other secret that the template refers to gets a
// note, because instances of that adapter would get a new value. A secret without a reference is left out silently.
// declareUnknown must run first, because it completes a.secrets.
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

// visitPaths calls visit with each scalar value of a tree, but not with the keys, and with its go-patch path. prefix is
// the path of the tree itself; known is false if it has none. The path of a scalar is "" if it has none, because a key
// above it is not addressable. An item of a list is selected by its name, if the name is addressable and no other item
// has it, and else by its index.
func visitPaths(prefix string, known bool, tree *yaml.Node, visit func(path string, node *yaml.Node)) {
	descend := func(step string, addressed bool, child *yaml.Node) {
		visitPaths(prefix+"/"+step, known && addressed, child, visit)
	}
	switch tree.Kind {
	case yaml.ScalarNode:
		if !known {
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

// itemName returns the name of an item of a list, or "" if the item is not a mapping with a name, or if its name
// contains a variable.
func itemName(item *yaml.Node) string {
	name := get(item, "name")
	if name == nil || strings.Contains(name.Value, "((") {
		return ""
	}
	return name.Value
}

// setNested sets the value at the dotted path of keys in a tree of mappings to leaf, and creates the mappings above it.
// A value on the path that is not a mapping is replaced by one. If there is a mapping at the end of the path, it is
// kept and leaf is not set.
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
