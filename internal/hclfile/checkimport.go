package hclfile

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"service-adapter/internal/diag"
)

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
