package manifestgen

import (
	"fmt"
	"regexp"

	"github.com/cppforlife/go-patch/patch"
	"gopkg.in/yaml.v2"

	"service-adapter/internal/value"
)

// oldManifest is the previous manifest. It is parsed only where something in it is needed: it may be large.
type oldManifest struct {
	text   string
	tree   any
	parsed bool
}

// yamlTree parses the manifest as the ops library wants it.
func (o *oldManifest) yamlTree() (any, error) {
	if !o.parsed {
		if err := yaml.Unmarshal([]byte(o.text), &o.tree); err != nil {
			return nil, fmt.Errorf("reading the previous manifest: %w", err)
		}
		o.parsed = true
	}
	return o.tree, nil
}

// find returns the value at a path, nil when there is none.
func (o *oldManifest) find(path string) (any, error) {
	pointer, err := patch.NewPointerFromString(path)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", path, err)
	}
	tree, err := o.yamlTree()
	if err != nil {
		return nil, err
	}
	found, err := patch.FindOp{Path: pointer}.Apply(tree)
	if err != nil {
		return nil, nil //nolint:nilerr // the path leads nowhere
	}
	return value.Normalise(found), nil
}

// root is the manifest as package value has it; nil when there is none.
func (o *oldManifest) root() (any, error) {
	tree, err := o.yamlTree()
	if err != nil {
		return nil, err
	}
	return value.Normalise(tree), nil
}

var absoluteReference = regexp.MustCompile(`\(\((/[^()\s]+)/([^()/\s]+)/([^()/\s]+)\)\)`)

// storedReferences finds the references that the broker made of ((odb_secret:NAME)), recognised by their last two segments:
// deployment and name. It returns name → reference with its parentheses. Of several for one name, that of this service wins.
func (o *oldManifest) storedReferences(deployment, serviceID string) map[string]string {
	references := map[string]string{}
	for _, found := range absoluteReference.FindAllStringSubmatch(o.text, -1) {
		reference, name := found[0], found[3]
		if found[2] != deployment {
			continue
		}
		if _, taken := references[name]; !taken || found[1] == "/odb/"+serviceID {
			references[name] = reference
		}
	}
	return references
}
