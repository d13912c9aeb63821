package hclfile_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/hclfile"
)

var _ = Describe("Inspect of ephemeral variables", func() {
	const secret = "variable \"pw\" { ephemeral = true }\n"

	It("names the variables that a block declares ephemeral", func() {
		module, diags := hclfile.Inspect(map[string]string{
			"a.tf": `
variable "plain" {}
variable "no" { ephemeral = false }
variable "yes" { ephemeral = true }
variable "text" { ephemeral = "true" }
variable "one" { ephemeral = "1" }
variable "late" {}
`,
			"b_override.tf": `variable "late" { ephemeral = true }`,
		})
		Expect(diags.Err()).NotTo(HaveOccurred())
		Expect(module.EphemeralVariables()).To(Equal([]string{"late", "one", "text", "yes"}))
		Expect(module.ProvidersRead).To(BeEmpty())
	})

	It("can be skipped for files that do not contain the word", func() {
		Expect(hclfile.MayBeEphemeral(map[string]string{"a.tf": `variable "a" {}`})).To(BeFalse())
		Expect(hclfile.MayBeEphemeral(map[string]string{"a.tf": "", "b.tf": secret})).To(BeTrue())
	})

	DescribeTable("reports whether a provider block may read one",
		func(text string, reads bool) {
			module, diags := hclfile.Inspect(map[string]string{"main.tf": secret + text})
			Expect(diags.Err()).NotTo(HaveOccurred())
			if reads {
				Expect(module.ProvidersRead).To(Equal([]string{"pw"}))
			} else {
				Expect(module.ProvidersRead).To(BeEmpty())
			}
		},
		Entry("nowhere", `resource "a_b" "c" { password_wo = var.pw }`, false),
		Entry("directly", `provider "a" { password = var.pw }`, true),
		Entry("in a block of a provider block", `provider "a" {
  login { password = "x${var.pw}" }
}`, true),
		Entry("by local values", `locals {
  one = var.pw
  two = [local.one]
}
provider "a" { password = local.two[0] }`, true),
		Entry("by a local value that no provider block reads", `locals { one = var.pw }
provider "a" { password = "x" }`, false),
		Entry("by local values that read each other", `locals {
  one = local.two
  two = local.one
}
provider "a" { password = local.two }`, false),
		Entry("by an ephemeral resource", `ephemeral "vault_secret" "s" { token = var.pw }
provider "a" { password = ephemeral.vault_secret.s.value }`, true),
		Entry("by another ephemeral resource", `ephemeral "vault_secret" "s" { token = var.pw }
provider "a" { password = ephemeral.vault_secret.t.value }`, false),
		Entry("by a module, which may contain provider blocks",
			"module \"m\" {\n  source = \"x\"\n  in = var.pw\n}", true),
		Entry("by the state encryption", `terraform {
  encryption {
    key_provider "pbkdf2" "k" { passphrase = var.pw }
  }
}`, true),
		Entry("by a resource, which cannot pass it on", `resource "a_b" "c" { password_wo = var.pw }
provider "d" { host = a_b.c.host }`, false),
		Entry("by a reference without a name", `provider "a" { all = values(local) }`, true),
		Entry("by an index instead of a name", `provider "a" { password = var["pw"] }`, true),
		Entry("by an incomplete reference", `provider "a" { password = ephemeral.vault_secret["s"].value }`, true),
	)
})
