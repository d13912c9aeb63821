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

// RegeneratedFile is the file that an import writes anew.
const RegeneratedFile = "main.tf"

// Regeneration is what there is after the imports of an action.
type Regeneration struct {
	// Files are the files of the template, name → text. Those besides main.tf are kept by the caller; they are looked at
	// because they must not define an imported resource.
	Files map[string]string
	// Resources are the imported addresses, "type.name": the tf_resource of each import input.
	Resources []string
	// State is the output of "tofu show -json" after the imports, Schemas that of "tofu providers schema -json".
	State, Schemas []byte
	// Delete, Add and Mappings are import_parameters_to_delete, import_parameters_to_add and import_parameter_mappings. They
	// have their effect in this order.
	Delete        []string
	Add, Mappings []Mapping
}

// Mapping is an entry of import_parameter_mappings or import_parameters_to_add.
type Mapping struct {
	// TFVariable is the bare name of an attribute in a mapping, "type.name.attribute" in an addition.
	TFVariable string
	// Parameter is the expression of the attribute: "var.size", "local.size", "10". A bare name is that of a variable.
	Parameter string
	// Pos is where it stands in the service definition.
	Pos diag.Pos
}

// Regenerated is the outcome of an import.
type Regenerated struct {
	// Main is the new text of main.tf.
	Main string
	// Values are the present values of the variables that mappings have put in the place of values, by variable name. They
	// are those of package value: without them the apply would change the resources to other values, or to none.
	Values map[string]any
	// Sensitive are the names of the Values that OpenTofu calls sensitive, sorted.
	Sensitive []string
	// Warnings tell of entries without effect, of variables that stand for several values, of arguments without a value, of
	// secrets in Main, and of what main.tf loses. They tell nothing of values.
	Warnings []string
}

// Regenerate writes main.tf anew from the resources as they have been imported: one block for each resource, sorted by
// address, with all that the state holds of it and a configuration may set, attributes before nested blocks, both sorted.
//
// What is only computed, and the id that resources of the older provider SDK compute, is left out, as is null. Then come the
// three lists of the action: Delete takes paths "type.name[.block…].attribute" out, of an attribute or of a nested block; Add
// gives resources further arguments; Mappings replace the values of the attributes of that name, in every resource, nested
// block and nested attribute, by an expression. Keys of maps are no attributes. Everything else stands in the text as a literal
// value, also what is sensitive: Warnings name it, and only a mapping keeps it out of the file.
//
// Errors name the tf_resource or the entry, and tell nothing of values.
func Regenerate(r Regeneration) (*Regenerated, error) {
	addresses := slices.Compact(slices.Sorted(slices.Values(r.Resources)))
	for _, address := range addresses {
		if kind, name, _ := strings.Cut(address, "."); !hclsyntax.ValidIdentifier(kind) || !hclsyntax.ValidIdentifier(name) {
			return nil, fmt.Errorf("tf_resource %q must have the form TYPE.NAME, without count, for_each and modules", address)
		}
	}
	w := &rewriter{result: &Regenerated{Values: map[string]any{}}}
	for _, found := range CheckImport(r.Files, addresses, r.Add).All() {
		if found.Severity == diag.Error {
			return nil, fmt.Errorf("%s: %s", found.Pos, found.Message)
		}
		w.warnf("%s: %s", found.Pos, found.Message)
	}
	if err := w.imported(r, addresses); err != nil {
		return nil, err
	}
	if err := w.entries(r); err != nil {
		return nil, err
	}
	for i, resource := range w.resources {
		if i > 0 {
			w.text.WriteString("\n")
		}
		if err := w.resource(resource); err != nil {
			return nil, fmt.Errorf("regenerating tf_resource %q: %w", resource.Address(), err)
		}
	}
	w.values()
	w.unused()
	w.result.Main = string(hclwrite.Format([]byte(w.text.String())))
	if _, diags := hclsyntax.ParseConfig([]byte(w.result.Main), RegeneratedFile, hcl.InitialPos); diags.HasErrors() {
		return nil, fmt.Errorf("regenerating %s gave no valid HCL at line %d", RegeneratedFile, position(diags[0].Subject, "").Line)
	}
	return w.result, nil
}

// importedResource is a resource with its schema.
type importedResource struct {
	*tfjson.Resource
	schema *tfjson.Block
}

// imported finds the imported resources in the state.
func (w *rewriter) imported(r Regeneration, addresses []string) error {
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
			return fmt.Errorf("tf_resource %q is not in the state after the import; it holds %s", address, diag.Names(value.Each(state, tfjson.Resource.Address)))
		case resource.Index != nil:
			return fmt.Errorf("tf_resource %q has count or for_each; only resources without can be regenerated", address)
		}
		schema, err := schemas.Resource(resource.Provider, resource.Type)
		if err != nil {
			return fmt.Errorf("tf_resource %q: %w", address, err)
		}
		w.resources = append(w.resources, importedResource{Resource: resource, schema: schema})
	}
	return nil
}

// CheckImport looks at the files of a template, name → text, into which the resources with these addresses, "type.name", are
// imported. An error is a definition of one of them outside of main.tf: only that file is regenerated. Warnings are what an
// import loses: everything in main.tf that is none of the resources, and what in their blocks the state does not know, unless
// it is added. Files that cannot be read are left to Inspect.
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
				diags.Warnf(pos, "import", "%s is lost, because %s is regenerated after an import; put it into another file", address, RegeneratedFile)
			case imported && !isOverride(name):
				diags.Errorf(pos, "import", "tf_resource %q must be defined in %s, the file that is regenerated after an import", address, RegeneratedFile)
			}
		}
	}
	return diags
}

// lostArguments warns of the parts of a resource's block that steer OpenTofu and are in no state.
func lostArguments(block *hclsyntax.Block, address string, added []Mapping, diags *diag.List) {
	lost := func(name string, place hcl.Range) {
		diags.Warnf(position(&place, ""), "import", "%s of %s is lost, because %s is regenerated after an import", name, address, RegeneratedFile)
	}
	for _, name := range metaArguments {
		if attribute, ok := block.Body.Attributes[name]; ok && !slices.ContainsFunc(added, func(m Mapping) bool { return m.TFVariable == address+"."+name }) {
			lost(name, attribute.NameRange)
		}
	}
	for _, inner := range block.Body.Blocks {
		if slices.Contains([]string{"connection", "lifecycle", "provisioner"}, inner.Type) {
			lost(inner.Type, inner.TypeRange)
		}
	}
}

// address is "type.name" for a resource; otherwise the type of the block and its labels, with dots between.
func address(block *hclsyntax.Block) string {
	if block.Type == "resource" {
		return strings.Join(block.Labels, ".")
	}
	return strings.Join(append([]string{block.Type}, block.Labels...), ".")
}

// isOverride tells whether OpenTofu merges the blocks of a file with those of other files.
func isOverride(name string) bool {
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".tf"), ".tofu")
	return name == "override" || strings.HasSuffix(name, "_override")
}

// topBlocks returns the blocks of a file, as far as it can be read.
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

// ParameterVariables returns the names of the variables that a parameter_name uses, sorted. The error says what is allowed.
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
