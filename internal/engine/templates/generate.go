package templates

import (
	"maps"
	"slices"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/hclfile"
)

// A Variant is a configuration that is derived from a template. Each is a subdirectory of a prepared directory.
type Variant string

// The variants.
const (
	Apply   Variant = "apply"   // the template and the guard
	Destroy Variant = "destroy" // the template alone, without settings that prevent its destruction
)

// The variables of the variant Apply that contain the values of the guard.
const (
	RecordVariable = "_binding_record"
	NonceVariable  = "_binding_nonce"
)

// object is a JSON object of OpenTofu's JSON configuration syntax.
type object = map[string]any

// overridePrefix is the first character in the names of generated override files. OpenTofu merges override files in the
// order of their names, so the generated ones take precedence over those of the template.
const overridePrefix = "~"

// backendFile returns an override file that selects the state backend, whatever the template says.
func backendFile(b backend.Backend) object {
	return object{"terraform": object{"backend": object{b.Type: object{}}}}
}

// bindingFile returns the file that declares the guard and the mark of a complete apply for a template. m is the result
// of inspecting the template, and version that of OpenTofu.
//
// Because of prevent_destroy and a different nonce in each reservation, OpenTofu rejects the plan of a reservation if
// the workspace already has a guard. The version of OpenTofu is part of the guard because "state pull" returns the
// version of the OpenTofu that reads the state instead of the one that wrote it.
//
// The mark is terraform_data._complete, a resource that is created last and destroyed first. It shows that an apply
// with this record has completed. An output cannot show this, because outputs stay in the state when everything but the
// guard is destroyed. For the same reason an output is used for the record of the last complete apply. Its value, not
// only its depends_on, refers to the mark, because otherwise OpenTofu would store the output when the apply fails.
func bindingFile(m *hclfile.Module, version string) object {
	const record, nonce = "var." + RecordVariable, "var." + NonceVariable
	complete := object{"input": "${sha256(" + record + ")}"}
	if all := slices.Concat(m.Resources, m.Data, m.Modules); len(all) > 0 {
		complete["depends_on"] = all
	}
	return object{
		"variable": object{
			RecordVariable: object{"type": "string", "sensitive": true},
			NonceVariable:  object{"type": "string"},
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

// templateFiles returns the generated files that the apply and the destroy variant have in common, by file name: the
// choice of the backend, the declarations of those inputs that the template uses and does not declare, and an override
// that makes all outputs sensitive. Files that would be empty are omitted. m is the result of inspecting the template,
// and inputs are its Template.Inputs.
func templateFiles(m *hclfile.Module, inputs []string, b backend.Backend) object {
	files := object{overridePrefix + "backend_override.tf.json": backendFile(b)}
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
		files[overridePrefix+"sensitive_override.tf.json"] = object{"output": outputs}
	}
	return files
}

// allowDestroyFile returns an override file that disables prevent_destroy in resources of the template. The resources
// are addresses such as "aws_s3_bucket.b".
func allowDestroyFile(resources []string) object {
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

// variants returns the files of a template's prepared directory by variant and file name: those of the template and the
// generated ones. Only the apply variant declares the guard. In the destroy variant, the files of the template lack the
// validations of variables, and an override disables prevent_destroy. m is the result of inspecting the template, and
// version that of OpenTofu. A file is either its text or a JSON object.
func variants(m *hclfile.Module, t Template, b backend.Backend, version string) map[Variant]object {
	apply := templateFiles(m, t.Inputs, b)
	destroy := maps.Clone(apply)
	for name, text := range t.Files {
		apply[name] = text
	}
	for name, text := range hclfile.WithoutValidations(t.Files) {
		destroy[name] = text
	}
	apply["_binding.tf.json"] = bindingFile(m, version)
	if len(m.Protected) > 0 {
		destroy[overridePrefix+"unprotect_override.tf.json"] = allowDestroyFile(m.Protected)
	}
	return map[Variant]object{Apply: apply, Destroy: destroy}
}
