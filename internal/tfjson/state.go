// Package tfjson decodes the JSON that OpenTofu prints: states and plans ("tofu show -json") and the schemas of
// providers ("tofu providers schema -json"). It decodes only the parts that imports, previews and drift detection need.
package tfjson

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"service-adapter/internal/value"
)

// A State contains the managed resources of the root module in the order of the document: one Resource for each object,
// so several for a resource with count or for_each. Data sources, deposed objects and resources of other modules are
// left out. An empty State may be nil.
type State []Resource

// A Resource is one object of a managed resource in a state: its type and name, the address of its provider, and its
// attributes and nested blocks (Values), with sensitive values in the clear. Numbers in the values are json.Number.
// Index is the instance key: a json.Number for count, a string for for_each, and nil for neither. Sensitive has the
// shape of Values, with true in place of each sensitive value (see IsSensitive); nil means that none is sensitive. In a
// State, Mode is always "managed" and Deposed "".
type Resource struct {
	Mode    string `json:"mode"`
	Deposed string `json:"deposed_key"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	// Index is the instance key: a json.Number for count, a string for for_each, and nil for neither.
	Index any `json:"index"`
	// Provider is the address of the provider, such as "registry.opentofu.org/hashicorp/random".
	Provider string `json:"provider_name"`
	// Values are the attributes and nested blocks by name, including sensitive values in the clear. Numbers are
	// json.Number, so that they keep all digits.
	Values map[string]any `json:"values"`
	// Sensitive marks the sensitive parts of Values. It has the same shape, with true in place of each sensitive value;
	// most other values are left out.
	Sensitive any `json:"sensitive_values"`
}

// Address returns "type.name", such as "aws_instance.web", the address of the resource without the instance key.
func (r Resource) Address() string { return r.Type + "." + r.Name }

// DecodeState decodes the output of "tofu show -json" for a state. It leaves out data sources, deposed objects and
// resources of modules other than the root module. The result has no elements, and may be nil, if the state is empty.
// DecodeState returns nil and an error if showJSON is not exactly one valid JSON document, if a field has another type,
// or if a resource is nested deeper than value.MaxDepth, 100 levels. The error contains no values of the state.
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
	isOther := func(r Resource) bool { return r.Mode != "managed" || r.Deposed != "" }
	resources := slices.DeleteFunc(document.Values.RootModule.Resources, isOther)
	for _, r := range resources {
		if value.Depth(r.Values) > value.MaxDepth || value.Depth(r.Sensitive) > value.MaxDepth {
			return nil, fmt.Errorf("reading the state that OpenTofu shows: %s is nested deeper than %d levels",
				r.Address(), value.MaxDepth)
		}
	}
	return resources, nil
}

// Find returns a pointer to a copy of the only object of the resource with an address, "type.name". It returns nil
// without an error if the state does not contain the resource, and nil and an error if the resource has several
// objects, as count and for_each create them. The values of the copy are shared with s.
func (s State) Find(address string) (*Resource, error) {
	objects := slices.DeleteFunc(slices.Clone(s), func(r Resource) bool { return r.Address() != address })
	switch len(objects) {
	case 0:
		return nil, nil
	case 1:
		return &objects[0], nil
	default:
		return nil, fmt.Errorf("the state has several objects of the resource %s", address)
	}
}

// Attribute returns the value at a tf_attribute path, TYPE.NAME.ATTRIBUTE. Further parts of the path lead into the
// attribute: the key of a map, the attribute of a nested block, or the index of a list. The index may be omitted if
// the list has one element; a path that ends at a list returns the whole list. The value is converted by
// value.Normalise, which may round numbers; it is nil, without an error, if the state contains no such resource or
// value. sensitive reports whether any part of ATTRIBUTE is sensitive, even if the path leads to another part of it.
//
// Attribute returns nil, false and an error if the path has fewer than three parts or an empty one, if it lacks the
// index into a list of several elements, if the resource has several objects, or if the converted value contains an
// integer of more than 64 bits or an infinity, which replaces a number beyond float64.
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

// IsSensitive reports whether any part of a value is sensitive. marks are the sensitivity marks of the value, as
// OpenTofu writes them: true for a sensitive value, or a map or list that contains the marks of the elements. It
// returns false for nil, which means that no part is sensitive, and for values of any other type.
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

// step returns the value at one part of a path within a value v: at the key part of a map, or at the decimal index part
// of a list. In a list of one element, a part that is not an index is applied to that element. step returns nil without
// an error if the key or index does not exist, if the list is empty, or if v is neither a map nor a list. It returns
// nil and an error if v is a list of several elements and part is not an index.
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
