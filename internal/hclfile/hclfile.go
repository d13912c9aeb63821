// Package hclfile tells what the OpenTofu files of a template declare and use, without running OpenTofu: its variables,
// outputs, resources, modules and providers. After an import it writes the main.tf of a template anew. It reads native syntax
// only and is the only importer of hashicorp/hcl/v2.
package hclfile

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"service-adapter/internal/diag"
)

// Module is what the files of one template declare and use. All lists are sorted and hold each name once.
type Module struct {
	// Variables are the variable blocks by name.
	Variables map[string]Variable
	// Outputs are the names of the output blocks, OutputPlaces where each stands.
	// SensitiveOutputs are those that say sensitive = true.
	Outputs          []string
	SensitiveOutputs []string
	OutputPlaces     map[string]diag.Pos
	// Resources are managed resources as "type.name", Data data sources as "data.type.name", Modules module calls as
	// "module.name".
	Resources []string
	Data      []string
	Modules   []string
	// Calls are the module calls by name.
	Calls map[string]Call
	// Protected are the resources whose lifecycle block sets prevent_destroy.
	Protected []string
	// RequiredProviders are the sources of required_providers by local name; "" where an entry gives none.
	RequiredProviders map[string]string
	// Providers are the local names of all providers, and where each is used first: in required_providers, in a provider block,
	// or by a resource or data source.
	Providers map[string]diag.Pos
	// Aliases tells whether a provider block may configure a provider once more: it has an alias or a for_each.
	Aliases bool
	// Repeated are the blocks that declare something once more, which OpenTofu refuses.
	Repeated []Repeated
	// Undeclared are the names used as var.NAME without a variable block, and where each is used first.
	Undeclared map[string]diag.Pos
	// AsksWorkspace tells whether the name of the workspace is used, as terraform.workspace or tofu.workspace.
	AsksWorkspace bool
}

// Call is a module block. Its source is "" where it is no literal.
type Call struct {
	Source string
	Pos    diag.Pos
}

// Variable is a variable block.
type Variable struct {
	HasDefault bool
	Sensitive  bool
	Pos        diag.Pos
}

// Repeated is a block that declares what another one has declared.
type Repeated struct {
	Name       string // such as `variable "size"`
	Pos, First diag.Pos
}

// Inspect reads the files of a template, file name ("main.tf") → text. Syntax errors, files that are not in native syntax
// and uses of the reserved names (those that begin with "_binding" or "_complete") are error diagnostics; the Module is
// never nil and holds what could be read.
func Inspect(files map[string]string) (*Module, *diag.List) {
	in := &inspector{
		module: &Module{
			Variables:         map[string]Variable{},
			OutputPlaces:      map[string]diag.Pos{},
			RequiredProviders: map[string]string{},
			Providers:         map[string]diag.Pos{},
			Undeclared:        map[string]diag.Pos{},
			Calls:             map[string]Call{},
		},
		diags:    &diag.List{},
		used:     map[string]diag.Pos{},
		declared: map[string]diag.Pos{},
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		in.file(name, files[name])
	}
	in.finish()
	return in.module, in.diags
}

// inspector collects a Module from one file after the other.
type inspector struct {
	module *Module
	diags  *diag.List
	used   map[string]diag.Pos // var.NAME → first use
	// declared are the blocks by name; those of override files change others and declare nothing.
	declared map[string]diag.Pos
}

func (in *inspector) file(name, text string) {
	if !nativeSyntax(name) {
		in.diags.Errorf(diag.Pos{File: name}, "template-name",
			"a template file must have a plain name that ends in .tf or .tofu; JSON syntax is not supported")
		return
	}
	file, diags := hclsyntax.ParseConfig([]byte(text), name, hcl.InitialPos)
	if file == nil {
		in.syntax(name, diags)
		return
	}
	if !diags.HasErrors() {
		_, _, diags = file.Body.PartialContent(blocks())
	}
	in.syntax(name, diags)
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return
	}
	for _, block := range body.Blocks {
		in.block(block)
		if !isOverride(name) {
			in.declare(block)
		}
	}
	in.uses(body)
}

// syntax reports what HCL found in a file.
func (in *inspector) syntax(name string, found hcl.Diagnostics) {
	for _, d := range found {
		if d.Severity == hcl.DiagError {
			in.diags.Errorf(position(d.Subject, name), "hcl-syntax", "%s: %s", d.Summary, strings.TrimSuffix(d.Detail, "."))
		}
	}
}

