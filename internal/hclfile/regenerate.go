package hclfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"service-adapter/internal/diag"
	"service-adapter/internal/tfjson"
	"service-adapter/internal/value"
)

// RegeneratedFile is the file that is generated again after an import.
const RegeneratedFile = "main.tf"

// A Regeneration is the input of Regenerate: the files of a template, the addresses of the imported resources, the
// state and the schemas of the providers as JSON, and the three lists of the import action. State and Schemas must be
// set. Without Resources, the new main.tf is empty. Files, Delete, Add and Mappings may be empty.
type Regeneration struct {
	// Files are the files of the template, name → text. Only main.tf is replaced. The others are checked, because they
	// must not define an imported resource.
	Files map[string]string
	// Resources are the imported addresses, "type.name": the tf_resource of each import input.
	Resources []string
	// State is the output of "tofu show -json" after the imports, Schemas that of "tofu providers schema -json".
	State, Schemas []byte
	// Delete, Add and Mappings are import_parameters_to_delete, import_parameters_to_add and import_parameter_mappings.
	// They are applied in this order.
	Delete        []string
	Add, Mappings []Mapping
}

// A Mapping is an entry of import_parameter_mappings or import_parameters_to_add. TFVariable is the bare name of an
// attribute in a mapping, and "type.name.attribute" in an addition. Parameter is the HCL expression that becomes the
// value, such as "var.size" or "10"; a bare name is that of a variable, unless it is true, false or null. Both must
// be set. Pos is the position of the entry in the service definition; Regenerate and CheckImport do not use it.
type Mapping struct {
	// TFVariable is the bare name of an attribute in a mapping, "type.name.attribute" in an addition.
	TFVariable string
	// Parameter is the expression of the attribute: "var.size", "local.size", "10". A bare name is that of a variable,
	// unless it is true, false or null.
	Parameter string
	// Pos is the position of the entry in the service definition.
	Pos diag.Pos
}

// A Regenerated is the result of Regenerate: the new text of main.tf, the imported values that became variables, the
// names of those that are sensitive, and warnings without values. The next apply must pass the values, because
// otherwise it would change the resources.
type Regenerated struct {
	// Main is the new text of main.tf.
	Main string
	// Values are the imported values that mappings replaced by variables, by variable name. They have the types that
	// package value lists. The next apply must pass them, because otherwise it would change the resources to other
	// values.
	Values map[string]any
	// Sensitive are the sorted names of the Values that OpenTofu marks as sensitive.
	Sensitive []string
	// Warnings name entries without effect, variables that replace several different values, required arguments without
	// a value, secrets in Main, and the parts of main.tf that are lost. They contain no values.
	Warnings []string
}

