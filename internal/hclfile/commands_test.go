package hclfile_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/hclfile"
)

var _ = Describe("the commands of a template", func() {
	It("are those of provisioners, data sources and shell resources, whatever the values of their arguments", func() {
		files := map[string]string{
			"main.tf": `
variable "command" { default = "no command" }
resource "terraform_data" "account" {
  input = "no command"
  provisioner "local-exec" {
    when        = destroy
    interpreter = ["sh", "-c"]
    command     = "tool delete   --host ${self.input.host}"
    environment = { USER = "u", "ADDRESS" = var.a }
  }
}
data "external" "state" {
  program = ["tool", "read"]
}
`,
			"again.tf": `
resource "terraform_data" "again" {
  provisioner "local-exec" {
    interpreter = ["sh", "-c"]
    command     = "tool delete --host ${var.host}"
    environment = { ADDRESS = "", USER = "" }
  }
}
resource "shell_script" "s" {
  lifecycle_commands {
    create = "tool create"
    delete = file("${path.module}/delete.sh")
  }
}
`,
			"broken.tf": `resource "x" {`,
		}
		Expect(hclfile.Commands(files)).To(Equal([]string{
			`"tool create"`,
			`"tool delete --host ${…}" ["sh", "-c"] ADDRESS USER`,
			`["tool", "read"]`,
			`file("${…}/delete.sh")`,
		}))
	})
})
