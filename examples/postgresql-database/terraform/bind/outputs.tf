output "uri" {
  value     = "postgresql://${pgaccess_role.binding.name}:${pgaccess_role.binding.password}@${local.address}?sslmode=require"
  sensitive = true
}

output "jdbc_url" {
  value = join("", [
    "jdbc:postgresql://${local.address}?sslmode=require",
    "&user=${pgaccess_role.binding.name}&password=${pgaccess_role.binding.password}",
  ])
  sensitive = true
}

output "username" {
  value = pgaccess_role.binding.name
}

output "password" {
  value     = pgaccess_role.binding.password
  sensitive = true
}
