output "hostname" {
  value = var.hostname
}

output "port" {
  value = var.port
}

output "name" {
  value = pgaccess_database.database.name
}

output "owner" {
  value = pgaccess_database.database.owner
}

output "ca_cert" {
  value = var.ca_cert
}

output "status" {
  value = "created db ${pgaccess_database.database.name}"
}
