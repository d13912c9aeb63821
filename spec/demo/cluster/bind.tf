variable "username" { type = string }
variable "host" { type = string }

resource "terraform_data" "login" {
  input = var.username
}

output "username" { value = terraform_data.login.output }
output "uri" { value = "cluster://${terraform_data.login.output}@${var.host}" }
