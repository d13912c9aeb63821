terraform {
  required_providers {
    directory = { source = "registry.terraform.io/service-adapter/directory" }
    random    = { source = "registry.terraform.io/hashicorp/random" }
  }
}
resource "directory_entry" "database" {
  path    = "./data"
  name    = "database"
  content = "line one\nline \"two\"\\\n\ttab $${var.x} %%{ if true } $$$${ <<EOT\nEOT\n größe 数据 🎉"
}
resource "directory_entry" "replica" {
  path = "./data"
  name = "replica"
}
resource "random_password" "admin" {
  length           = 20
  override_special = "$%%{}"
}
resource "random_string" "many" {
  count  = 2
  length = 4
}
resource "terraform_data" "settings" {
  input = {
    wide     = 123456789012345678901234567890
    max      = 9223372036854775807
    fraction = 0.1
    small    = -0.000000000000000000001
    list     = ["a", 1, true, null, []]
    for      = { null = null, "a b" = "c", "$${x}" = "" }
    secret   = sensitive("hunter2")
    size     = 3
  }
}
# Made with: tofu import terraform_data.imported some-id; tofu apply; tofu show -json; tofu providers schema -json
resource "terraform_data" "imported" {
}
