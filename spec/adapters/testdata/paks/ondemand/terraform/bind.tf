# Nothing is made: a binding has the credentials of the instance.

variable "addresses" {
  type = list(string)
}

variable "plan_id" {
  type = string
}

output "ip" {
  value = var.addresses
}

output "ips" {
  value = join(",", var.addresses)
}

output "tier" {
  value = var.plan_id == "65a9a2e6-3dac-5540-bb5d-afa453b64639" ? "gold" : null
}
