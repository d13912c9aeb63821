package lint

import (
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
	"service-adapter/internal/yamltree"
)

// A locator finds the positions in the BOSH templates of a service that generated a part of a manifest. A locator
// without documents finds none.
type locator struct {
	documents []templateDocument // the manifest template, the ops files in their order, and the BOSH configs
}

// A location is the node of a template that generated a part of a manifest or, if no template contains that part, its
// nearest ancestor. The field pos is the position of the node's key in a mapping, or of the node itself if it is an
// entry of a list, the root of a template or the value of an operation. The field depth is the number of steps of the
// part's path that the node covers; 0 denotes the root of a template, usually of the manifest template. A depth of -1,
// with a zero pos and a nil value, means that no template contains any part of the path.
type location struct {
	pos diag.Pos
	// value is the node: the value of the key, or the entry of the list.
	value *yaml.Node
	// depth is the number of steps of the path that lead to the node. It is 0 for the root of a template.
	depth int
}

// locate returns the location in the templates that generated a part of a manifest. path leads to that part from the
// root of the manifest: it has a step for each key, and "name=NAME" for an entry of a list. If several templates have
// the part, the result is in the first. If no template has it, because an input contains it, the result is the nearest
// ancestor that a template has. The field depth of the result is the number of steps of path that lead to it. It is 0
// if only the root of a template, usually the manifest template, is an ancestor, and -1 if no ancestor exists, because
// no template is a mapping.
//
// If no template names the instance group in a path of at least four steps, locate searches the part in the other
// groups of the manifest template, because instance_groups of a definition can copy groups, and ops files can rename
// them. It accepts another group only if that has at least the first four steps of path, such as the job.
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

// groups returns the names of the instance groups in the manifest template, in its order. Groups that ops files add are
// not included. The result is nil if there are none.
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

// exact returns the location of a path as locate does, but without searching for groups with other names. If no
// template has the path, it is that of the nearest ancestor, whose depth is the number of its steps. If no template
// contains even an ancestor, the depth is -1, pos the zero value and value nil.
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

// descend follows path below the node value, which corresponds to the first depth steps of path, and returns the
// location of the last node that exists. Its position is that of the key of that node, or of the node itself in a list.
// key is the node whose position is used if no further step exists. best is the deepest location of earlier documents;
// descend returns it unchanged unless the new location is deeper.
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

// covers reports whether the operation of an ops file sets the part of a manifest at path, or an ancestor of it. path
// has a step for each key, and "name=NAME" for an entry of a list. depth is the number of its steps that lead to the
// value of the operation, and 0 if isCovered is false. A step of the operation that is a position in a list, such as
// "-", "0" or "name=web:after", matches every step "name=NAME" of path. As the last step of the operation, it matches
// only if the value has the key name with that NAME.
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

// hasName reports whether a node is a mapping whose key name has the value NAME, for a step of the form "name=NAME".
func hasName(node *yaml.Node, step string) bool {
	_, name := yamltree.Get(node, "name")
	return name != nil && step == "name="+name.Value
}

// isComputed reports whether the value at the location is a scalar that contains a variable such as ((name)). It
// returns false for a mapping, a list and a location without a value.
func (l location) isComputed() bool {
	return l.value != nil && l.value.Kind == yaml.ScalarNode && isVariable(l.value.Value)
}

// isVariable reports whether the text of a value of a manifest contains "((", the beginning of a variable such as
// ((name)), so that its real value is not known. A mapping or list is searched as JSON.
func isVariable(item any) bool { return strings.Contains(value.Text(item), "((") }