// Regenerate generates main.tf from the imported resources. The file has one block for each resource, sorted by
// address; a repeated address counts once. A block contains all values in the state that a configuration may set,
// attributes before nested blocks, both sorted. Attributes and blocks that are null, blocks of the nesting mode "group"
// in which everything is unset, values that only the provider computes, and the id that resources of the older provider
// SDK compute are left out.
//
// The three lists of the import action then change the blocks, in this order:
//   - Delete removes the attributes and nested blocks at paths "type.name[.block…].attribute".
//   - Add adds arguments to resources, also those that Delete removed, or replaces their values.
//   - Mappings replace the values of all attributes with a name, in every resource, nested block and nested attribute
//     and also those of Add, by an expression; keys of maps are not attributes. A variable does not replace a value
//     in the state that contains an integer of more than 64 bits or a number beyond float64, nor an argument of Add
//     that is such a number. Fractions in a variable have only the precision of float64.
//
// All other values in the state are written as literals. This includes sensitive values: only the three lists keep them
// out of the file. The result also contains the values that became variables, and warnings; see Regenerated. The
// warnings include those of CheckImport about parts of the old main.tf that are lost.
//
// Regenerate writes no file and does not change r. It returns nil and an error if an address is not TYPE.NAME of a
// resource in the state without count or for_each, if CheckImport reports an error, if an entry of Add or Mappings is
// invalid, if State or Schemas cannot be decoded or do not fit, if a number is too large or too small to be written, or
// if the schema contains a name that is not valid in HCL. Errors contain no values of the state.
func Regenerate(r Regeneration) (*Regenerated, error) {
	addresses := slices.Compact(slices.Sorted(slices.Values(r.Resources)))
	for _, address := range addresses {
		kind, name, _ := strings.Cut(address, ".")
		if !hclsyntax.ValidIdentifier(kind) || !hclsyntax.ValidIdentifier(name) {
			return nil, fmt.Errorf("tf_resource %q must have the form TYPE.NAME, without count, for_each and modules",
				address)
		}
	}
	w := &rewriter{result: &Regenerated{Values: map[string]any{}}}
	for _, d := range CheckImport(r.Files, addresses, r.Add).All() {
		if d.Severity == diag.Error {
			return nil, fmt.Errorf("%s: %s", d.Pos, d.Message)
		}
		w.warnf("%s: %s", d.Pos, d.Message)
	}
	if err := w.findImported(r, addresses); err != nil {
		return nil, err
	}
	if err := w.parseLists(r); err != nil {
		return nil, err
	}
	for i, resource := range w.resources {
		if i > 0 {
			w.text.WriteString("\n")
		}
		if err := w.writeResource(resource); err != nil {
			return nil, fmt.Errorf("regenerating tf_resource %q: %w", resource.Address(), err)
		}
	}
	w.assignValues()
	w.warnUnused()
	w.result.Main = string(hclwrite.Format([]byte(w.text.String())))
	if _, diags := hclsyntax.ParseConfig([]byte(w.result.Main), RegeneratedFile, hcl.InitialPos); diags.HasErrors() {
		line := position(diags[0].Subject, "").Line
		return nil, fmt.Errorf("the regenerated %s is not valid HCL at line %d", RegeneratedFile, line)
	}
	return w.result, nil
}

// An importedResource is a resource in the state after an import, with the schema of its type. Neither is nil.
type importedResource struct {
	*tfjson.Resource
	schema *tfjson.Block
}

// findImported finds the resources with the addresses, "type.name", in the state of r, and their schemas, and appends
// them to w.resources in the order of the addresses. It returns an error if the state or the schemas cannot be decoded,
// or if a resource is not in the state, has count or for_each, or has no schema that can be decoded. The resources
// before that one have been appended then.
func (w *rewriter) findImported(r Regeneration, addresses []string) error {
	state, err := tfjson.DecodeState(r.State)
	if err != nil {
		return err
	}
	schemas, err := tfjson.DecodeSchemas(r.Schemas)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		resource, err := state.Find(address)
		switch {
		case err != nil:
			return fmt.Errorf("tf_resource %q: %w", address, err)
		case resource == nil:
			return fmt.Errorf("tf_resource %q is not in the state after the import; the state contains %s",
				address, diag.Names(value.Convert(state, tfjson.Resource.Address)))
		case resource.Index != nil:
			return fmt.Errorf("tf_resource %q has count or for_each; only resources without them can be regenerated",
				address)
		}
		schema, err := schemas.Resource(resource.Provider, resource.Type)
		if err != nil {
			return fmt.Errorf("tf_resource %q: %w", address, err)
		}
		w.resources = append(w.resources, importedResource{Resource: resource, schema: schema})
	}
	return nil
}

