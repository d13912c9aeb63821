terraform {
  required_providers {
    directory = {
      source = "registry.terraform.io/service-adapter/directory"
    }
  }
}

resource "directory_entry" "grant" {
  path = var.path
  name = "${directory_entry.data.name}-grant"
  fail = var.failure
}

output "host" {
  value = "${directory_entry.data.name}.example.com"
}

output "content" {
  value = directory_entry.data.content
}

output "key" {
  value     = directory_entry.data.secret
  sensitive = true
}

output "status" {
  value = "the file is there"
}
