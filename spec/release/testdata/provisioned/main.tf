terraform {
  required_providers {
    directory = { source = "registry.terraform.io/service-adapter/directory" }
  }
}

variable "password" {
  type      = string
  sensitive = true
}

resource "directory_entry" "data" {
  path    = var.path
  name    = var.name
  content = "${var.generated} ${var.password}"
  fail    = var.failure
}

output "key" {
  value     = directory_entry.data.secret
  sensitive = true
}