// CheckImport checks whether the resources with some addresses, "type.name", can be imported into a template. files
// maps file names to texts, and added are the entries of import_parameters_to_add. CheckImport reports an error for
// each of the resources that is defined outside of main.tf, because only that file is regenerated. A file main.tofu,
// which OpenTofu would read instead of main.tf, is an error as well; its blocks are not checked, but those of all
// other files are. Override files may contain blocks for the resources. A resource that no file defines is not an
// error.
//
// CheckImport warns of these parts of main.tf, which the import loses: all other blocks and, in the resources' blocks,
// the nested blocks connection, lifecycle and provisioner, and the arguments depends_on and provider unless they are
// added. Files with syntax errors are checked as far as they can be parsed; Inspect reports the errors. The list is
// never nil.
func CheckImport(files map[string]string, addresses []string, added []Mapping) *diag.List {
	diags := &diag.List{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == "main.tofu" {
			diags.Errorf(diag.Pos{File: name, Line: 1, Column: 1}, "import",
				"%s takes the place of %s, which is regenerated after an import; rename it", name, RegeneratedFile)
			continue
		}
		for _, block := range topBlocks(name, files[name]) {
			address, pos := address(block), position(block.DefRange().Ptr(), "")
			imported := slices.Contains(addresses, address)
			switch {
			case name == RegeneratedFile && imported:
				lostArguments(block, address, added, diags)
			case name == RegeneratedFile:
				diags.Warnf(pos, "import", "%s is lost, because %s is regenerated after an import; "+
					"put it into another file",
					address, RegeneratedFile)
			case imported && !isOverride(name):
				diags.Errorf(pos, "import",
					"tf_resource %q must be defined in %s, the file that is regenerated after an import",
					address, RegeneratedFile)
			}
		}
	}
	return diags
}

// lostArguments adds warnings to diags of the parts of a resource's block that control OpenTofu and are not stored in
// the state: the meta arguments depends_on and provider unless they are among added, and the connection, lifecycle and
// provisioner blocks. address is that of the resource.
func lostArguments(block *hclsyntax.Block, address string, added []Mapping, diags *diag.List) {
	lost := func(name string, at hcl.Range) {
		diags.Warnf(position(&at, ""), "import", "%s of %s is lost, because %s is regenerated after an import",
			name, address, RegeneratedFile)
	}
	for _, name := range metaArguments {
		isAdded := func(m Mapping) bool { return m.TFVariable == address+"."+name }
		if attribute, ok := block.Body.Attributes[name]; ok && !slices.ContainsFunc(added, isAdded) {
			lost(name, attribute.NameRange)
		}
	}
	for _, inner := range block.Body.Blocks {
		if slices.Contains([]string{"connection", "lifecycle", "provisioner"}, inner.Type) {
			lost(inner.Type, inner.TypeRange)
		}
	}
}

// address returns "type.name" for a resource. For any other block it returns the block type and the labels, joined by
// dots.
func address(block *hclsyntax.Block) string {
	if block.Type == "resource" {
		return strings.Join(block.Labels, ".")
	}
	return strings.Join(append([]string{block.Type}, block.Labels...), ".")
}

// isOverride reports whether a file is an override file, whose blocks OpenTofu merges with those of other files:
// override.tf, override.tofu, or a name that ends in _override before one of these endings. name is the file name with
// its ending and without a directory.
func isOverride(name string) bool {
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".tf"), ".tofu")
	return name == "override" || strings.HasSuffix(name, "_override")
}

// topBlocks returns the top-level blocks of a file in native syntax, in source order. name is the file name in the
// positions of the blocks; it does not affect how text is parsed. If the file has syntax errors, some blocks may be
// missing, or the result is nil; the errors are dropped.
func topBlocks(name, text string) hclsyntax.Blocks {
	file, _ := hclsyntax.ParseConfig([]byte(text), name, hcl.InitialPos)
	if file == nil {
		return nil
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return nil
	}
	return body.Blocks
}

// ParameterVariables returns the sorted names of the variables that the parameter_name of an entry refers to, each
// once: NAME of each var.NAME. A parameter_name that is only a name, such as size, names a
// variable, unless it is true, false or null. The result is nil if the expression refers to none. ParameterVariables
// returns nil and an error if the parameter_name is empty or is not an expression in one line.
func ParameterVariables(m Mapping) ([]string, error) {
	parsed, err := parseExpression(m)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	if parsed.variable != "" {
		names[parsed.variable] = true
	}
	for _, traversal := range parsed.traversals {
		if traversal.RootName() == "var" && len(traversal) > 1 {
			if step, ok := traversal[1].(hcl.TraverseAttr); ok {
				names[step.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}
