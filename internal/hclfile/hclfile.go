// Package hclfile reads the OpenTofu files of a template without running OpenTofu. Inspect returns what the files
// declare and use: variables, outputs, resources, modules and providers. Regenerate writes the main.tf of a template
// again after an import. The package supports native syntax only, and is the only importer of hashicorp/hcl/v2.
package hclfile

import (
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"service-adapter/internal/diag"
)

// A Module describes what the files of one template declare and use, such as variables, outputs, resources, module
// calls and providers. Inspect returns it. The lists of names are sorted and have no repetitions; an empty list may be
// nil. The maps of a Module that Inspect returned are never nil. The zero value describes a template without any
// declarations.
type Module struct {
	// Variables are the variable blocks by name.
	Variables map[string]Variable
	// Outputs are the names of the output blocks.
	Outputs []string
	// SensitiveOutputs are the names of the outputs that set sensitive to true, or to the text "true", which OpenTofu
	// accepts as well.
	SensitiveOutputs []string
	// OutputPositions holds the position of the block of each output.
	OutputPositions map[string]diag.Pos
	// Resources are the managed resources, as "type.name".
	Resources []string
	// Data are the data sources, as "data.type.name".
	Data []string
	// Modules are the module calls, as "module.name".
	Modules []string
	// Calls are the module calls by name.
	Calls map[string]Call
	// Protected are the resources with a lifecycle block that sets prevent_destroy to any value, as "type.name".
	Protected []string
	// RequiredProviders are the sources in required_providers by local name. The source is "" if an entry has none.
	RequiredProviders map[string]string
	// Providers holds, by local name, the position at which each provider is used first: in required_providers, in a
	// provider block, or by a resource, ephemeral resource or data source.
	Providers map[string]diag.Pos
	// Aliases reports whether a provider block with an alias or a for_each exists, so that a provider can have several
	// configurations.
	Aliases bool
	// Repeated are the blocks that declare a name again, which OpenTofu rejects.
	Repeated []Repeated
	// Undeclared holds the position of the first use of each var.NAME that has no variable block.
	Undeclared map[string]diag.Pos
	// UsesWorkspaceName reports whether a file uses the name of the workspace, as terraform.workspace or
	// tofu.workspace.
	UsesWorkspaceName bool
	// ProvidersRead are the ephemeral variables whose values provider blocks may read.
	ProvidersRead []string
}

// A Call is a module block of a template: its source, and the position of the value of the source argument, or of the
// block if the argument is missing. The source is "" if the argument is missing or not a literal string. The zero
// value is a call without source and position.
type Call struct {
	// Source is the source argument. It is "" if the argument is missing or not a literal string.
	Source string
	// Pos is the position of the value of the source argument, or of the block if it has none.
	Pos diag.Pos
}

// A Variable is a variable block. HasDefault reports whether it has a default, which may be null. Sensitive and
// Ephemeral report whether it sets the arguments sensitive and ephemeral to true, or to the text "true", which OpenTofu
// accepts as well. If several blocks have the name of the variable, as in override files, the Variable describes all of
// them together: each property is true if one of the blocks sets it, and Pos is the position of the last block. The
// zero value is a variable without these properties.
type Variable struct {
	HasDefault bool
	Sensitive  bool
	Ephemeral  bool
	Pos        diag.Pos
}

// A Repeated is a block, or an entry of a locals block, that declares a name that was declared before, which OpenTofu
// rejects. It contains the declared name, such as `variable "size"`, the position of the repetition, and that of the
// first declaration. Blocks of override files are not repetitions.
type Repeated struct {
	Name       string // such as `variable "size"`
	Pos, First diag.Pos
}

