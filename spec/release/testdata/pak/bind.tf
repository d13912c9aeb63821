terraform {
  required_providers {
    directory = {
      source  = "registry.terraform.io/service-adapter/directory"
      version = "1.0.0"
    }
  }
}

variable "path" { type = string }
variable "name" { type = string }
variable "password" {
  type      = string
  sensitive = true
}

resource "directory_entry" "account" {
  path = var.path
  name = var.name
}

output "password" {
  value     = var.password
  sensitive = true
}

output "secret" {
  value     = directory_entry.account.secret
  sensitive = true
}
