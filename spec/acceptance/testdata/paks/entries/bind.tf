terraform {
  required_providers {
    directory = {
      source  = "registry.terraform.io/service-adapter/directory"
      version = "1.0.0"
    }
  }
}

variable "path" { type = string }
variable "name" { type = string }
variable "content" { type = string }
variable "failure" { type = number }
variable "number" { type = number }
variable "tree" {
  type    = any
  default = null
}
variable "drain" { type = string }
variable "route" { type = string }

locals {
  failures = ["", "the disk is full", "the account is locked", "the account is taken", "the account is gone"]
}

resource "directory_entry" "account" {
  path    = var.path
  name    = "${var.name}-account"
  content = var.content
}

resource "directory_entry" "grant" {
  path    = var.path
  name    = "${var.name}-grant"
  content = directory_entry.account.name
  fail    = local.failures[var.failure]
}

output "secret" {
  value     = directory_entry.account.secret
  sensitive = true
}

output "echo" {
  value = { content = var.content, number = var.number, tree = var.tree }
}

output "status" {
  value = "ready"
}

output "syslog_drain_url" {
  value = var.drain
}

output "route_service_url" {
  value = var.route
}