// nativeSyntax tells whether a file name is plain (no directory) and of native syntax.
func nativeSyntax(name string) bool {
	return (strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tofu")) &&
		!strings.ContainsAny(name, "/\\\x00") && !strings.HasPrefix(name, ".")
}

// block records one top-level block.
func (in *inspector) block(block *hclsyntax.Block) {
	if len(block.Labels) != len(labels[block.Type]) {
		return
	}
	m, address := in.module, strings.Join(block.Labels, ".")
	switch block.Type {
	case "variable":
		in.reserved(address, block)
		m.Variables[address] = variable(m.Variables[address], block)
	case "output":
		in.output(address, block)
	case "resource":
		in.reserved(block.Labels[1], block)
		m.Resources = append(m.Resources, address)
		in.provider(block)
		if protected(block.Body) {
			m.Protected = append(m.Protected, address)
		}
	case "data":
		m.Data = append(m.Data, "data."+address)
		in.provider(block)
	case "ephemeral":
		in.provider(block)
	case "check":
		for _, nested := range block.Body.Blocks {
			if nested.Type == "data" && len(nested.Labels) == len(labels["data"]) {
				in.provider(nested)
			}
		}
	case "provider":
		first(m.Providers, address, position(block.DefRange().Ptr(), ""))
		m.Aliases = m.Aliases || block.Body.Attributes["alias"] != nil || block.Body.Attributes["for_each"] != nil
	case "module":
		m.Modules = append(m.Modules, "module."+address)
		m.Calls[address] = call(block)
	case "terraform":
		in.providers(block.Body)
	}
}

func (in *inspector) output(name string, block *hclsyntax.Block) {
	in.reserved(name, block)
	in.module.Outputs = append(in.module.Outputs, name)
	if isSensitive(block) {
		in.module.SensitiveOutputs = append(in.module.SensitiveOutputs, name)
	}
	first(in.module.OutputPlaces, name, position(block.DefRange().Ptr(), ""))
}

func (in *inspector) reserved(name string, block *hclsyntax.Block) {
	if isReserved(name) {
		in.diags.Errorf(position(block.LabelRanges[len(block.LabelRanges)-1].Ptr(), ""), "reserved-name",
			"the name %q of this %s is reserved; names must not begin with _binding or _complete", name, block.Type)
	}
}

// isReserved tells whether the adapter keeps a name for itself.
func isReserved(name string) bool {
	return strings.HasPrefix(name, "_binding") || strings.HasPrefix(name, "_complete")
}

func call(block *hclsyntax.Block) Call {
	c := Call{Pos: position(block.DefRange().Ptr(), "")}
	if source, ok := block.Body.Attributes["source"]; ok {
		c.Pos = position(source.Expr.Range().Ptr(), "")
		c.Source = literal(source.Expr)
	}
	return c
}

// variable is what a block says of a variable, of which one of another file, which one of them overrides, may have said something.
func variable(other Variable, block *hclsyntax.Block) Variable {
	_, hasDefault := block.Body.Attributes["default"]
	return Variable{
		Pos: position(block.DefRange().Ptr(), ""), HasDefault: hasDefault || other.HasDefault, Sensitive: isSensitive(block) || other.Sensitive,
	}
}

func protected(body *hclsyntax.Body) bool {
	return slices.ContainsFunc(body.Blocks, func(b *hclsyntax.Block) bool {
		_, set := b.Body.Attributes["prevent_destroy"]
		return b.Type == "lifecycle" && set
	})
}

// providers records the required_providers blocks of a terraform block.
func (in *inspector) providers(body *hclsyntax.Body) {
	for _, block := range body.Blocks {
		if block.Type != "required_providers" {
			continue
		}
		for name, attribute := range block.Body.Attributes {
			in.module.RequiredProviders[name] = source(attribute.Expr)
			first(in.module.Providers, name, position(attribute.NameRange.Ptr(), ""))
		}
	}
}

// provider records the provider of a resource or data source: that of its provider argument, else the first word of its type.
func (in *inspector) provider(block *hclsyntax.Block) {
	name, _, _ := strings.Cut(block.Labels[0], "_")
	if argument, ok := block.Body.Attributes["provider"]; ok {
		if traversal, diags := hcl.AbsTraversalForExpr(argument.Expr); !diags.HasErrors() {
			name = traversal.RootName()
		}
	}
	first(in.module.Providers, name, position(block.DefRange().Ptr(), ""))
}

// first notes a place unless an earlier one is known; files are read in the order of their names.
func first(places map[string]diag.Pos, name string, pos diag.Pos) {
	if known, ok := places[name]; !ok || before(pos, known) {
		places[name] = pos
	}
}

// source returns the literal source of an entry of required_providers, "" when it has none.
func source(expression hcl.Expression) string {
	pairs, diags := hcl.ExprMap(expression)
	if diags.HasErrors() {
		return ""
	}
	for _, pair := range pairs {
		if hcl.ExprAsKeyword(pair.Key) != "source" && literal(pair.Key) != "source" {
			continue
		}
		return literal(pair.Value)
	}
	return ""
}

// uses records every var.NAME, and what asks for the workspace, of a body and the bodies in it. Local names of for expressions hide "var" as they do in HCL.
func (in *inspector) uses(body *hclsyntax.Body) {
	for _, attribute := range body.Attributes {
		for _, traversal := range hclsyntax.Variables(attribute.Expr) {
			in.use(traversal)
		}
	}
	for _, block := range body.Blocks {
		in.uses(block.Body)
	}
}

func (in *inspector) use(traversal hcl.Traversal) {
	if len(traversal) < 2 {
		return
	}
	step, ok := traversal[1].(hcl.TraverseAttr)
	root := traversal.RootName()
	if ok && step.Name == "workspace" && (root == "terraform" || root == "tofu") {
		in.module.AsksWorkspace = true
	}
	if !ok || root != "var" {
		return
	}
	pos := position(traversal.SourceRange().Ptr(), "")
	if isReserved(step.Name) {
		in.diags.Errorf(pos, "reserved-name", "the name %q is reserved", "var."+step.Name)
		return
	}
	first(in.used, step.Name, pos)
}

// before orders places of the same run: files are read in the order of their names.
func before(a, b diag.Pos) bool {
	return a.File == b.File && (a.Line < b.Line || a.Line == b.Line && a.Column < b.Column)
}

// finish sorts the lists and works out what is undeclared.
func (in *inspector) finish() {
	m := in.module
	for _, list := range []*[]string{&m.Outputs, &m.SensitiveOutputs, &m.Resources, &m.Data, &m.Modules, &m.Protected} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	for name, pos := range in.used {
		if _, declared := m.Variables[name]; !declared {
			m.Undeclared[name] = pos
		}
	}
}

// position converts a range; a nil range stands for the whole file.
func position(r *hcl.Range, file string) diag.Pos {
	if r == nil {
		return diag.Pos{File: file}
	}
	return diag.Pos{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
}

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
