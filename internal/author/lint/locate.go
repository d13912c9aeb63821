package lint

import (
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// A locator finds the places in the BOSH templates of a service that generated a part of a manifest.
type locator struct {
	documents []templateDocument // the manifest template, and the ops files in their order
}

// A location is the place in a template that is nearest to a part of a manifest. A depth of -1, with a zero pos and a
// nil value, means that no template contains any part of the path.
type location struct {
	pos diag.Pos
	// value is the node at the place: the value of the key, or the entry of the list.
	value *yaml.Node
	// depth is the number of steps of the path that lead to the place. It is 0 for the root of the manifest template.
	depth int
}

// locate returns the place in the templates that generated a part of a manifest. path has a step for each key, and
// "name=NAME" for an entry of a list. If several templates have the part, the place is in the first. If none has it,
// because an input contains it, the place is that of the nearest ancestor. An instance group that no template names is
// looked up by its job, because instance_groups of a definition can copy groups, and ops files can rename them. There
// must be at least one document.
func (l *locator) locate(path []string) location {
	best := l.exact(path)
	if best.depth >= 2 || len(path) < 4 || path[0] != "instance_groups" {
		return best
	}
	for _, name := range l.groups() {
		renamed := append([]string{path[0], "name=" + name}, path[2:]...)
		if other := l.exact(renamed); other.depth >= 4 && other.depth > best.depth {
			best = other
		}
	}
	return best
}

// groups returns the names of the instance groups in the manifest template, in its order. Those that ops files add are
// not included.
func (l *locator) groups() []string {
	var names []string
	for _, document := range l.documents {
		_, groups := yamltree.Get(document.root, "instance_groups")
		if groups == nil {
			continue
		}
		for _, group := range groups.Content {
			if _, name := yamltree.Get(group, "name"); name != nil {
				names = append(names, name.Value)
			}
		}
	}
	return names
}

// exact returns the place of a path, as locate does, without looking for groups with other names. The depth of the
// result is -1, and its position the zero value, if there is not even an ancestor.
func (l *locator) exact(path []string) location {
	best := location{depth: -1}
	for _, document := range l.documents {
		if document.root.Kind == yaml.MappingNode {
			best = document.descend(document.root, document.root, path, 0, best)
		}
		for _, operation := range operations(document.root) {
			if depth, ok := operation.covers(path); ok {
				best = document.descend(operation.added, operation.added, path, depth, best)
			}
		}
	}
	return best
}

// descend follows a path from its step at depth on, below the node value, and returns the location of the last node
// that exists. If best is at least as deep, it returns best instead. key is the node whose position stands for value.
func (d templateDocument) descend(key, value *yaml.Node, path []string, depth int, best location) location {
	for depth < len(path) {
		next := child(value, path[depth])
		if next == nil {
			break
		}
		key = next
		if name, _ := yamltree.Get(value, path[depth]); name != nil {
			key = name
		}
		value, depth = next, depth+1
	}
	if depth <= best.depth {
		return best
	}
	return location{d.At(key.Line, key.Column), value, depth}
}

// covers reports whether the operation sets the part of a manifest at a path or an ancestor of it, and returns the
// number of steps of the path that lead to the value of the operation, or 0. A step of the operation that is a position
// in a list, such as "-" or "0", matches every step "name=NAME" of the path; but as the last step of the operation, it
// matches only if the value has that name.
func (o operation) covers(path []string) (depth int, isCovered bool) {
	steps := strings.Split(strings.TrimPrefix(o.path, "/"), "/")
	if len(steps) > len(path) {
		return 0, false
	}
	for i, step := range steps {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(strings.TrimSuffix(step, "?"))
		last := i == len(steps)-1
		switch entry := namedEntry.MatchString(path[i]); {
		case step == path[i]:
		case !entry || !position.MatchString(step):
			return 0, false
		case last && !hasName(o.added, path[i]):
			return 0, false // another entry of the list
		}
	}
	return len(steps), true
}

// namedEntry matches the step of a path to an entry of a list, and position a step of an ops file to a position in a
// list, such as "-", "0" or "name=bpm:before".
var (
	namedEntry = regexp.MustCompile(`^name=`)
	position   = regexp.MustCompile(`^(-|-?[0-9]+|.+:(before|after|prev|next))$`)
)

// hasName reports whether a node is a mapping with the name in a step "name=NAME".
func hasName(node *yaml.Node, step string) bool {
	_, name := yamltree.Get(node, "name")
	return name != nil && step == "name="+name.Value
}

// isComputed reports whether the value at the location contains a variable such as ((name)).
func (l location) isComputed() bool {
	return l.value != nil && l.value.Kind == yaml.ScalarNode && isVariable(l.value.Value)
}

// isVariable reports whether a value of a manifest contains a variable such as ((name)), so that its real value is not
// known.
func isVariable(item any) bool { return strings.Contains(value.Text(item), "((") }
