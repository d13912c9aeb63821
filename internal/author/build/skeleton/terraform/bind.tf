variable "host" {
  type = string
}

variable "password" {
  type      = string
  sensitive = true
}

output "host" {
  value = var.host
}

output "port" {
  value = 4000
}

output "password" {
  value     = var.password
  sensitive = true
}
