package statestore

import "service-adapter/internal/value"

// SensitiveValues are the values of the sensitive attributes in a state, without those of the guard, whose record is marked as a whole.
func (s *State) SensitiveValues() []any {
	file, err := value.DecodeObject(s.Text)
	if err != nil {
		return nil // Parse tells
	}
	var values []any
	for _, resource := range value.Mappings(file["resources"]) {
		if isGuard(resource) {
			continue
		}
		for _, instance := range value.Mappings(resource["instances"]) {
			paths, _ := instance["sensitive_attributes"].([]any)
			for _, path := range paths {
				values = append(values, follow(instance["attributes"], value.Mappings(path)))
			}
		}
	}
	return values
}

// isGuard tells whether a resource of a state is the guard.
func isGuard(resource map[string]any) bool {
	kind, name := SplitAddress(GuardAddress)
	return resource["type"] == kind && resource["name"] == name && resource["module"] == nil
}

// follow returns what a path of a state leads to, nil where it leads nowhere. The value of a step is a name, or an index, which is an object with
// the type and the value.
func follow(item any, path []map[string]any) any {
	for _, step := range path {
		key := step["value"]
		if index, ok := key.(map[string]any); ok {
			key = index["value"]
		}
		object, _ := undynamic(item).(map[string]any)
		list, _ := undynamic(item).([]any)
		switch key := key.(type) {
		case string:
			item = object[key]
		case int64:
			item = nil
			if key >= 0 && key < int64(len(list)) {
				item = list[key]
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