// Inspect reads the files of a template. files maps file names ("main.tf") to texts. Inspect reports as error
// diagnostics: syntax errors; in files without syntax errors, top-level blocks with a wrong number of labels; file
// names that are not plain names ending in .tf or .tofu, whose files are not read; and reserved names, which begin with
// "_binding" or "_complete", of variables, outputs and resources, and in references var.NAME. It reports no warnings.
// Names that are declared twice or not at all are not diagnostics; see Module.Repeated and Module.Undeclared.
//
// The Module and the list are never nil; the list is empty without errors. With errors, the Module describes the parts
// that could be read.
func Inspect(files map[string]string) (*Module, *diag.List) {
	in := &inspector{
		module: &Module{
			Variables:         map[string]Variable{},
			OutputPositions:   map[string]diag.Pos{},
			RequiredProviders: map[string]string{},
			Providers:         map[string]diag.Pos{},
			Undeclared:        map[string]diag.Pos{},
			Calls:             map[string]Call{},
		},
		diags:    &diag.List{},
		used:     map[string]diag.Pos{},
		declared: map[string]diag.Pos{},
		flow:     map[string][]hcl.Traversal{},
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		in.readFile(name, files[name])
	}
	in.finish()
	return in.module, in.diags
}

// An inspector collects a Module from one file after the other, with the diagnostics and the names that are declared
// and used so far. Inspect creates it; the zero value cannot be used, because its maps are nil.
type inspector struct {
	module *Module
	diags  *diag.List
	used   map[string]diag.Pos // the first use of each var.NAME, by NAME
	// declared holds the position of the first declaration of each name. Blocks of override files are not in it,
	// because they change other blocks and declare nothing.
	declared map[string]diag.Pos
	// flow holds the references that providersRead follows, by node; see recordFlow.
	flow map[string][]hcl.Traversal
}

// readFile adds the declarations and uses in one file to the module and the maps of in. name is the file name, such
// as "main.tf", and text the content. Files must be read in the order of their names. readFile reports as error
// diagnostics: a name that is not a plain name ending in .tf or .tofu, in which case the file is ignored, syntax
// errors or, without these, top-level blocks with a wrong number of labels, and reserved names. Of a file with syntax
// errors, the parts that could be parsed are added. Blocks of an override file are added to the module as well, so a
// variable that only an override file contains is not Undeclared. They are not recorded in in.declared, because they
// never repeat a declaration.
func (in *inspector) readFile(name, text string) {
	if !nativeSyntax(name) {
		in.diags.Errorf(diag.Pos{File: name}, "template-name",
			"a template file must have a plain name that ends in .tf or .tofu; JSON syntax is not supported")
		return
	}
	file, diags := hclsyntax.ParseConfig([]byte(text), name, hcl.InitialPos)
	if file == nil {
		in.reportSyntax(name, diags)
		return
	}
	if !diags.HasErrors() {
		_, _, diags = file.Body.PartialContent(topLevelSchema())
	}
	in.reportSyntax(name, diags)
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok {
		return
	}
	for _, block := range body.Blocks {
		in.recordBlock(block)
		if !isOverride(name) {
			in.declare(block)
		}
	}
	in.recordReferences(body)
}

// reportSyntax adds the errors among the diagnostics of the HCL library to in.diags, and ignores the warnings. name is
// the file of errors without a position.
func (in *inspector) reportSyntax(name string, diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Severity == hcl.DiagError {
			detail := strings.TrimSuffix(d.Detail, ".")
			in.diags.Errorf(position(d.Subject, name), "hcl-syntax", "%s: %s", d.Summary, detail)
		}
	}
}

