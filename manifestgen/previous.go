package manifestgen

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/brokerpak/instance"
	"service-adapter/brokerpak/vars"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
)

// previous is the deployed instance, as its manifest tells.
type previous struct {
	// text is the manifest; empty on create.
	text string
	// record is empty on create and for manifests of other adapters.
	record record.Record
	// carried are the values that carry_over finds in the manifest of another adapter; else nil.
	carried instance.Carried
	// root parses the manifest, once, where something in it is needed: it may be large.
	root func() (map[string]any, error)
}

// readPrevious finds what the previous manifest remembers.
func readPrevious(bosh *brokerpak.Bosh, request Request) (*previous, error) {
	text := request.PreviousManifest
	before := &previous{text: text, root: sync.OnceValues(func() (map[string]any, error) {
		var raw any
		if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
			return nil, fmt.Errorf("reading the previous manifest: %w", err)
		}
		root, _ := value.Normalise(raw).(map[string]any)
		return root, nil
	})}
	if !before.exists() {
		return before, nil
	}
	if request.Record != nil {
		before.record = *request.Record
		return before, nil
	}
	root, err := before.root()
	if err != nil {
		return nil, err
	}
	if len(root) == 0 {
		return nil, errors.New("reading the previous manifest: it is no BOSH manifest")
	}
	before.carried, err = instance.CarryOver(bosh, value.AnyKeys(root, nil))
	for _, name := range value.Keys(before.carried) {
		if !bosh.HasSecret(name) && !bosh.HasReference(name) && vars.HasReference(before.carried[name]) {
			return nil, fmt.Errorf("carry_over of %q: the previous manifest has a reference there; make the input a secret", name)
		}
	}
	return before, err
}

// exists tells whether the instance is deployed.
func (p *previous) exists() bool { return len(p.text) > 0 }

// remembers tells whether the manifest has outputs of the provision template.
func (p *previous) remembers() bool { return p.record.Template != nil }

// list returns the entries of a list of the manifest that are mappings. A manifest that cannot be read has none.
func (p *previous) list(key string) []map[string]any {
	root, _ := p.root()
	return value.Mappings(root[key])
}

// group returns an instance group of the manifest, nil where it has none of that name.
func (p *previous) group(name string) map[string]any {
	root, _ := p.root()
	return byName(root["instance_groups"])[name]
}

// refersTo tells whether the manifest refers to an absolute path.
func (p *previous) refersTo(path string) bool {
	return strings.Contains(p.text, "(("+path+"))") || strings.Contains(p.text, "(("+path+".")
}

var absoluteReference = regexp.MustCompile(`\(\((/[^()\s]+)/([^()/\s]+)/([^()/\s]+)\)\)`)

// storedReferences finds the references that the broker made of ((odb_secret:NAME)), recognised by their last two segments:
// deployment and name. It returns name → reference with its parentheses. Of several for one name, that of this service wins.
func (p *previous) storedReferences(deployment, serviceID string) map[string]string {
	references := map[string]string{}
	for _, found := range absoluteReference.FindAllStringSubmatch(p.text, -1) {
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
