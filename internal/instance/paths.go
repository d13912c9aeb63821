package instance

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cppforlife/go-patch/patch"
	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
	"service-adapter/internal/vars"
)

// Get returns the value at a go-patch path of the manifest, such as /instance_groups/name=db/properties/password, with
// references like ((password)) replaced by the values of the secrets. It returns an error if the manifest or the path
// is invalid, if the path does not exist, or if Resolve fails. If the broker did not send the value of a reference, the
// error is a *fault.UserError for the operator. The value must not be used after an error.
func (v *View) Get(path string) (any, error) {
	item, err := v.GetRaw(path)
	if err != nil {
		return nil, err
	}
	return v.resolve(item, path)
}

// getOrDefault implements the function manifest.find. It returns the value at a go-patch path of the manifest like
// Get. It returns defaultValue, which may be nil, if the path is invalid, does not exist or matches several elements,
// and for a value with a reference if Secrets and Resolve are nil, so that no reference has a value. Otherwise, a
// reference without a value is an error as in Get. A manifest that is not valid YAML is always an error.
func (v *View) getOrDefault(path string, defaultValue any) (any, error) {
	if _, err := v.yamlTree(); err != nil {
		return nil, err
	}
	item, err := v.GetRaw(path)
	if err != nil || v.Secrets == nil && v.Resolve == nil && vars.HasReference(item) {
		return defaultValue, nil //nolint:nilerr // the path does not exist
	}
	return v.resolve(item, path)
}

// GetRaw returns a copy of the value at a go-patch path of the manifest, such as /instance_groups/name=db/properties.
// References such as ((password)) are returned as they are in the manifest, and null is returned as nil without an
// error. The path may mark a missing part as optional: a key, as in /releases?, is then nil without an error, and an
// element, as in /releases/name=db?, is a new map that contains only this name.
//
// GetRaw returns nil and an error if the path is invalid, does not exist or matches several elements, or if the
// manifest is not valid YAML. It also fails for an optional key in a value that is not a mapping, such as /releases?
// in an empty manifest, and for an optional element of a value that is not a list. If the path leads into a
// reference, the error explains how to write the manifest instead.
func (v *View) GetRaw(path string) (any, error) {
	pointer, err := patch.NewPointerFromString(path)
	if err != nil {
		return nil, fmt.Errorf("path %q: %w", path, err)
	}
	tree, err := v.yamlTree()
	if err != nil {
		return nil, err
	}
	item, err := patch.FindOp{Path: pointer}.Apply(tree)
	if err != nil {
		return nil, fmt.Errorf("the manifest has no value at %q: %w", path, cmp.Or(intoReference(tree, pointer), err))
	}
	return value.Normalise(item), nil
}

// intoReference returns an error if the path leads into a reference, as /tls/ca does with the reference ((tls)) at
// /tls. Such a path cannot be read, because the broker sends values only for the references that the manifest contains;
// the error suggests to write ((tls.ca)) at its own key. tree is the parsed manifest in the form of yamlTree.
// intoReference returns nil for any other path, also for one that does not exist.
func intoReference(tree any, path patch.Pointer) error {
	tokens := path.Tokens()
	for length := 1; length < len(tokens); length++ {
		prefix := patch.NewPointer(tokens[:length])
		item, err := patch.FindOp{Path: prefix}.Apply(tree)
		if err != nil {
			return nil //nolint:nilerr // the path does not lead into a reference
		}
		if reference, isText := item.(string); isText && IsReference(reference) {
			key := "KEY"
			if next, isKey := tokens[length].(patch.KeyToken); isKey {
				key = next.Key
			}
			part := strings.TrimSuffix(reference, "))") + "." + key + "))"
			return fmt.Errorf("%q is the reference %s; "+
				"write the parts that are read as references of their own, such as %s", prefix, reference, part)
		}
	}
	return nil
}

// yamlTree returns the parsed manifest in the form that go-patch expects, with maps of the type map[any]any. An empty
// manifest is nil without an error. The manifest is parsed at the first call; later calls return the same tree, which
// callers must not modify. yamlTree returns nil and an error if the manifest is not valid YAML.
func (v *View) yamlTree() (any, error) {
	if v.parsed {
		return v.tree, nil
	}
	var raw any
	if err := yaml.Unmarshal(v.Manifest, &raw); err != nil {
		return nil, fmt.Errorf("reading the deployed manifest: %w", err)
	}
	v.tree, v.parsed = value.AnyKeys(value.Normalise(raw), nil), true
	return v.tree, nil
}
