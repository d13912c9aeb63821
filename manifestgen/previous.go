package manifestgen

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"gopkg.in/yaml.v2"

	"service-adapter/brokerpak"
	"service-adapter/internal/instance"
	"service-adapter/internal/record"
	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// A deployedInstance describes the deployed instance by its manifest. It is empty on create; see exists.
type deployedInstance struct {
	// text is the deployed manifest. It is empty on create.
	text string
	// record is the record in the manifest. It is zero on create and if another adapter generated the manifest.
	record record.InstanceRecord
	// carried are the values that carry_over reads from the manifest of another adapter. It is nil if there is no such
	// manifest.
	carried instance.Carried
	// root parses the manifest on its first call and returns it. The manifest may be large, so it is parsed only if
	// something in it is needed.
	root func() (map[string]any, error)
}

// readPrevious returns the deployed instance of a request. On create, it is empty. If the deployed manifest has no
// record, values are read from it as the definition's carry_over says. It returns an error if such a manifest cannot be
// parsed or is not a BOSH manifest, if a path of carry_over is invalid, or if a carried value that is neither a secret
// nor a reference of the definition contains a BOSH reference. A manifest with a record is not parsed until root is
// called.
func readPrevious(bosh *brokerpak.Bosh, request Request) (*deployedInstance, error) {
	text := request.PreviousManifest
	previous := &deployedInstance{text: text, root: sync.OnceValues(func() (map[string]any, error) {
		var raw any
		if err := yaml.Unmarshal([]byte(text), &raw); err != nil {
			return nil, fmt.Errorf("reading the previous manifest: %w", err)
		}
		root, _ := value.Normalise(raw).(map[string]any)
		return root, nil
	})}
	if !previous.exists() {
		return previous, nil
	}
	if request.Record != nil {
		previous.record = *request.Record
		return previous, nil
	}
	root, err := previous.root()
	if err != nil {
		return nil, err
	}
	if len(root) == 0 {
		return nil, errors.New("reading the previous manifest: it is not a BOSH manifest")
	}
	previous.carried, err = instance.CarryOver(bosh, value.AnyKeys(root, nil))
	for _, name := range value.Keys(previous.carried) {
		if !bosh.HasSecret(name) && !bosh.HasReference(name) && vars.HasReference(previous.carried[name]) {
			return nil, fmt.Errorf("carry_over of %q: the previous manifest has a reference there; "+
				"make the input a secret", name)
		}
	}
	return previous, err
}

// exists reports whether the instance is deployed. It is false on create.
func (d *deployedInstance) exists() bool { return len(d.text) > 0 }

// hasOutputs reports whether the deployed manifest records outputs of the provision template, so that the template has
// been applied.
func (d *deployedInstance) hasOutputs() bool { return d.record.Template != nil }

// list returns the mappings in a list at the top level of the manifest, which callers must not modify. It returns nil
// on create, if there is no such list, and if the manifest cannot be parsed.
func (d *deployedInstance) list(key string) []map[string]any {
	root, _ := d.root()
	return value.Mappings(root[key])
}

// group returns the instance group of this name in the deployed manifest, which callers must not modify. It returns nil
// on create, if there is none, and if the manifest cannot be parsed.
func (d *deployedInstance) group(name string) map[string]any {
	root, _ := d.root()
	return byName(root["instance_groups"])[name]
}

// refersTo reports whether the deployed manifest refers to the credential at an absolute path, or to a part of it.
func (d *deployedInstance) refersTo(path string) bool {
	return strings.Contains(d.text, "(("+path+"))") || strings.Contains(d.text, "(("+path+".")
}

// absoluteReference matches a reference to an absolute path of at least three segments. The groups are the path up to
// the last two segments, and these two segments.
var absoluteReference = regexp.MustCompile(`\(\((/[^()\s]+)/([^()/\s]+)/([^()/\s]+)\)\)`)

// storedReferences returns the references in the deployed manifest that the broker generated for ((odb_secret:NAME)),
// by name. A reference includes its parentheses. It is recognised by its last two segments, which are the deployment
// and the name. If there are several for the same name, a reference of this service takes precedence. The map is empty
// on create.
func (d *deployedInstance) storedReferences(deployment, serviceID string) map[string]string {
	references := map[string]string{}
	for _, match := range absoluteReference.FindAllStringSubmatch(d.text, -1) {
		reference, name := match[0], match[3]
		if match[2] != deployment {
			continue
		}
		if _, exists := references[name]; !exists || match[1] == "/odb/"+serviceID {
			references[name] = reference
		}
	}
	return references
}
