# A user for each binding, made and deleted by the pak's command mongodb-user. Passwords are in its environment, never arguments.

variable "hosts" {
  type = list(string)
}

variable "kind" {
  type = string
}

variable "routers" {
  type = number
}

variable "tls" {
  type = bool
}

variable "ca_cert" {
  type = string
}

variable "admin_password" {
  type      = string
  sensitive = true
}

variable "seed" {
  type      = string
  sensitive = true
}

variable "shell" {
  type = string
}

variable "binding_id" {
  type = string
}

locals {
  database = "default"
  username = "pcf_${md5(base64encode(var.binding_id))}"
  password = md5(var.seed)

  # The routers of a sharded cluster are the first of its servers, by the sum of the bytes of their addresses.
  sorted = sort([for i, host in var.hosts : format("%04d %04d %s", try(sum(split(".", host)), 0), i, host)])
  hosts  = var.kind == "sharded_cluster" ? [for i, entry in local.sorted : split(" ", entry)[2] if i < var.routers] : var.hosts

  servers = [for host in local.hosts : "${host}:28000"]
  options = join("&", concat(
    ["authSource=admin"], var.kind == "replica_set" ? ["replicaSet=pcf_repl"] : [], var.tls ? ["ssl=true"] : [],
  ))
  roles = concat(["userAdmin", "dbAdmin", "readWrite"], [for role in ["userAdmin", "dbAdmin", "readWrite"] : { role = role, db = local.database }])
}

# A user that cannot be made is not dropped by the roll-back: OpenTofu drops a resource whose creation failed without its destroy-time
# command. The next request takes it over.
resource "terraform_data" "user" {
  input = { name = local.username }

  provisioner "local-exec" {
    command = "mongodb-user create"
    environment = {
      SHELL_COMMAND = var.shell
      URI           = "mongodb://admin:${urlencode(var.admin_password)}@${join(",", local.servers)}/admin?${local.options}"
      CA            = var.ca_cert
      # The order of the keys counts: the first is the command.
      UPDATE = format("{\"updateUser\":%s,\"pwd\":%s,\"roles\":%s}", jsonencode(local.username), jsonencode(local.password), jsonencode(local.roles))
      CREATE = format("{\"createUser\":%s,\"pwd\":%s,\"roles\":%s}", jsonencode(local.username), jsonencode(local.password), jsonencode(local.roles))
    }
  }

  # It knows the servers and the administrator of now, not those of the creation.
  provisioner "local-exec" {
    when    = destroy
    command = "mongodb-user delete"
    environment = {
      SHELL_COMMAND = jsondecode(file("terraform.tfvars.json")).shell
      URI = format(
        "mongodb://admin:%s@%s/admin?%s",
        urlencode(jsondecode(file("terraform.tfvars.json")).admin_password),
        join(",", jsondecode(file("terraform.tfvars.json")).kind != "sharded_cluster"
          ? [for host in jsondecode(file("terraform.tfvars.json")).hosts : "${host}:28000"]
          : [
            for i, entry in sort([
              for i, host in jsondecode(file("terraform.tfvars.json")).hosts : format("%04d %04d %s", try(sum(split(".", host)), 0), i, host)
            ]) : "${split(" ", entry)[2]}:28000" if i < jsondecode(file("terraform.tfvars.json")).routers
        ]),
        join("&", concat(
          ["authSource=admin"],
          jsondecode(file("terraform.tfvars.json")).kind == "replica_set" ? ["replicaSet=pcf_repl"] : [],
          jsondecode(file("terraform.tfvars.json")).tls ? ["ssl=true"] : [],
        )),
      )
      CA   = jsondecode(file("terraform.tfvars.json")).ca_cert
      DROP = jsonencode({ dropUser = self.input.name })
    }
  }
}

output "username" {
  value = local.username
}

output "password" {
  value     = local.password
  sensitive = true
}

output "database" {
  value = local.database
}

output "servers" {
  value = local.servers
}

output "ssl" {
  value = var.tls
}

output "uri" {
  value     = "mongodb://${local.username}:${local.password}@${join(",", local.servers)}/${local.database}?${local.options}"
  sensitive = true
}
