package hclfile

import (
	"maps"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// WithoutValidations returns a copy of the files of a template, file name → text, without the validation blocks of its
// variables. It is used for destroying: a value that fails a validation must not keep OpenTofu from destroying
// resources. Files without such a block and files with syntax errors have the same text in the copy. The parameter is
// not changed; the result is nil if files is nil.
func WithoutValidations(files map[string]string) map[string]string {
	stripped := maps.Clone(files)
	for name, text := range files {
		if !strings.Contains(text, "validation") {
			continue
		}
		file, diags := hclwrite.ParseConfig([]byte(text), name, hcl.InitialPos)
		if diags.HasErrors() {
			continue
		}
		for _, block := range file.Body().Blocks() {
			if block.Type() == "variable" {
				removeBlocks(block.Body(), "validation")
			}
		}
		stripped[name] = string(file.Bytes())
	}
	return stripped
}

// removeBlocks removes the blocks of the type blockType, such as "validation", that are directly in a body. It changes
// the body; blocks within other blocks stay.
func removeBlocks(body *hclwrite.Body, blockType string) {
	for _, block := range body.Blocks() {
		if block.Type() == blockType {
			body.RemoveBlock(block)
		}
	}
}
