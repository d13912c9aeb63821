package hclfile

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"service-adapter/internal/value"
)

// MayBeEphemeral reports whether the files of a template can declare an ephemeral variable, because the text of a file
// contains the word "ephemeral" anywhere. files maps file names to texts. MayBeEphemeral is much faster than Inspect.
// It returns true for each template with an ephemeral variable, but also for one that uses the word otherwise, as in a
// comment.
func MayBeEphemeral(files map[string]string) bool {
	return slices.ContainsFunc(value.Keys(files), func(name string) bool {
		return strings.Contains(files[name], "ephemeral")
	})
}

// EphemeralVariables returns the sorted names of the variables that the module declares ephemeral. It returns nil if
// there are none.
func (m *Module) EphemeralVariables() []string {
	var names []string
	for _, name := range value.Keys(m.Variables) {
		if m.Variables[name].Ephemeral {
			names = append(names, name)
		}
	}
	return names
}

// isEphemeral reports whether the block of a variable sets the argument ephemeral to the constant true, or to the text
// "true" or "1", which OpenTofu accepts as well. It returns false for any other value and if the argument is missing.
func isEphemeral(block *hclsyntax.Block) bool { return isTrue(block, "ephemeral") }

// providerNode is the node of the blocks whose values a provider may read in addition to its resources.
const providerNode = "provider"

// recordFlow records in in.flow the references in a top-level block from which providersRead follows the values of
// ephemeral variables. Values of such variables can only reach a provider block directly, or by local values and
// ephemeral resources. recordFlow therefore records the references in provider, locals and ephemeral blocks. It also
// records those in module blocks, because a module can contain provider blocks that are not read here, and those in
// terraform blocks, because they can configure the state encryption; both count as provider blocks. Blocks of any other
// type are ignored.
func (in *inspector) recordFlow(block *hclsyntax.Block) {
	switch block.Type {
	case "provider", "module", "terraform":
		in.flow[providerNode] = append(in.flow[providerNode], traversalsIn(block.Body)...)
	case "ephemeral":
		node := block.Type + "." + strings.Join(block.Labels, ".")
		in.flow[node] = append(in.flow[node], traversalsIn(block.Body)...)
	case "locals":
		for name, attribute := range block.Body.Attributes {
			in.flow["local."+name] = append(in.flow["local."+name], hclsyntax.Variables(attribute.Expr)...)
		}
	}
}

// traversalsIn returns the references, such as var.size, in the arguments of a body, in the order of the arguments'
// names, and then those in the blocks within it. Repeated references are returned repeatedly; the result is nil if
// there are none.
func traversalsIn(body *hclsyntax.Body) []hcl.Traversal {
	var all []hcl.Traversal
	for _, name := range value.Keys(body.Attributes) {
		all = append(all, hclsyntax.Variables(body.Attributes[name].Expr)...)
	}
	for _, block := range body.Blocks {
		all = append(all, traversalsIn(block.Body)...)
	}
	return all
}

// providersRead returns the sorted names of the ephemeral variables that provider blocks read, directly or by local
// values and ephemeral resources. Blocks module and terraform count as provider blocks. If one of the references that
// providersRead follows does not name its target, such as var["NAME"], the result contains all ephemeral variables. The
// result is empty if provider blocks read none, and nil if the module declares no ephemeral variable. All files must
// have been read.
func (in *inspector) providersRead() []string {
	ephemeral := in.module.EphemeralVariables()
	if len(ephemeral) == 0 {
		return nil
	}
	reached, nodes := map[string]bool{}, []string{providerNode}
	for len(nodes) > 0 {
		var next []string
		for _, node := range nodes {
			for _, traversal := range in.flow[node] {
				target, ok := flowTarget(traversal)
				if !ok {
					return ephemeral
				}
				if !reached[target] {
					reached[target] = true
					next = append(next, target)
				}
			}
		}
		nodes = next
	}
	return slices.DeleteFunc(ephemeral, func(name string) bool { return !reached["var."+name] })
}

// flowTarget returns the node that a reference reads, in the form of the keys of inspector.flow: "var.NAME",
// "local.NAME" or "ephemeral.TYPE.NAME". It returns "" and true for any other reference, such as one to a resource,
// because no value of an ephemeral variable can pass by it. ok is false if a reference to variables, local values or
// ephemeral resources does not name its target, such as var["NAME"]; target is then not meaningful.
func flowTarget(traversal hcl.Traversal) (target string, ok bool) {
	length := map[string]int{"var": 2, "local": 2, "ephemeral": 3}[traversal.RootName()]
	if length == 0 {
		return "", true
	}
	parts := []string{traversal.RootName()}
	for _, step := range traversal[1:] {
		attribute, ok := step.(hcl.TraverseAttr)
		if !ok || len(parts) == length {
			break
		}
		parts = append(parts, attribute.Name)
	}
	return strings.Join(parts, "."), len(parts) == length
}
