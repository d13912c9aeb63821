variable "host" {
  type = string
}

variable "scheme" {
  type = string
}

variable "password" {
  type      = string
  sensitive = true
}

variable "generated_secret" {
  type      = string
  sensitive = true
}

variable "odb_managed_secret" {
  type      = string
  sensitive = true
}

variable "secret" {
  type      = string
  sensitive = true
}

variable "dns_addresses" {
  type = map(string)
}

locals {
  port     = 6379
  username = var.acl_users ? local.user : ""
  password = var.acl_users ? var.user_password : var.password
}

output "host" {
  value = var.host
}

output "port" {
  value = local.port
}

output "username" {
  value = local.username == "" ? null : local.username
}

output "password" {
  value     = local.password
  sensitive = true
}

output "uri" {
  value     = "${var.scheme}://${local.username}:${urlencode(local.password)}@${var.host}:${local.port}"
  sensitive = true
}

output "generated_secret" {
  value     = var.generated_secret == "" ? null : var.generated_secret
  sensitive = true
}

output "odb_managed_secret" {
  value     = var.odb_managed_secret == "" ? null : var.odb_managed_secret
  sensitive = true
}

output "secret" {
  value     = var.secret == "" ? null : var.secret
  sensitive = true
}

output "dns_addresses" {
  value = length(var.dns_addresses) == 0 ? null : var.dns_addresses
}
