package test

import (
	"reflect"

	"service-adapter/internal/strictyaml"
	"service-adapter/internal/value"
)

// Schema returns the JSON Schema, draft-07, of a test case file as a new map, for editors and the documentation. It
// lists the allowed actions of steps.
func Schema() map[string]any {
	root := schema(reflect.TypeFor[Case]())
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", "Test case of a brokerpak"
	steps, _ := root["properties"].(map[string]any)["steps"].(map[string]any)["items"].(map[string]any)
	steps["required"] = []any{"do"}
	//nolint:forcetypeassert // schema created these mappings
	steps["properties"].(map[string]any)["do"].(map[string]any)["enum"] = value.Keys(actions())
	return root
}

// schema returns the JSON Schema of the YAML form of a Go type, as a new map. It admits null for every value, because
// an empty YAML value is null. A struct admits only the keys of its exported fields, whose tags doc become
// descriptions; an interface admits any value. Any type that is not a pointer, struct, map, slice, bool, int or
// interface admits a text, a number or a boolean. schema does not end for a type that contains itself.
func schema(typ reflect.Type) map[string]any {
	switch typ.Kind() {
	case reflect.Pointer:
		return schema(typ.Elem())
	case reflect.Struct:
		properties := map[string]any{}
		keys, fields := strictyaml.Fields(typ)
		for i, key := range keys {
			property := schema(fields[i].Type)
			if doc := fields[i].Tag.Get("doc"); doc != "" {
				property["description"] = doc
			}
			properties[key] = property
		}
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": false, "properties": properties}
	case reflect.Map:
		return map[string]any{"type": []any{"object", "null"}, "additionalProperties": schema(typ.Elem())}
	case reflect.Slice:
		return map[string]any{"type": []any{"array", "null"}, "items": schema(typ.Elem())}
	case reflect.Bool:
		return map[string]any{"type": []any{"boolean", "null"}}
	case reflect.Int:
		return map[string]any{"type": []any{"integer", "null"}}
	case reflect.Interface:
		return map[string]any{}
	default:
		return map[string]any{"type": []any{"string", "number", "boolean", "null"}} // YAML's scalars are texts as well
	}
}
