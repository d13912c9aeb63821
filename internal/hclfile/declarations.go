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

// topLevelSchema returns the HCL schema of the top-level blocks of OpenTofu files, such as resource with the labels
// type and name. It contains the block types in the table labels, and no top-level arguments.
func topLevelSchema() *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for kind, names := range labels {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: kind, LabelNames: names})
	}
	return schema
}

// declare records the names that a top-level block declares: each local value of a locals block, or the type and the
// labels of the block, such as `resource "aws_instance" "web"`. A provider block with an alias declares the provider
// together with the alias. If a name was declared before, declare adds a Repeated to the module; see declareName. A
// block whose type has no labels, such as terraform, or is unknown is ignored. The block must not be that of an
// override file, because such blocks change other blocks and declare nothing.
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

// declareName records in in.declared that a name, such as `variable "size"`, is declared at a range of a file. If the
// name was declared before, declareName instead adds a Repeated with both positions to the module, and in.declared
// keeps the first position.
func (in *inspector) declareName(name string, at hcl.Range) {
	pos := position(&at, "")
	if earlier, ok := in.declared[name]; ok {
		in.module.Repeated = append(in.module.Repeated, Repeated{Name: name, Pos: pos, First: earlier})
		return
	}
	in.declared[name] = pos
}
