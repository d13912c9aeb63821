terraform {
  required_providers {
    directory = { source = "registry.terraform.io/service-adapter/directory" }
  }
}

resource "directory_entry" "account" {
  path    = var.path
  name    = "${var.name}-account"
  content = terraform_data.role.output
}

resource "directory_entry" "grant" {
  path = directory_entry.account.path
  name = "${directory_entry.account.name}-grant"
  fail = var.failure == "apply" ? "the grant is refused" : ""
}

# The command that runs at the destruction alone removes this one.
resource "terraform_data" "session" {
  input = "${directory_entry.account.path}/${var.name}-session"

  provisioner "local-exec" {
    command = "touch '${self.input}'"
  }

  provisioner "local-exec" {
    when    = destroy
    command = "rm -f '${self.input}'"
  }
}

output "account" { value = directory_entry.account.name }
