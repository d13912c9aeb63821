package statestore

import (
	"encoding/json"

	"service-adapter/internal/value"
)

// SensitiveValues are the values of the sensitive attributes in a state, without those of the guard, whose record is marked as a whole.
func (s *State) SensitiveValues() []any {
	var file struct {
		Resources []struct {
			stateResource
			Instances []struct {
				Attributes any               `json:"attributes"`
				Sensitive  [][]attributeStep `json:"sensitive_attributes"`
			} `json:"instances"`
		} `json:"resources"`
	}
	if json.Unmarshal(s.Text, &file) != nil {
		return nil // Parse tells
	}
	var values []any
	for _, resource := range file.Resources {
		if resource.address() == GuardAddress {
			continue
		}
		for _, instance := range resource.Instances {
			for _, path := range instance.Sensitive {
				values = append(values, value.Normalise(follow(instance.Attributes, path)))
			}
		}
	}
	return values
}

// attributeStep is a step of a path in a state: a name, or an index, which is an object with the type and the value.
type attributeStep struct {
	Value any `json:"value"`
}

// follow returns what a path of a state leads to, nil where it leads nowhere.
func follow(item any, path []attributeStep) any {
	for _, step := range path {
		key := step.Value
		if index, ok := key.(map[string]any); ok {
			key = index["value"]
		}
		object, _ := undynamic(item).(map[string]any)
		list, _ := undynamic(item).([]any)
		switch key := key.(type) {
		case string:
			item = object[key]
		case float64:
			item = nil
			if key >= 0 && int(key) < len(list) {
				item = list[int(key)]
			}
		}
	}
	return undynamic(item)
}

// undynamic returns a value of a dynamic type, which is in an object with its type, and any other as it is.
func undynamic(item any) any {
	if dynamic, ok := item.(map[string]any); ok && len(dynamic) == 2 && dynamic["type"] != nil {
		if inner, ok := dynamic["value"]; ok {
			return inner
		}
	}
	return item
}
