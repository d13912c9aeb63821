package hclfile

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"service-adapter/internal/value"
)

// MayBeEphemeral reports whether the files of a template can declare an ephemeral variable. It is much faster than
// Inspect, and returns true for each template with such a variable and for a few others.
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

// isEphemeral reports whether the block of a variable sets ephemeral to true, or to the text "true", which OpenTofu
// accepts as well. Any other value counts as false.
func isEphemeral(block *hclsyntax.Block) bool {
	argument, ok := block.Body.Attributes["ephemeral"]
	if !ok {
		return false
	}
	setting := constant(argument.Expr)
	return setting.RawEquals(cty.True) || setting.RawEquals(cty.StringVal("true"))
}

// providerNode is the node of the blocks whose values a provider may read in addition to its resources.
const providerNode = "provider"

// recordFlow records the references in a top-level block from which providersRead follows the values of ephemeral
// variables. Values of such variables can only reach a provider block directly, or by local values and ephemeral
// resources. A module can contain provider blocks that are not known here, and the block terraform can configure the
// state encryption, so both count as provider blocks.
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

// traversalsIn returns the references in a body and in the blocks within it.
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
// values and ephemeral resources. A reference whose target cannot be determined counts as one to every ephemeral
// variable. The result is nil if there are none.
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
				target, known := flowTarget(traversal)
				if !known {
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

// flowTarget returns the node that a reference reads: "var.NAME", "local.NAME", "ephemeral.TYPE.NAME", or "" for
// references by which no value of an ephemeral variable can pass, such as those to resources. known is false if the
// reference does not name its target.
func flowTarget(traversal hcl.Traversal) (target string, known bool) {
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
