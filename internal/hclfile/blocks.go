package hclfile

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// blocks are the blocks at the top of a file whose labels all versions of OpenTofu agree about.
func blocks() *hcl.BodySchema {
	return &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
		{Type: "check", LabelNames: []string{"name"}},
		{Type: "data", LabelNames: []string{"type", "name"}},
		{Type: "ephemeral", LabelNames: []string{"type", "name"}},
		{Type: "locals"},
		{Type: "module", LabelNames: []string{"name"}},
		{Type: "output", LabelNames: []string{"name"}},
		{Type: "provider", LabelNames: []string{"name"}},
		{Type: "resource", LabelNames: []string{"type", "name"}},
		{Type: "terraform"},
		{Type: "variable", LabelNames: []string{"name"}},
	}}
}

// declare notes what a block declares.
func (in *inspector) declare(block *hclsyntax.Block) {
	switch block.Type {
	case "check", "data", "ephemeral", "module", "output", "resource", "variable":
		in.declareName(block.Type+` "`+strings.Join(block.Labels, `" "`)+`"`, block.DefRange())
	case "locals":
		for name, attribute := range block.Body.Attributes {
			in.declareName(`local value "`+name+`"`, attribute.NameRange)
		}
	case "provider":
		name := `provider "` + strings.Join(block.Labels, `" "`) + `"`
		if alias, ok := block.Body.Attributes["alias"]; ok {
			name += ` with the alias "` + literal(alias.Expr) + `"`
		}
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
