package templates

import (
	"maps"
	"slices"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/statestore"
	"service-adapter/internal/hclfile"
)

// A Variant is the name of a configuration that is derived from a template. Apply is the template with the guard, the
// resource that reserves the workspace, and Destroy is the template alone, without settings that prevent its
// destruction. The name is also that of the variant's subdirectory in a prepared directory. The value "" is not a
// variant.
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

// An object is a JSON object of OpenTofu's JSON configuration syntax, such as the content of a generated file. In the
// results of templateFiles and variants, an object maps the names of files to their contents instead. Such a content
// is a string, the text of a file of the template, or an object, the content of a generated file.
type object = map[string]any

// overridePrefix is the first character in the names of generated override files. OpenTofu merges override files in the
// order of their names, so the generated ones take precedence over those of the template.
const overridePrefix = "~"

// backendFile returns the content of an override file, in JSON configuration syntax, that selects the type of the state
// backend, whatever the template says. The file contains no settings of the backend, because "tofu init" reads them
// from the file of its flag -backend-config. backendFile does not check the backend.
func backendFile(b backend.Backend) object {
	return object{"terraform": object{"backend": object{b.Type: object{}}}}
}

// bindingFile returns the content of the generated file, in JSON configuration syntax, that declares the guard and the
// mark of a complete apply for a template, their variables, and the output with the record of the last complete apply.
// m is the result of inspecting the template; the mark depends on all resources, data sources and modules in it.
// version is that of OpenTofu, such as "1.10.6".
//
// The guard is the resource terraform_data._binding, which holds the caller's record, the version of OpenTofu and the
// nonce of the owner. Because of prevent_destroy and a different nonce in each reservation, OpenTofu rejects the plan
// of a reservation if the workspace already has a guard. The version of OpenTofu is part of the guard because "state
// pull" returns the version of the OpenTofu that reads the state instead of the one that wrote it.
//
// The mark is terraform_data._complete, a resource that is created last and destroyed first. It shows that an apply
// with this record has completed and that no destroy has begun since. An output could not show this, because outputs
// stay in the state when everything but the guard is destroyed. The record of the last complete apply must stay in that
// case, so it is stored in an output. The value of the output, not only its depends_on, refers to the mark, because
// otherwise OpenTofu would store the output when the apply fails.
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

// templateFiles returns the contents of the generated files that the apply and the destroy variant have in common, by
// file name, in JSON configuration syntax: the choice of the backend b, the declarations of those inputs that the
// template uses and does not declare, and an override that makes all outputs sensitive. The last two are omitted if
// they would be empty. m is the result of inspecting the template, and inputs are the names that the template may use
// without declaring them (Template.Inputs). Each call returns a new map.
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

// allowDestroyFile returns the content of an override file, in JSON configuration syntax, that sets prevent_destroy to
// false in resources of the template. The resources are addresses such as "aws_s3_bucket.b". With no resources the
// content has an empty "resource" object.
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

// variants returns the files of a template's prepared directory by variant and file name: those of the template t and
// the generated ones. A file is either its text, a string, or an object to encode in JSON. Only the apply variant
// declares the guard, the mark of a complete apply and the output with the record of the last complete apply. In the
// destroy variant, the files of the template lack the validations of variables, and an override disables
// prevent_destroy in the resources that set it. m is the result of inspecting the template, b is the state backend,
// and version is that of OpenTofu, such as "1.10.6". variants writes no file.
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
