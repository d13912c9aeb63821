# A binding creates no resource: all clients of a server have the same password.

variable "host" {
  type = string
}

variable "password" {
  type      = string
  sensitive = true
}

locals {
  port = 6379
}

output "host" {
  value = var.host
}

output "port" {
  value = local.port
}

output "password" {
  value     = var.password
  sensitive = true
}

output "uri" {
  value     = "redis://:${var.password}@${var.host}:${local.port}"
  sensitive = true
}
