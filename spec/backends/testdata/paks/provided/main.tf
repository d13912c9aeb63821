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
  content = var.content
}
resource "directory_entry" "access" {
  path    = directory_entry.data.path
  name    = "${directory_entry.data.name}-access"
  content = "${var.generated} ${var.password}"
  fail    = var.failure
  lifecycle {
    prevent_destroy = true
  }
}
output "host" { value = "${directory_entry.data.name}.example.com" }
output "content" { value = directory_entry.data.content }
output "key" {
  value     = directory_entry.access.secret
  sensitive = true
}
