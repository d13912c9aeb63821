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

// A deployedInstance describes the deployed instance by its manifest: the text, the adapter's record in it, and, if
// another adapter generated it, the values that carry_over reads from it. On create, the manifest is empty and exists
// returns false. readPrevious returns deployedInstances; the zero value is like one on create, but its methods that
// parse the manifest, list and group, panic.
type deployedInstance struct {
	// text is the deployed manifest. It is empty on create.
	text string
	// record is the record in the manifest. It is zero on create and if another adapter generated the manifest.
	record record.InstanceRecord
	// carried are the values that carry_over reads from the manifest of another adapter. It is nil if there is no such
	// manifest.
	carried instance.Carried
	// root parses the manifest on its first call and returns it. The result is nil without an error on create, and if
	// the manifest is not a mapping. The manifest may be large, so it is parsed only if something in it is needed.
	root func() (map[string]any, error)
}

// readPrevious returns the deployed instance of a request; on create, that is an instance without a manifest. If the
// deployed manifest has no record, because another adapter generated it, readPrevious parses it and reads the values
// that the section carry_over of bosh selects. A manifest with a record is not parsed until root is called, so its
// faults are not errors here. bosh must not be nil.
//
// readPrevious returns an error only for a manifest without a record: if it is not valid YAML or is not a mapping with
// at least one key, if a path of carry_over that is read has an invalid syntax, or if a selected value that is neither
// a secret nor a reference of the definition contains a BOSH reference. The instance must not be used then; without an
// error it is never nil.
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

// hasOutputs reports whether the record of the deployed manifest contains a result of the provision template, even one
// without outputs. generate-manifest has then applied the template. The result is false on create, if the instance was
// generated without a template, and if an errand or another adapter built the instance.
func (d *deployedInstance) hasOutputs() bool { return d.record.Template != nil }

// list returns the mappings in the list with this key at the top level of the deployed manifest, such as "stemcells".
// Callers must not modify them. It returns nil on create, if the manifest has no such list or the list no mappings, and
// if the manifest cannot be parsed. The first call may parse the manifest.
func (d *deployedInstance) list(key string) []map[string]any {
	root, _ := d.root()
	return value.Mappings(root[key])
}

// group returns the instance group of this name in the deployed manifest, which callers must not modify. It returns nil
// on create, if the manifest has no such group, and if the manifest cannot be parsed. The first call may parse the
// manifest.
func (d *deployedInstance) group(name string) map[string]any {
	root, _ := d.root()
	return byName(root["instance_groups"])[name]
}

// refersTo reports whether the text of the deployed manifest contains a reference to the CredHub credential at an
// absolute path, as ((PATH)), or to a part of it, as ((PATH.KEY)). References with blanks or "!" are not recognised. It
// returns false on create.
func (d *deployedInstance) refersTo(path string) bool {
	return strings.Contains(d.text, "(("+path+"))") || strings.Contains(d.text, "(("+path+".")
}

// absoluteReference matches a reference to an absolute path of at least three segments. The groups are the path up to
// the last two segments, and these two segments.
var absoluteReference = regexp.MustCompile(`\(\((/[^()\s]+)/([^()/\s]+)/([^()/\s]+)\)\)`)

// storedReferences returns the references in the deployed manifest that the broker generated for ((odb_secret:NAME)),
// by NAME. Such a reference has the form ((/odb/SERVICE_ID/DEPLOYMENT/NAME)) and is returned with its parentheses. It
// is recognised by its last two segments: the deployment must be equal to the argument. If several references have the
// same NAME, one with this serviceID takes precedence, otherwise the first in the text is returned. The map is never
// nil; it is empty on create and if the manifest has no such references.
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
