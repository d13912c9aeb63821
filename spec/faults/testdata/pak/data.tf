terraform {
  required_providers {
    directory = { source = "registry.terraform.io/service-adapter/directory" }
  }
}

resource "directory_entry" "data" {
  path    = var.path
  name    = "${var.name}-data"
  content = "${var.content} ${terraform_data.role.output}"
}

resource "directory_entry" "access" {
  path    = directory_entry.data.path
  name    = "${directory_entry.data.name}-access"
  content = var.content
  fail    = var.failure == "apply" ? "the access is refused" : ""
}

# The command that runs at the destruction alone removes this one.
resource "terraform_data" "session" {
  input = "${directory_entry.data.path}/${var.name}-session"

  provisioner "local-exec" {
    command = "touch '${self.input}'"
  }

  provisioner "local-exec" {
    when    = destroy
    command = "rm -f '${self.input}'"
  }
}

output "host" { value = "${directory_entry.data.name}.example.com" }
