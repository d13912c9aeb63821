# Nothing is made: all bindings have the cluster's user.

variable "service_type" {
  type = string
}

variable "servers" {
  type = list(string)
}

variable "consoles" {
  type = list(string)
}

variable "port" {
  type = number
}

variable "namespace" {
  type = string
}

variable "user" {
  type = string
}

variable "password" {
  type      = string
  sensitive = true
}

variable "route" {
  type = string
}

output "service_type" {
  value = var.service_type
}

output "aerospike_server_ips" {
  value = var.servers
}

output "aerospike_amc_ips" {
  value = var.consoles
}

output "hostname" {
  value = var.servers[0]
}

output "port" {
  value = var.port
}

output "namespace" {
  value = var.namespace
}

output "user" {
  value = var.user
}

output "password" {
  value     = var.password
  sensitive = true
}

output "amc_address" {
  value = "https://${var.route}"
}
