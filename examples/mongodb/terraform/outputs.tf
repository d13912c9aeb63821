# Clients of a sharded cluster connect to its routers. The routers are the first of its servers, ordered by the sum of the bytes of their
# addresses.
locals {
  sorted  = sort([for i, host in var.hosts : format("%04d %04d %s", try(sum(split(".", host)), 0), i, host)])
  routers = [for i, entry in local.sorted : split(" ", entry)[2] if i < var.routers]
  servers = [for host in var.kind == "sharded_cluster" ? local.routers : var.hosts : "${host}:28000"]
}

output "servers" {
  value = local.servers
}

output "uri" {
  value     = "mongodb://${var.username}:${var.password}@${join(",", local.servers)}/${var.database}?${var.options}"
  sensitive = true
}
