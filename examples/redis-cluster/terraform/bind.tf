# A binding creates no resource: all clients of a cluster have the same password.

variable "hosts" {
  type = list(string)
}

variable "tls" {
  type = bool
}

variable "password" {
  type      = string
  sensitive = true
}

variable "ca_cert" {
  type = string
}

locals {
  port = 6379
}

output "hosts" {
  value = var.hosts
}

output "port" {
  value = local.port
}

output "password" {
  value     = var.password
  sensitive = true
}

output "uris" {
  value     = [for host in var.hosts : "${var.tls ? "rediss" : "redis"}://:${urlencode(var.password)}@${host}:${local.port}"]
  sensitive = true
}

output "ca_cert" {
  value = var.ca_cert == "" ? null : var.ca_cert
}
