package hclfile

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// labels are the labels of the blocks at the top of a file about which all versions of OpenTofu agree.
var labels = map[string][]string{ //nolint:gochecknoglobals // a constant table
	"check": {"name"}, "data": {"type", "name"}, "ephemeral": {"type", "name"}, "locals": nil, "module": {"name"}, "output": {"name"},
	"provider": {"name"}, "resource": {"type", "name"}, "terraform": nil, "variable": {"name"},
}

func blocks() *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for kind, names := range labels {
		schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: kind, LabelNames: names})
	}
	return schema
}

// declare notes what a block declares.
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

func (in *inspector) declareName(name string, at hcl.Range) {
	pos := position(&at, "")
	if earlier, ok := in.declared[name]; ok {
		in.module.Repeated = append(in.module.Repeated, Repeated{Name: name, Pos: pos, First: earlier})
		return
	}
	in.declared[name] = pos
}
