variable "hosts" {
  type = list(string)
}

output "hosts" {
  value = var.hosts
}
