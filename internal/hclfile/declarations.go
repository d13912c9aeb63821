package hclfile

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// labels holds the labels of the top-level blocks that have the same labels in all versions of OpenTofu, by block type.
var labels = map[string][]string{ //nolint:gochecknoglobals // a constant table
	"check": {"name"}, "data": {"type", "name"}, "ephemeral": {"type", "name"}, "locals": nil,
	"module": {"name"}, "output": {"name"}, "provider": {"name"}, "resource": {"type", "name"}, "terraform": nil,
	"variable": {"name"},
}

// topLevelSchema returns the HCL schema of the top-level blocks in labels. It has no attributes.
func topLevelSchema() *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for kind, names := range labels {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: kind, LabelNames: names})
	}
	return schema
}

// declare records the names that a top-level block declares, with declareName. A provider block with an alias declares
// the name together with the alias. A block whose type declares no name, such as terraform, is ignored. The block must
// not be that of an override file.
func (in *inspector) declare(block *hclsyntax.Block) {
	name := block.Type + ` "` + strings.Join(block.Labels, `" "`) + `"`
	switch block.Type {
	case "locals":
		for name, attribute := range block.Body.Attributes {
			in.declareName(`local value "`+name+`"`, attribute.NameRange)
		}
		return
	case "provider":
		if alias, ok := block.Body.Attributes["alias"]; ok {
			name += ` with the alias "` + literal(alias.Expr) + `"`
		}
	}
	if len(labels[block.Type]) > 0 {
		in.declareName(name, block.DefRange())
	}
}

// declareName records the declaration of a name, such as `variable "size"`, at a position. If the name was declared
// before, it adds a Repeated to the module instead.
func (in *inspector) declareName(name string, at hcl.Range) {
	pos := position(&at, "")
	if earlier, ok := in.declared[name]; ok {
		in.module.Repeated = append(in.module.Repeated, Repeated{Name: name, Pos: pos, First: earlier})
		return
	}
	in.declared[name] = pos
}
