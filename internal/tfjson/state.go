// Package tfjson reads what OpenTofu prints as JSON: a state ("tofu show -json") and the schemas of providers ("tofu providers
// schema -json"). It reads the parts that an import needs.
package tfjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"service-adapter/internal/value"
)

// State is what a state says of the managed resources of the root module.
type State struct {
	Resources []Resource // in the order of the document; without deposed objects
}

// Resource is one object of a state.
type Resource struct {
	Type, Name string
	// Indexed is true for an object of a resource with count or for_each.
	Indexed bool
	// Provider is the address of the provider, such as "registry.opentofu.org/hashicorp/random".
	Provider string
	// Values are the attributes and nested blocks by name, in the clear. Numbers are json.Number, so that none loses digits.
	Values map[string]any
	// Sensitive has the shape of Values, with true in the place of whatever is sensitive and without most of the rest.
	Sensitive any
}

// Address is "type.name".
func (r Resource) Address() string { return r.Type + "." + r.Name }

// document is the format of "tofu show -json".
type document struct {
	Values struct {
		RootModule struct {
			Resources []struct {
				Mode      string         `json:"mode"`
				Type      string         `json:"type"`
				Name      string         `json:"name"`
				Index     any            `json:"index"`
				Deposed   string         `json:"deposed_key"`
				Provider  string         `json:"provider_name"`
				Values    map[string]any `json:"values"`
				Sensitive any            `json:"sensitive_values"`
			} `json:"resources"`
		} `json:"root_module"`
	} `json:"values"`
}

// DecodeState reads the output of "tofu show -json". Errors tell nothing of its values.
func DecodeState(showJSON []byte) (*State, error) {
	var read document
	if err := decode(showJSON, &read); err != nil {
		return nil, fmt.Errorf("reading the state that OpenTofu shows: %w", err)
	}
	state := &State{}
	for _, r := range read.Values.RootModule.Resources {
		if r.Mode != "managed" || r.Deposed != "" {
			continue
		}
		resource := Resource{
			Type: r.Type, Name: r.Name, Indexed: r.Index != nil, Provider: r.Provider, Values: r.Values, Sensitive: r.Sensitive,
		}
		if value.Depth(r.Values) > value.MaxDepth || value.Depth(r.Sensitive) > value.MaxDepth {
			return nil, fmt.Errorf("reading the state that OpenTofu shows: %s is nested deeper than %d levels", resource.Address(), value.MaxDepth)
		}
		state.Resources = append(state.Resources, resource)
	}
	return state, nil
}

// decode reads exactly one JSON document.
func decode(data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		if err == io.EOF {
			return fmt.Errorf("unexpected end of JSON input")
		}
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return fmt.Errorf("unexpected data after the JSON document")
	}
	return nil
}

// Find returns the only object of a resource, nil when the state has none. A resource with count or for_each that has several
// objects is an error.
func (s *State) Find(address string) (*Resource, error) {
	var found *Resource
	for i := range s.Resources {
		switch {
		case s.Resources[i].Address() != address:
		case found != nil:
			return nil, fmt.Errorf("the state has several objects of the resource %s", address)
		default:
			found = &s.Resources[i]
		}
	}
	return found, nil
}

// Addresses are the addresses of all resources, sorted, each once.
func (s *State) Addresses() []string {
	var all []string
	for _, r := range s.Resources {
		all = append(all, r.Address())
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// StateAttribute looks up a tf_attribute, TYPE.NAME.ATTRIBUTE, in the output of "tofu show -json". Parts behind the attribute
// lead into it: the key of a map, the attribute of a nested block, the index of a list; the index may be left out where a list
// or set has one element, which is how nested blocks that occur once are kept.
//
// The value is one of package value, in the clear even when OpenTofu calls it sensitive. It is nil, and found is true, where the
// attribute is null; found is false where the state has no such resource, attribute or part. Errors are those of the path, of
// the document, and of values that cannot be named or passed on unchanged.
func StateAttribute(showJSON []byte, path string) (v any, found bool, err error) {
	parts := strings.Split(path, ".")
	if len(parts) < 3 || slices.Contains(parts, "") {
		return nil, false, fmt.Errorf("tf_attribute %q must have the form TYPE.NAME.ATTRIBUTE", path)
	}
	state, err := DecodeState(showJSON)
	if err != nil {
		return nil, false, err
	}
	resource, err := state.Find(parts[0] + "." + parts[1])
	if err != nil {
		return nil, false, fmt.Errorf("tf_attribute %q: %w", path, err)
	}
	if resource == nil {
		return nil, false, nil
	}
	v = resource.Values
	for i, part := range parts[2:] {
		if v, found, err = step(v, part); err != nil {
			return nil, false, fmt.Errorf("tf_attribute %q: %s %w", path, strings.Join(parts[:i+2], "."), err)
		}
		if !found {
			return nil, false, nil
		}
	}
	v = value.Normalise(v)
	if err := value.CheckNumbers(v); err != nil {
		return nil, false, fmt.Errorf("tf_attribute %q: %w", path, err)
	}
	return v, true, nil
}

// step looks up one part of a path in a value.
func step(v any, part string) (inner any, found bool, err error) {
	switch c := v.(type) {
	case map[string]any:
		inner, found = c[part]
		return inner, found, nil
	case []any:
		if i, err := strconv.ParseUint(part, 10, 31); err == nil {
			if int(i) >= len(c) {
				return nil, false, nil
			}
			return c[i], true, nil
		}
		switch len(c) {
		case 0:
			return nil, false, nil
		case 1:
			return step(c[0], part)
		default:
			return nil, false, fmt.Errorf("is a list of %d elements, so an index must follow, not %q", len(c), part)
		}
	default:
		return nil, false, nil
	}
}
