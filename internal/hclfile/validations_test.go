package hclfile_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/hclfile"
)

var _ = Describe("a template without validations", func() {
	It("keeps everything but the validation blocks of its variables", func() {
		files := map[string]string{
			"main.tf": `# A comment stays.
variable "role" {
  type = string # so does this one
  validation {
    condition     = var.role != ""
    error_message = "Choose a role."
  }
  validation {
    condition     = var.role != "admin"
    error_message = "Not this one."
  }
  default = "reader"
}

resource "terraform_data" "validation" {
  input = { validation = var.role }
}
`,
			"other.tf":  "# no such block\n",
			"broken.tf": "variable \"validation\" {",
		}
		stripped := hclfile.WithoutValidations(files)
		Expect(stripped["main.tf"]).To(Equal(`# A comment stays.
variable "role" {
  type    = string # so does this one
  default = "reader"
}

resource "terraform_data" "validation" {
  input = { validation = var.role }
}
`))
		Expect(stripped["other.tf"]).To(Equal(files["other.tf"]))
		Expect(stripped["broken.tf"]).To(Equal(files["broken.tf"]))
		Expect(files["main.tf"]).To(ContainSubstring("Choose a role"), "the argument is not changed")
	})
})
