terraform {
  required_providers {
    directory = { source = "registry.terraform.io/service-adapter/directory" }
  }
}

variable "key" {
  type      = string
  sensitive = true
}

resource "directory_entry" "account" {
  path    = var.path
  name    = var.name
  content = var.key
}

output "key" {
  value     = var.key
  sensitive = true
}