// nativeSyntax reports whether a file name has the ending .tf or .tofu of native syntax, contains no slash, backslash
// or NUL, and does not begin with a period. It returns false for other endings, such as .tf.json.
func nativeSyntax(name string) bool {
	return (strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tofu")) &&
		!strings.ContainsAny(name, "/\\\x00") && !strings.HasPrefix(name, ".")
}

// recordBlock adds the declarations in one top-level block to the module: a variable, output, resource, data source,
// module call or provider, or the required providers of a terraform block. A resource that sets prevent_destroy is
// also added to Protected, and a provider with an alias or a for_each sets Aliases. recordBlock also records the
// provider that a resource, a data source, an ephemeral resource or a check uses, and the references for
// providersRead. Blocks of other types are ignored. A block that does not have the number of labels that its type
// requires is ignored as well. The reserved name of a variable, output or resource is reported as an error, and the
// block is recorded all the same.
func (in *inspector) recordBlock(block *hclsyntax.Block) {
	if len(block.Labels) != len(labels[block.Type]) {
		return
	}
	in.recordFlow(block)
	m, address := in.module, strings.Join(block.Labels, ".")
	switch block.Type {
	case "variable":
		in.checkReserved(address, block)
		m.Variables[address] = variable(m.Variables[address], block)
	case "output":
		in.recordOutput(address, block)
	case "resource":
		in.checkReserved(block.Labels[1], block)
		m.Resources = append(m.Resources, address)
		in.recordProvider(block)
		if protected(block.Body) {
			m.Protected = append(m.Protected, address)
		}
	case "data":
		m.Data = append(m.Data, "data."+address)
		in.recordProvider(block)
	case "ephemeral":
		in.recordProvider(block)
	case "check":
		for _, nested := range block.Body.Blocks {
			if nested.Type == "data" && len(nested.Labels) == len(labels["data"]) {
				in.recordProvider(nested)
			}
		}
	case "provider":
		recordFirst(m.Providers, address, position(block.DefRange().Ptr(), ""))
		m.Aliases = m.Aliases || block.Body.Attributes["alias"] != nil || block.Body.Attributes["for_each"] != nil
	case "module":
		m.Modules = append(m.Modules, "module."+address)
		m.Calls[address] = call(block)
	case "terraform":
		in.recordRequiredProviders(block.Body)
	}
}

// recordOutput records an output block in the module: its name, its position, and whether it is sensitive (see
// isSensitive). Of several blocks with the name, the first position is recorded, and the output is sensitive if one of
// them is. A reserved name is recorded and also reported as an error.
func (in *inspector) recordOutput(name string, block *hclsyntax.Block) {
	in.checkReserved(name, block)
	in.module.Outputs = append(in.module.Outputs, name)
	if isSensitive(block) {
		in.module.SensitiveOutputs = append(in.module.SensitiveOutputs, name)
	}
	recordFirst(in.module.OutputPositions, name, position(block.DefRange().Ptr(), ""))
}

// checkReserved reports an error diagnostic, at the last label of the block, if name, which the block declares, is
// reserved because it begins with "_binding" or "_complete". The block must have a label.
func (in *inspector) checkReserved(name string, block *hclsyntax.Block) {
	if isReserved(name) {
		in.diags.Errorf(position(block.LabelRanges[len(block.LabelRanges)-1].Ptr(), ""), "reserved-name",
			"the name %q of this %s is reserved; names must not begin with _binding or _complete", name, block.Type)
	}
}

// isReserved reports whether a name begins with "_binding" or "_complete". Such names are reserved for the adapter's
// own resources, outputs and variables.
func isReserved(name string) bool {
	return strings.HasPrefix(name, "_binding") || strings.HasPrefix(name, "_complete")
}

// call returns the Call of a module block: its source and the position of the value of the argument source. If the
// block has no such argument, the source is "" and the position is that of the block. If the value is not a literal
// string, the source is "".
func call(block *hclsyntax.Block) Call {
	c := Call{Pos: position(block.DefRange().Ptr(), "")}
	if source, ok := block.Body.Attributes["source"]; ok {
		c.Pos = position(source.Expr.Range().Ptr(), "")
		c.Source = literal(source.Expr)
	}
	return c
}

// variable returns the Variable of a block, at the position of the block. Its other properties are true if the block or
// other has them. other describes the blocks of the same variable that were read before, such as one that an override
// file changes; it is the zero value if there are none.
func variable(other Variable, block *hclsyntax.Block) Variable {
	_, hasDefault := block.Body.Attributes["default"]
	return Variable{
		Pos:        position(block.DefRange().Ptr(), ""),
		HasDefault: hasDefault || other.HasDefault,
		Sensitive:  isSensitive(block) || other.Sensitive,
		Ephemeral:  isEphemeral(block) || other.Ephemeral,
	}
}

// protected reports whether the body of a resource has a lifecycle block that sets prevent_destroy, to any value, even
// to false.
func protected(body *hclsyntax.Body) bool {
	return slices.ContainsFunc(body.Blocks, func(b *hclsyntax.Block) bool {
		_, set := b.Body.Attributes["prevent_destroy"]
		return b.Type == "lifecycle" && set
	})
}

// recordRequiredProviders records the entries of required_providers in the body of a terraform block: their sources by
// name in RequiredProviders, and their positions in Providers unless an earlier use of the provider is recorded there.
// An entry without a literal source has the source "". Of several entries with the same name, the source of the last
// one is recorded.
func (in *inspector) recordRequiredProviders(body *hclsyntax.Body) {
	for _, block := range body.Blocks {
		if block.Type != "required_providers" {
			continue
		}
		for name, attribute := range block.Body.Attributes {
			in.module.RequiredProviders[name] = source(attribute.Expr)
			recordFirst(in.module.Providers, name, position(attribute.NameRange.Ptr(), ""))
		}
	}
}

// recordProvider records in the module that a resource, data source or ephemeral resource uses a provider, with the
// position of the block unless an earlier one is recorded. The local name of the provider is the first name in the
// argument provider, such as aws in provider = aws.east. If the block has no such argument or its value is not a
// reference, the name is the part of the resource type before the first underscore, such as aws for aws_instance. The
// type is the first label, which the block must have.
func (in *inspector) recordProvider(block *hclsyntax.Block) {
	name, _, _ := strings.Cut(block.Labels[0], "_")
	if argument, ok := block.Body.Attributes["provider"]; ok {
		if traversal, diags := hcl.AbsTraversalForExpr(argument.Expr); !diags.HasErrors() {
			name = traversal.RootName()
		}
	}
	recordFirst(in.module.Providers, name, position(block.DefRange().Ptr(), ""))
}

// recordFirst stores the position of a name in positions, unless positions already has one of the name that is earlier.
// Callers read the files in the order of their names, so a stored position in another file counts as earlier. Within a
// file, the smaller position is kept. positions must not be nil.
func recordFirst(positions map[string]diag.Pos, name string, pos diag.Pos) {
	if stored, ok := positions[name]; !ok || precedes(pos, stored) {
		positions[name] = pos
	}
}

// source returns the source of an entry of required_providers, such as "hashicorp/aws" of { source = "hashicorp/aws" }.
// It returns "" if the entry is not an object, as the version constraint in aws = "5.0", has no key source, or has a
// source that is not a literal string.
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

// recordReferences records the references var.NAME and those to the name of the workspace in a body and the blocks in
// it, as recordReference does. A reference to a variable with a reserved name is reported as an error. A local name of
// a for expression that is called "var" hides the variables, as it does in HCL.
func (in *inspector) recordReferences(body *hclsyntax.Body) {
	for _, attribute := range body.Attributes {
		for _, traversal := range hclsyntax.Variables(attribute.Expr) {
			in.recordReference(traversal)
		}
	}
	for _, block := range body.Blocks {
		in.recordReferences(block.Body)
	}
}

// recordReference records a reference to a variable, var.NAME, in in.used, with its position unless an earlier one is
// recorded. For a reference to the name of the workspace, terraform.workspace or tofu.workspace, it sets
// UsesWorkspaceName of the module. It ignores any other reference, including var["NAME"]. A reference to a variable
// with a reserved name is reported as an error and not recorded.
func (in *inspector) recordReference(traversal hcl.Traversal) {
	if len(traversal) < 2 {
		return
	}
	step, ok := traversal[1].(hcl.TraverseAttr)
	root := traversal.RootName()
	if ok && step.Name == "workspace" && (root == "terraform" || root == "tofu") {
		in.module.UsesWorkspaceName = true
	}
	if !ok || root != "var" {
		return
	}
	pos := position(traversal.SourceRange().Ptr(), "")
	if isReserved(step.Name) {
		in.diags.Errorf(pos, "reserved-name", "the name %q is reserved", "var."+step.Name)
		return
	}
	recordFirst(in.used, step.Name, pos)
}

// precedes reports whether a precedes b in the same file. It returns false for positions in different files.
func precedes(a, b diag.Pos) bool {
	return a.File == b.File && (a.Line < b.Line || a.Line == b.Line && a.Column < b.Column)
}

// finish completes the module after the last file: it sorts the lists of names and removes repetitions, and sets
// Undeclared, the variables that are used but not declared, and ProvidersRead.
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
	m.ProvidersRead = in.providersRead()
}

// position returns the start of a range: its file, line and column. For a nil range it returns the position of the
// whole file named file, without a line; the parameter file is used only then.
func position(r *hcl.Range, file string) diag.Pos {
	if r == nil {
		return diag.Pos{File: file}
	}
	return diag.Pos{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
}
