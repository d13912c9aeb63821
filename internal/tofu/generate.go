package tofu

import (
	"maps"
	"slices"

	"service-adapter/internal/hclfile"
	"service-adapter/internal/statestore"
)

// The variants of a configuration; each is a directory of a prepared directory.
const (
	applyVariant   = "apply"   // the template and the guard
	destroyVariant = "destroy" // the template alone
)

// The variables that the adapter keeps for itself in a configuration.
const (
	recordVariable = "_binding_record"
	nonceVariable  = "_binding_nonce"
)

// object is a JSON object of OpenTofu's JSON configuration syntax.
type object = map[string]any

// last begins the names of override files: OpenTofu merges them in the order of their names, and these must win over the template's.
const last = "~"

// backendFile chooses the state backend. It is an override, so a backend block of the template has no effect.
func backendFile(b Backend) object {
	return object{"terraform": object{"backend": object{b.Type: object{}}}}
}

// bindingFile declares the guard. prevent_destroy and a nonce of its own in each reservation make OpenTofu refuse the plan of
// a reservation when the workspace already has one. OpenTofu's version is part of it because "state pull" tells its own
// version instead of the one that wrote the state.
//
// Beside it is a resource that is made last and destroyed first: it tells a finished apply of this record from a failed one. It is no
// output, because outputs outlive a destroy that leaves the guard. That is what the output is for: the record of the last complete
// apply. Its value, not only its depends_on, must need the resource, because OpenTofu stores an output that it knows when it plans
// even when the apply fails.
func bindingFile(m *hclfile.Module, version string) object {
	const record, nonce = "var." + recordVariable, "var." + nonceVariable
	complete := object{"input": "${sha256(" + record + ")}"}
	if all := slices.Concat(m.Resources, m.Data, m.Modules); len(all) > 0 {
		complete["depends_on"] = all
	}
	return object{
		"variable": object{
			recordVariable: object{"type": "string", "sensitive": true},
			nonceVariable:  object{"type": "string"},
		},
		"resource": object{"terraform_data": object{
			"_binding": object{
				"input":            object{"record": "${" + record + "}", "tofu": version},
				"triggers_replace": "${" + nonce + "}",
				"lifecycle":        object{"prevent_destroy": true},
			},
			"_complete": complete,
		}},
		"output": object{statestore.AppliedOutput: object{
			"value":     "${" + statestore.CompleteAddress + `.output == "" ? "" : ` + record + "}",
			"sensitive": true,
		}},
	}
}

// templateFiles are the generated files that the apply and the destroy variant share.
func templateFiles(m *hclfile.Module, inputs []string, b Backend) object {
	files := object{last + "backend_override.tf.json": backendFile(b)}
	declared := object{}
	for _, name := range inputs {
		if _, missing := m.Undeclared[name]; missing {
			declared[name] = object{"type": "any"}
		}
	}
	if len(declared) > 0 {
		files["_declared.tf.json"] = object{"variable": declared}
	}
	outputs := object{}
	for _, name := range m.Outputs {
		outputs[name] = object{"sensitive": true}
	}
	if len(outputs) > 0 {
		files[last+"sensitive_override.tf.json"] = object{"output": outputs}
	}
	return files
}

// unprotectFile lifts prevent_destroy from the resources of the template.
func unprotectFile(resources []string) object {
	types := map[string]object{}
	for _, address := range resources {
		kind, name := statestore.SplitAddress(address)
		if types[kind] == nil {
			types[kind] = object{}
		}
		types[kind][name] = object{"lifecycle": object{"prevent_destroy": false}}
	}
	return object{"resource": types}
}

// variants returns the content of all files of a template's prepared directory, variant → file name → its text or object.
func variants(m *hclfile.Module, t Template, b Backend, version string) map[string]object {
	apply := templateFiles(m, t.Inputs, b)
	for name, text := range t.Files {
		apply[name] = text
	}
	destroy := maps.Clone(apply)
	apply["_binding.tf.json"] = bindingFile(m, version)
	if len(m.Protected) > 0 {
		destroy[last+"unprotect_override.tf.json"] = unprotectFile(m.Protected)
	}
	return map[string]object{applyVariant: apply, destroyVariant: destroy}
}
