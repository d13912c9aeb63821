variable "name" { type = string }
variable "servers" { type = number }
variable "admin_password" {
  type      = string
  sensitive = true
}

resource "terraform_data" "cluster" {
  input = [for i in range(var.servers) : "${var.name}-${i}.example.com"]

  # The command represents a cloud, whose resources take minutes to create.
  provisioner "local-exec" {
    command = "sleep 12"
  }
}

resource "terraform_data" "administrator" {
  input      = var.admin_password
  depends_on = [terraform_data.cluster]
}

output "host" { value = terraform_data.cluster.output[0] }
output "servers" { value = length(terraform_data.cluster.output) }
