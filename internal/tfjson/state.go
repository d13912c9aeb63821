// Package tfjson reads what OpenTofu prints as JSON: a state ("tofu show -json") and the schemas of providers ("tofu providers
// schema -json"). It reads the parts that an import needs.
package tfjson

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"service-adapter/internal/value"
)

// State is what a state says of the managed resources of the root module, in the order of the document and without deposed objects.
type State []Resource

// Resource is one object of a state.
type Resource struct {
	Mode    string `json:"mode"`
	Deposed string `json:"deposed_key"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	// Index is nil unless the resource has count or for_each.
	Index any `json:"index"`
	// Provider is the address of the provider, such as "registry.opentofu.org/hashicorp/random".
	Provider string `json:"provider_name"`
	// Values are the attributes and nested blocks by name, in the clear. Numbers are json.Number, so that none loses digits.
	Values map[string]any `json:"values"`
	// Sensitive has the shape of Values, with true in the place of whatever is sensitive and without most of the rest.
	Sensitive any `json:"sensitive_values"`
}

// Address is "type.name".
func (r Resource) Address() string { return r.Type + "." + r.Name }

// DecodeState reads the output of "tofu show -json". Errors tell nothing of its values.
func DecodeState(showJSON []byte) (State, error) {
	var document struct {
		Values struct {
			RootModule struct {
				Resources []Resource `json:"resources"`
			} `json:"root_module"`
		} `json:"values"`
	}
	if err := value.Decode(showJSON, &document); err != nil {
		return nil, fmt.Errorf("reading the state that OpenTofu shows: %w", err)
	}
	resources := slices.DeleteFunc(document.Values.RootModule.Resources, func(r Resource) bool { return r.Mode != "managed" || r.Deposed != "" })
	for _, r := range resources {
		if value.Depth(r.Values) > value.MaxDepth || value.Depth(r.Sensitive) > value.MaxDepth {
			return nil, fmt.Errorf("reading the state that OpenTofu shows: %s is nested deeper than %d levels", r.Address(), value.MaxDepth)
		}
	}
	return resources, nil
}

// Find returns the only object of a resource, nil when the state has none. A resource with count or for_each that has several
// objects is an error.
func (s State) Find(address string) (*Resource, error) {
	found := slices.DeleteFunc(slices.Clone(s), func(r Resource) bool { return r.Address() != address })
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return &found[0], nil
	default:
		return nil, fmt.Errorf("the state has several objects of the resource %s", address)
	}
}

// Attribute looks up a tf_attribute, TYPE.NAME.ATTRIBUTE, and tells whether anything in the attribute is sensitive. Parts behind the
// attribute lead into it: the key of a map, the attribute of a nested block, the index of a list; the index may be left out where a
// list has one element. The value is one of package value, and nil where the state has none. The error is about the path, or a value
// that cannot be passed on unchanged.
func (s State) Attribute(path string) (v any, sensitive bool, err error) {
	parts := strings.Split(path, ".")
	if len(parts) < 3 || slices.Contains(parts, "") {
		return nil, false, fmt.Errorf("tf_attribute %q must have the form TYPE.NAME.ATTRIBUTE", path)
	}
	resource, err := s.Find(parts[0] + "." + parts[1])
	if err != nil {
		return nil, false, fmt.Errorf("tf_attribute %q: %w", path, err)
	}
	if resource == nil {
		return nil, false, nil
	}
	v = resource.Values
	for i, part := range parts[2:] {
		if v, err = step(v, part); err != nil {
			return nil, false, fmt.Errorf("tf_attribute %q: %s %w", path, strings.Join(parts[:i+2], "."), err)
		}
	}
	v = value.Normalise(v)
	if err := value.CheckNumbers(v); err != nil {
		return nil, false, fmt.Errorf("tf_attribute %q: %w", path, err)
	}
	marks, _ := resource.Sensitive.(map[string]any)
	return v, IsSensitive(marks[parts[2]]), nil
}

// IsSensitive tells whether anything in a value is sensitive, of which these are the marks.
func IsSensitive(marks any) bool {
	switch c := marks.(type) {
	case bool:
		return c
	case []any:
		return slices.ContainsFunc(c, IsSensitive)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(c)), IsSensitive)
	default:
		return false
	}
}

// step looks up one part of a path in a value; nil where it has none.
func step(v any, part string) (any, error) {
	switch c := v.(type) {
	case map[string]any:
		return c[part], nil
	case []any:
		if i, err := strconv.ParseUint(part, 10, 31); err == nil && int(i) < len(c) {
			return c[i], nil
		} else if err == nil || len(c) == 0 {
			return nil, nil
		}
		if len(c) > 1 {
			return nil, fmt.Errorf("is a list of %d elements, so an index must follow, not %q", len(c), part)
		}
		return step(c[0], part)
	default:
		return nil, nil
	}
}
